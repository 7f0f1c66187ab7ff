"""The terminal as all reports print to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
import rich.table
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from lopgpn_exp.errors import printable


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


def _escape(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, Text):
        cell = cell.copy()
        cell.plain = printable(cell.plain)
        return cell
    return printable(cell) if isinstance(cell, str) else cell
