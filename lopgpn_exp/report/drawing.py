"""Saving a figure for print, browser and README, the same bytes each time it is drawn."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

# Ids in an SVG are random unless salted; dates and versions would change every file at every build.
SETTINGS = {"svg.hashsalt": "lopgpn_exp", "pdf.fonttype": 42, "path.simplify": True}
METADATA = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """`name.pdf`, `name.svg` and `name.png`."""
    _lay_out(figure)
    paths = []
    for kind, metadata in METADATA.items():
        path = folder / f"{name}.{kind}"
        with matplotlib.rc_context(SETTINGS):
            figure.savefig(path, metadata=metadata, dpi=150)
        paths.append(path)
    return paths


def as_svg(figure: Figure) -> str:
    """The figure as an element to put into a page."""
    _lay_out(figure)
    buffer = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", metadata=METADATA["svg"])
    text = buffer.getvalue()
    return text[text.index("<svg") :].strip()


def _lay_out(figure: Figure) -> None:
    """Once for all files, as it takes longest; by two passes, of which the first does not know all labels yet."""
    for _ in range(2):
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
