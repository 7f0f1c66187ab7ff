"""What the reproduction shows in the terminal when it is done."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from lopgpn_exp.report.audit import VERDICTS, counts
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES
from lopgpn_exp.report.reproduction import Reproduction

FILES = {
    "audit.html": "every cell with a verdict, the claims, the choices",
    "table1.html": "the paper's table",
    "arc.pdf": "the accuracy-rejection curves",
    "runs.parquet": "the runs that all of it is made from",
}


def show_reproduction(done: Reproduction) -> None:
    console = Console(highlight=False)
    printed = done.audit[done.audit["printed"]]
    table = Table(title="Printed cells of the paper's table", title_justify="left", box=None, padding=(0, 1))
    for name in ("model", *VERDICTS, "median difference"):
        table.add_column(name, justify="left" if name == "model" else "right")
    found = counts(printed, "model")
    for model in [m for m in MODEL_NAMES if m in found.index]:
        row = found.loc[model]
        table.add_row(MODEL_NAMES[model], *(f"{row[v]:.0f}" for v in VERDICTS), f"{row['median']:.2f}")
    console.print("", table, "")
    for claim in done.claims:
        console.print(f"  {claim.verdict:14} {claim.name}", markup=False)
    missing = [DATASET_NAMES[d] for d in DATASET_NAMES if d not in set(done.runs.main["dataset"])]
    if missing:
        console.print(f"\nLeft out, for want of finished runs: {', '.join(missing)}")
    console.print(f"\n{len(done.runs.main)} runs")
    for name, words in FILES.items():
        if (done.folder / name).is_file():
            console.print(f"  {done.folder / name}  {words}", soft_wrap=True, markup=False)
    console.print(f"next     xdg-open {done.folder / 'audit.html'}", soft_wrap=True)
