"""The measurements as tables and as two figures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.scaling import QUANTITIES, fit_exponents
from benchmarks.timing import Record

COLORS = {"baseline": "#EE6677", "project": "#4477AA", "floor": "#777777"}
NAMES = {"baseline": "plain baseline", "project": "lopgpn_exp", "floor": "floor"}


def format_epochs(records: list[Record]) -> str:
    """Return one line per model and dataset: milliseconds per epoch, speed-up, and distance from the floor."""
    heads = "".join(f"{head:>13s}" for head in ("baseline", "lopgpn_exp", "floor", "speed-up", "of floor"))
    lines = [f"{'model':10s} {'dataset':18s}{heads}"]
    for (model, dataset), by_name in _group(records).items():
        cells = [f"{1e3 * by_name[name]['seconds']:.1f} ±{100 * by_name[name]['spread']:.0f}%" for name in NAMES]
        cells += [f"{by_name['baseline']['ratio']:.1f}x", f"{1 / by_name['floor']['ratio']:.1f}x"]
        lines.append(f"{model:10s} {dataset:18s}" + "".join(f"{cell:>13s}" for cell in cells))
    return "Milliseconds per epoch (median ± half the interquartile range)\n" + "\n".join(lines) + "\n"


def format_runs(records: list[Record]) -> str:
    """Return one line per model: seconds of a whole run, those of training, the difference, and of all cores."""
    heads = "".join(f"{head:>13s}" for head in ("seconds", "training", "rest", "CPU"))
    lines = [f"{'model':10s} {'dataset':18s}{heads}"]
    for record in records:
        seconds, training = record["seconds"], record["training"]
        cells = [_with_spread(record), f"{training:.2f}", f"{seconds - training:.2f}", f"{record['cpu']:.2f}"]
        lines.append(f"{record['model']:10s} {record['dataset']:18s}" + "".join(f"{cell:>13s}" for cell in cells))
    return "Seconds of a first run, from process start to its end\n" + "\n".join(lines) + "\n"


def format_startup(records: list[Record]) -> str:
    """Return one line per command: its seconds, and their multiple of importing torch."""
    lines = [f"{'':29s}{'seconds':>13s}{'CPU':>13s}{'of torch':>13s}"]
    for record in records:
        cells = [_with_spread(record), f"{record['cpu']:.2f}", f"{record['ratio']:.2f}x"]
        lines.append(f"{record['what']:29s}" + "".join(f"{cell:>13s}" for cell in cells))
    return "Start-up: commands that show a finished run\n" + "\n".join(lines) + "\n"


def format_scaling(records: list[Record]) -> str:
    """Return one line per quantity: its value at every size, and the exponent of its growth."""
    sizes = sorted({record["num_nodes"] for record in records})
    values = {(record["what"], record["num_nodes"]): record["value"] for record in records}
    exponents = fit_exponents(records)
    lines = [f"{'':30s}" + "".join(f"{size:>12,d}" for size in sizes) + f"{'exponent':>12s}"]
    for key, name in QUANTITIES.items():
        cells = "".join(f"{values[key, size]:12.3g}" for size in sizes)
        exponent = f"{exponents[key]:12.2f}" if key in exponents else ""
        lines.append(f"{name + ', ' + _unit(key):30s}{cells}{exponent}")
    return "LOP-GPN on synthetic graphs, by number of nodes\n" + "\n".join(lines) + "\n"


def draw_epochs(records: list[Record], path: Path) -> None:
    """Draw the seconds per epoch of all three implementations, one panel per model."""
    from matplotlib.figure import Figure

    groups = _group(records)
    models = list(dict.fromkeys(model for model, _ in groups))
    figure = Figure(figsize=(4 * len(models), 3.6), layout="constrained")
    for axes, model in zip(figure.subplots(1, len(models), sharey=True, squeeze=False)[0], models, strict=True):
        datasets = [dataset for name, dataset in groups if name == model]
        for offset, name in enumerate(NAMES):
            seconds = [groups[model, dataset][name]["seconds"] for dataset in datasets]
            positions = [position + 0.27 * (offset - 1) for position in range(len(datasets))]
            axes.bar(positions, seconds, width=0.25, color=COLORS[name], label=NAMES[name])
        for position, dataset in enumerate(datasets):
            baseline = groups[model, dataset]["baseline"]
            place = (position, baseline["seconds"])
            axes.annotate(f"{baseline['ratio']:.0f}x", place, ha="center", va="bottom", fontsize=9)
        axes.set(title=model, yscale="log", xticks=range(len(datasets)))
        axes.set_xticklabels(datasets, rotation=20, ha="right")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("seconds per epoch")
    figure.axes[-1].legend(frameon=False)
    figure.savefig(path, dpi=150)


def draw_scaling(records: list[Record], path: Path) -> None:
    """Draw each quantity against the number of nodes, both axes logarithmic, with the fitted exponent."""
    from matplotlib.figure import Figure

    exponents = fit_exponents(records)
    figure = Figure(figsize=(3 * len(QUANTITIES), 3), layout="constrained")
    for axes, (key, name) in zip(figure.subplots(1, len(QUANTITIES)), QUANTITIES.items(), strict=True):
        points = sorted((record["num_nodes"], record["value"]) for record in records if record["what"] == key)
        axes.loglog(*zip(*points, strict=True), marker="o", color=COLORS["project"])
        axes.set_title(name + (f"\nN^{exponents[key]:.2f}" if key in exponents else ""), fontsize=10)
        axes.set(xlabel="nodes", ylabel=_unit(key))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _with_spread(record: Record) -> str:
    return f"{record['seconds']:.2f} ±{100 * record['spread']:.0f}%"


def _unit(quantity: str) -> str:
    return "MB" if quantity.endswith("_mb") else "s"


def _group(records: list[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    """Return the records by model and dataset, then by implementation."""
    groups: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        groups.setdefault((record["model"], record["dataset"]), {})[record["what"]] = record
    return groups
