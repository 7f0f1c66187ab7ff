"""The terminal as all reports print to it, and tables in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import rich.console
import rich.table
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from lopgpn_exp.errors import printable

UNLIMITED = 1000  # columns: more than any table needs


class Console(rich.console.Console):
    """Rich's console for text that may come from a file: no markup, and control characters as escapes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


class Table(rich.table.Table):
    """Rich's table; control characters are escaped before the widths of the columns are measured."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_escape, cells), **options)


def new_table(columns: Sequence[str], *, left: Collection[str], title: str = "", padding: int = 1) -> Table:
    """Return an empty table without borders. The columns named in `left` are aligned left, the others right."""
    table = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        box=None,
        padding=(0, padding),
        header_style="bold",
    )
    for column in columns:
        table.add_column(Text(printable(column)), justify="left" if column in left else "right")
    return table


def print_table(table: Table) -> None:
    """Print a table at its full width: long lines are readable in a narrow terminal, truncated cells are not."""
    width = Console(width=UNLIMITED).measure(table).maximum
    Console(width=width).print(table)


def _escape(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, Text):
        cell = cell.copy()
        cell.plain = printable(cell.plain)
        return cell
    return printable(cell) if isinstance(cell, str) else cell
