"""Collect everything that the site shows but nobody types: results, executed notebooks, repository files, a font.

All of it is written to `docs/generated/`, which is not under version control. No number is copied by hand.
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
ROOT = DOCS.parent
GENERATED = DOCS / "generated"
RESULTS = (
    "reproduction/audit.md",
    "reproduction/published_table.md",
    "reproduction/table1.md",
    "reproduction/*.png",
    "reproduction/figure*.svg",
    "heterophily/heterophily.md",
    "heterophily/arc.png",
    "benchmark/leaderboard.*",
    "benchmark/*.png",
    "readme/*.png",
    "bench/*.png",
)
WIDE_HEADER = "---\nhide: [navigation, toc]\n---\n\n# Table 1\n\n"  # 21 columns need the full width
REPOSITORY_FILES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
FONT = "fonts/STIXTwoMath-Regular.ttf"  # shipped with the package ziamath
CELL_TIMEOUT = 300  # seconds
ENVIRONMENT = {"PYTHONWARNINGS": "ignore:IProgress not found"}  # a tqdm widget that a static page cannot show


def main() -> None:
    shutil.rmtree(GENERATED, ignore_errors=True)
    GENERATED.mkdir()
    for pattern in RESULTS:
        for path in (ROOT / "outputs").glob(pattern):
            shutil.copy(path, GENERATED)
    shutil.copy(ROOT / "outputs" / "benchmark" / "audit.md", GENERATED / "benchmark_audit.md")
    table = GENERATED / "table1.md"
    table.write_text(WIDE_HEADER + table.read_text())
    for name in REPOSITORY_FILES:
        (GENERATED / name.lower()).write_text(relink((ROOT / name).read_text()))
    with as_file(files("ziamath") / FONT) as path:
        shutil.copy(path, GENERATED)
    for path in sorted(DOCS.glob("notebooks/*.ipynb")):
        write_notebook_page(path)


def relink(text: str) -> str:
    """Make the links of a file in the root of the repository valid in `docs/generated/`."""
    for name in REPOSITORY_FILES:
        text = text.replace(f"]({name})", f"]({name.lower()})")
    return text.replace("](docs/", "](../")


def write_notebook_page(path: Path) -> None:
    """Execute a notebook in an empty folder and write it as a page with its outputs. Errors in it are raised."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=CELL_TIMEOUT, resources={"metadata": {"path": folder}})
        client.execute(env=os.environ | ENVIRONMENT)
    names = {"unique_key": path.stem, "output_files_dir": path.stem}
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources=names)
    link = f"[Download the notebook](../notebooks/{path.name}) to run and change it.\n"
    (GENERATED / f"{path.stem}.md").write_text(f"{format_outputs(text)}\n{link}")
    for name, picture in resources["outputs"].items():
        (GENERATED / name).parent.mkdir(exist_ok=True)
        (GENERATED / name).write_bytes(picture)


def format_outputs(text: str) -> str:
    """Give pandas tables the style of the site, and turn outputs, which the exporter indents, into text blocks."""
    text = re.sub(r'<style scoped>.*?</style>|(?<=<table) border="1" class="dataframe"', "", text, flags=re.S)
    return re.sub(r"(?<=\n\n)(?: {4}.*\n+)+", _text_block, text)


def _text_block(indented: re.Match[str]) -> str:
    output = dedent(indented[0]).strip()
    return f"```text\n{output}\n```\n\n" if output else ""


if __name__ == "__main__":
    main()
