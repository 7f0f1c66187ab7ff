"""Charts as SVG text, in the page's own colours: they turn dark with it.

A page of eight charts takes some 10 ms so; matplotlib takes 400 ms for them, and every run writes a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

Values = Any  # a list or an array of numbers

STYLE = """
.charts { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: flex-start; }
.charts .column { display: flex; flex-direction: column; max-width: 100%; }
svg.chart { max-width: 100%; height: auto; flex: none; }
svg.chart text { font: 11px system-ui, sans-serif; fill: currentColor; }
svg.chart .title { font-size: 12.5px; font-weight: 600; } svg.chart .dim { fill: var(--dim); }
svg.chart .grid { stroke: var(--line); stroke-width: .6; opacity: .6; } svg.chart .frame { stroke: var(--dim); }
svg.chart polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg.chart .middle { text-anchor: middle; } svg.chart .end { text-anchor: end; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .86rem; margin: .3rem 0; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
"""


def ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, at most about so many."""
    power = 10.0 ** math.floor(math.log10((high - low) / about))
    step = next(power * factor for factor in (1, 2, 5, 10) if (high - low) / (power * factor) <= about + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def span(values: Iterable[float], *, margin: float = 0.04) -> tuple[float, float]:
    """A range that holds all values with some space around; never empty, also where all values are the same."""
    array = np.fromiter(values, dtype=float)
    low, high = float(array.min()), float(array.max())
    space = margin * (high - low) if high > low else 0.1 * abs(high) or 0.1
    return low - space, high + space


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: Any) -> Any:
        """Of a number or of an array."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


class Chart:
    """Axes, and the marks drawn into them, each in the units of the data.

    Args:
        kind: what is drawn, so that a reader of the file finds it again.
        x, y: smallest and largest value of an axis.
        x_ticks, y_ticks: labels at values instead of round numbers.
    """

    def __init__(
        self,
        kind: str,
        title: str,
        *,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str = "",
        y_label: str = "",
        size: tuple[int, int] = (390, 290),
        x_ticks: dict[float, str] | None = None,
        y_ticks: dict[float, str] | None = None,
    ) -> None:
        self.kind, self.title, self.labels, self.size = kind, title, (x_label, y_label), size
        width, height = size
        self.x = Axis(*x, 52.0 if y_label else 40.0, width - 10.0)
        self.y = Axis(*y, height - (38.0 if x_label else 22.0), 24.0)
        self.x_ticks = x_ticks or {value: f"{value:g}" for value in ticks(*x)}
        self.y_ticks = y_ticks or {value: f"{value:g}" for value in ticks(*y)}
        self.marks: list[str] = []

    def line(self, xs: Values, ys: Values, color: str, name: str, *, dash: str = "") -> None:
        pattern = f' stroke-dasharray="{dash}"' if dash else ""
        self.marks.append(
            f'<polyline stroke="{color}"{pattern} points="{self._points(xs, ys)}">{_hover(name)}</polyline>'
        )

    def band(self, xs: Values, low: Values, high: Values, color: str) -> None:
        points = f"{self._points(xs, low)} {self._points(xs[::-1], high[::-1])}"
        self.marks.append(f'<polygon fill="{color}" fill-opacity=".18" points="{points}"/>')

    def steps(self, edges: Values, heights: Values, color: str, name: str) -> None:
        """A histogram as one filled outline."""
        xs = np.repeat(edges, 2)
        ys = np.concatenate([[0], np.repeat(heights, 2), [0]])
        self.marks.append(
            f'<polygon fill="{color}" fill-opacity=".38" stroke="{color}" stroke-width="1.4" '
            f'points="{self._points(xs, ys)}">{_hover(name)}</polygon>'
        )

    def bar(self, left: float, right: float, top: float, color: str, name: str, *, shade: float = 1.0) -> None:
        self._rectangle(left, right, 0.0, top, color, name, shade, below=0)

    def cell(self, column: int, row: int, color: str, name: str, *, shade: float) -> None:
        """One unit wide and high."""
        self._rectangle(column, column + 1, row + 1, row, color, name, shade, below=1)

    def _rectangle(
        self, left: float, right: float, low: float, high: float, color: str, name: str, shade: float, *, below: int
    ) -> None:
        """A pixel is left free to the right, and as many as wanted below."""
        x, y = self.x(left), self.y(high)
        width, height = self.x(right) - x - 1, self.y(low) - y - below
        self.marks.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}" '
            f'fill-opacity="{shade:.2f}">{_hover(name)}</rect>'
        )

    def dot(self, x: float, y: float, color: str, name: str, *, interval: tuple[float, float] | None = None) -> None:
        at = self.x(x)
        if interval is not None:
            low, high = map(self.y, interval)
            self.marks.append(f'<path d="M{at:.1f} {low:.1f}V{high:.1f}" stroke="{color}" stroke-width="1.6"/>')
        self.marks.append(f'<circle cx="{at:.1f}" cy="{self.y(y):.1f}" r="3.6" fill="{color}">{_hover(name)}</circle>')

    def text(self, x: float, y: float, text: str, *, size: float = 11.0) -> None:
        """In the middle of a point."""
        self.marks.append(
            f'<text class="middle" x="{self.x(x):.1f}" y="{self.y(y) + 0.36 * size:.1f}" '
            f'style="font-size:{size:.3g}px">{escape(text)}</text>'
        )

    def svg(self, *, grid: bool = True) -> str:
        width, height = self.size
        lines = [
            f'<svg class="chart" data-chart="{escape(self.kind)}" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(self.title)}">',
            f'<text class="title" x="{self.x.start:.0f}" y="14">{escape(self.title)}</text>',
            *self._axes(grid),
            *self.marks,
            "</svg>",
        ]
        return "\n".join(lines)

    def _axes(self, grid: bool) -> Iterable[str]:
        x, y = self.x, self.y
        for value, label in self.x_ticks.items():
            if grid:
                yield f'<path class="grid" d="M{x(value):.1f} {y.start:.1f}V{y.end:.1f}"/>'
            yield f'<text class="middle xtick" x="{x(value):.1f}" y="{y.start + 14:.1f}">{escape(label)}</text>'
        for value, label in self.y_ticks.items():
            if grid:
                yield f'<path class="grid" d="M{x.start:.1f} {y(value):.1f}H{x.end:.1f}"/>'
            yield f'<text class="end ytick" x="{x.start - 5:.1f}" y="{y(value) + 4:.1f}">{escape(label)}</text>'
        if grid:
            yield f'<path class="frame" fill="none" d="M{x.start:.1f} {y.end:.1f}V{y.start:.1f}H{x.end:.1f}"/>'
        x_label, y_label = map(escape, self.labels)
        middle = (y.start + y.end) / 2
        yield f'<text class="middle dim" x="{(x.start + x.end) / 2:.0f}" y="{self.size[1] - 4}">{x_label}</text>'
        yield f'<text class="middle dim" transform="translate(12 {middle:.0f}) rotate(-90)">{y_label}</text>'

    def _points(self, xs: Values, ys: Values) -> str:
        across, down = self.x(np.asarray(xs)), self.y(np.asarray(ys))
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across.tolist(), down.tolist(), strict=True))


def sideways_bars(kind: str, title: str, bars: Sequence[tuple[str, float, str, str]]) -> str:
    """A bar a row: its name, length, what is written at its end, and colour."""
    longest = max(length for _, length, _, _ in bars) or 1.0
    height = 30 + 22 * len(bars)
    rows = []
    for row, (name, length, text, color) in enumerate(bars):
        y, width = 26 + 22 * row, 195 * length / longest
        rows += [
            f'<text class="end" x="112" y="{y + 11}">{escape(name)}</text>',
            f'<rect x="118" y="{y}" width="{width:.1f}" height="15" fill="{color}"/>',
            f'<text x="{123 + width:.1f}" y="{y + 11}">{escape(text)}</text>',
        ]
    head = f'<svg class="chart" data-chart="{escape(kind)}" viewBox="0 0 380 {height}" width="380" height="{height}"'
    label = f'role="img" aria-label="{escape(title)}"><text class="title" x="8" y="14">{escape(title)}</text>'
    return "\n".join([f"{head} {label}", *rows, "</svg>"])


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Names and colours, above the charts that share them."""
    items = "".join(f'<span><i style="background:{color}"></i>{escape(name)}</span>' for name, color in entries)
    return f'<div class="legend">{items}</div>'


def charts(elements: Iterable[str]) -> str:
    return "\n".join(['<div class="charts">', *elements, "</div>"])


def _hover(name: str) -> str:
    return f"<title>{escape(name)}</title>" if name else ""
