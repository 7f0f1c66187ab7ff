"""A text of headings, paragraphs, tables and figures that is written once and read as Markdown or HTML.

Texts use two marks of Markdown, which HTML gets as elements: `code` in backticks and **bold** in asterisks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from lopgpn_exp.report.page import page


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
    """Columns from `numbers_from` on hold numbers and stand to the right."""

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
    """A file beside the Markdown; inside the HTML, which needs nothing beside it."""

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


def to_html(title: str, blocks: Sequence[Block]) -> str:
    return page(title, "\n".join(block.html() for block in blocks))


def _inline(text: str) -> str:
    marked = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", marked)
