"""What was measured, as a table and as two figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.scaling import QUANTITIES, exponents

COLORS = {"baseline": "#EE6677", "project": "#4477AA", "floor": "#777777"}
NAMES = {"baseline": "plain baseline", "project": "lopgpn_exp", "floor": "floor"}

Record = dict[str, Any]


def epoch_table(records: list[Record]) -> str:
    heads = "".join(f"{head:>13s}" for head in ("baseline", "lopgpn_exp", "floor", "speed-up", "of floor"))
    lines = [f"{'model':10s} {'dataset':18s}{heads}"]
    for (model, dataset), by in _grouped(records).items():
        cells = [f"{1e3 * by[what]['seconds']:.1f} ±{100 * by[what]['spread']:.0f}%" for what in NAMES]
        cells += [f"{by['baseline']['ratio']:.1f}x", f"{1 / by['floor']['ratio']:.1f}x"]
        lines.append(f"{model:10s} {dataset:18s}" + "".join(f"{cell:>13s}" for cell in cells))
    return "milliseconds an epoch (median, half the middle half's range)\n" + "\n".join(lines) + "\n"


def scaling_table(records: list[Record]) -> str:
    sizes = sorted({record["num_nodes"] for record in records})
    values = {(record["what"], record["num_nodes"]): record["value"] for record in records}
    grows = exponents(records)
    lines = [f"{'':30s}" + "".join(f"{size:>12,d}" for size in sizes) + f"{'exponent':>12s}"]
    for what, name in QUANTITIES.items():
        unit = "MB" if what.endswith("_mb") else "s"
        cells = "".join(f"{values[what, size]:12.3g}" for size in sizes)
        lines.append(f"{name + ', ' + unit:30s}" + cells + (f"{grows[what]:12.2f}" if what in grows else ""))
    return "LOP-GPN on synthetic graphs, by number of nodes\n" + "\n".join(lines) + "\n"


def draw_epochs(records: list[Record], path: Path) -> None:
    """Seconds an epoch of all three, a panel a model."""
    from matplotlib.figure import Figure

    grouped = _grouped(records)
    models = list(dict.fromkeys(model for model, _ in grouped))
    figure = Figure(figsize=(4 * len(models), 3.6), layout="constrained")
    for axes, model in zip(figure.subplots(1, len(models), sharey=True, squeeze=False)[0], models, strict=True):
        datasets = [dataset for name, dataset in grouped if name == model]
        for offset, what in enumerate(NAMES):
            seconds = [grouped[model, dataset][what]["seconds"] for dataset in datasets]
            places = [place + 0.27 * (offset - 1) for place in range(len(datasets))]
            axes.bar(places, seconds, width=0.25, color=COLORS[what], label=NAMES[what])
        for place, dataset in enumerate(datasets):
            by = grouped[model, dataset]
            axes.annotate(
                f"{by['baseline']['ratio']:.0f}x",
                (place, by["baseline"]["seconds"]),
                ha="center",
                va="bottom",
                fontsize=9,
            )
        axes.set(title=model, yscale="log", xticks=range(len(datasets)))
        axes.set_xticklabels(datasets, rotation=20, ha="right")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("seconds an epoch")
    figure.axes[-1].legend(frameon=False)
    figure.savefig(path, dpi=150)


def draw_scaling(records: list[Record], path: Path) -> None:
    """Each quantity against the number of nodes, both axes logarithmic, with the fitted exponent."""
    from matplotlib.figure import Figure

    grows = exponents(records)
    figure = Figure(figsize=(3 * len(QUANTITIES), 3), layout="constrained")
    for axes, (what, name) in zip(figure.subplots(1, len(QUANTITIES)), QUANTITIES.items(), strict=True):
        points = sorted((r["num_nodes"], r["value"]) for r in records if r["what"] == what)
        axes.loglog(*zip(*points, strict=True), marker="o", color=COLORS["project"])
        axes.set_title(name + (f"\nN^{grows[what]:.2f}" if what in grows else ""), fontsize=10)
        axes.set(xlabel="nodes", ylabel="MB" if what.endswith("_mb") else "seconds")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _grouped(records: list[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        found.setdefault((record["model"], record["dataset"]), {})[record["what"]] = record
    return found
