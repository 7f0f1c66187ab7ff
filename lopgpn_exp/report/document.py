"""HTML pages, and documents of headings, paragraphs, tables and pictures that are rendered as Markdown or HTML.

Texts may use two marks of Markdown, which become elements in HTML: `code` in backticks and **bold** in asterisks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --line: #c9c9c9; --soft: #f1f3f5; --dim: #5c5c5c; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8e8; --back: #16181b; --line: #44484d; --soft: #22262a; --dim: #a9adb2; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
       max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; } h3 { font-size: 1.05rem; }
code { background: var(--soft); padding: 0 .25em; border-radius: 3px; font-size: .92em; }
.note { color: var(--dim); font-size: .9rem; max-width: 60rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .86rem; margin: .8rem 0; }
th, td { padding: .18rem .5rem; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); }
tbody td, tbody th { border-bottom: 1px solid var(--soft); font-weight: normal; }
td.number, th.number { text-align: right; white-space: nowrap; }
table.paper td, table.paper thead th { text-align: right; white-space: nowrap; padding: .12rem .34rem; }
table.paper thead th.group { text-align: center; }
table.paper .group { border-left: 1px solid var(--line); }
table.paper tbody { border-bottom: 2px solid var(--line); }
table.paper th.model { white-space: nowrap; font-weight: 600; text-align: right; }
table.paper th.dataset { vertical-align: middle; }
table.paper u { text-decoration-thickness: 1px; text-underline-offset: 2px; }
figure { margin: 1rem 0; } figcaption { color: var(--dim); font-size: .86rem; }
figure svg { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
""".strip()

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def render_page(title: str, body: str, *, style: str = "") -> str:
    """Return a complete HTML page that loads nothing from the network and follows the system's light or dark mode.

    Args:
        style: CSS beyond what all pages share.
    """
    return PAGE.format(title=escape(title), style=f"{STYLE}\n{style}", body=body)


@dataclass(frozen=True)
class Heading:
    level: int
    text: str

    def markdown(self) -> str:
        return f"{'#' * self.level} {self.text}"

    def html(self) -> str:
        return f"<h{self.level}>{_inline(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph:
    text: str

    def markdown(self) -> str:
        return self.text

    def html(self) -> str:
        return f"<p>{_inline(self.text)}</p>"


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]

    def markdown(self) -> str:
        return "\n".join(f"- {item}" for item in self.items)

    def html(self) -> str:
        return "\n".join(["<ul>", *(f"<li>{_inline(item)}</li>" for item in self.items), "</ul>"])


@dataclass(frozen=True)
class Table:
    """A table whose columns from index `numbers_from` on hold numbers, which are aligned right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers_from: int = 1

    def markdown(self) -> str:
        rule = [("---:" if i >= self.numbers_from else "---") for i in range(len(self.head))]
        rows = [self.head, rule, *([cell.replace("|", r"\|") for cell in row] for row in self.rows)]
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    def html(self) -> str:
        kinds = [' class="number"' if i >= self.numbers_from else "" for i in range(len(self.head))]
        head = "".join(f"<th{k}>{_inline(cell)}</th>" for k, cell in zip(kinds, self.head, strict=True))
        body = (
            "<tr>" + "".join(f"<td{k}>{_inline(c)}</td>" for k, c in zip(kinds, row, strict=True)) + "</tr>"
            for row in self.rows
        )
        lines = [f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>', *body, "</tbody></table></div>"]
        return "\n".join(lines)


@dataclass(frozen=True)
class Picture:
    """An SVG picture: a link to `file` in Markdown, embedded in HTML."""

    file: str
    caption: str
    svg: str

    def markdown(self) -> str:
        return f"![{self.caption}]({self.file})"

    def html(self) -> str:
        return f"<figure>{self.svg}<figcaption>{_inline(self.caption)}</figcaption></figure>"


Block = Heading | Paragraph | Bullets | Table | Picture


def to_markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block.markdown() for block in blocks) + "\n"


def to_html(title: str, blocks: Sequence[Block], *, style: str = "") -> str:
    return render_page(title, "\n".join(block.html() for block in blocks), style=style)


def _inline(text: str) -> str:
    marked = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", marked)
