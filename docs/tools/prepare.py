"""What the site shows and nobody wrote: results of the project's own commands, notebooks with what they showed, a font.

All of it goes to `docs/made/`, which is no part of the sources. No number is copied by hand.
"""

from __future__ import annotations

import os
import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

DOCS = Path(__file__).resolve().parents[1]
MADE = DOCS / "made"
RESULTS = (
    "reproduction/audit.md",
    "reproduction/table1.md",
    "reproduction/*.png",
    "reproduction/figure*.svg",
    "readme/*.png",
    "bench/*.png",
)
WIDE = "---\nhide: [navigation, toc]\n---\n\n# The paper's table, by our runs\n\n"  # 21 columns need all the room
FONT = "fonts/STIXTwoMath-Regular.ttf"  # of the package ziamath, which has it to draw formulas with
SECONDS = 300  # for one cell of a notebook
QUIET = {"PYTHONWARNINGS": "ignore:IProgress not found"}  # tqdm's, of a widget that a page cannot show


def main() -> None:
    shutil.rmtree(MADE, ignore_errors=True)
    MADE.mkdir()
    for pattern in RESULTS:
        for path in (DOCS.parent / "outputs").glob(pattern):
            shutil.copy(path, MADE)
    table = MADE / "table1.md"
    table.write_text(WIDE + table.read_text())
    with as_file(files("ziamath") / FONT) as path:
        shutil.copy(path, MADE)
    for path in sorted(DOCS.glob("notebooks/*.ipynb")):
        write_page(path)


def write_page(path: Path) -> None:
    """A notebook, run in a folder of its own, as a page with its outputs; an error in it is an error here."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": folder}})
        client.execute(env=os.environ | QUIET)
    names = {"unique_key": path.stem, "output_files_dir": path.stem}
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources=names)
    link = f"[The notebook itself](../notebooks/{path.name}), to run and to change.\n"
    (MADE / f"{path.stem}.md").write_text(in_site_style(text) + link)
    for name, picture in resources["outputs"].items():
        (MADE / name).parent.mkdir(exist_ok=True)
        (MADE / name).write_bytes(picture)


def in_site_style(text: str) -> str:
    """Tables of pandas as the site's own; output, which the exporter indents, as blocks of plain text."""
    text = re.sub(r'<style scoped>.*?</style>|(?<=<table) border="1" class="dataframe"', "", text, flags=re.S)
    return re.sub(r"(?<=\n\n)(?: {4}.*\n+)+", _block, text)


def _block(indented: re.Match[str]) -> str:
    shown = dedent(indented[0]).strip()
    return f"```text\n{shown}\n```\n\n" if shown else ""


if __name__ == "__main__":
    main()
