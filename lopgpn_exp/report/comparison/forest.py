"""A forest plot as SVG inside a page: it takes the colours of the page, light or dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isnan, log10

COLORS = ("currentColor", "#4477AA", "#EE6677", "#228833")  # seen on light and on dark
SHAPES = (  # tell sides apart without colours; None is a circle
    None,
    ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
    ((0, -5), (5, 0), (0, 5), (-5, 0)),
    ((0, -5), (5, 4), (-5, 4)),
)
LEFT, WIDTH, ROW, GAP = 150, 760, 20, 14
NAME_LENGTH = 60


@dataclass(frozen=True)
class Point:
    """A difference and its interval; NaN ends are no interval."""

    name: str
    side: str
    difference: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def ends(self) -> list[float]:
        return [value for value in (self.difference, self.low, self.high) if not isnan(value)]


def forest(points: Sequence[Point], sides: Sequence[str], *, title: str) -> str | None:
    """Points on one axis, a band a name and within it a line a side. None if there is nothing to draw."""
    if not points:
        return None
    names = list(dict.fromkeys(point.name for point in points))
    several = len(sides) > 1
    ticks = _ticks(min(0.0, *(min(p.ends) for p in points)), max(0.0, *(max(p.ends) for p in points)))
    top = 6 + (ROW * len(sides) if several else 0)
    line = 0.65 * ROW if several else ROW
    band = line * len(sides) + (0.5 * ROW if several else 0)
    bottom = top + band * len(names)

    def x(value: float) -> float:
        return LEFT + GAP + (WIDTH - LEFT - 2 * GAP) * (value - ticks[0]) / (ticks[-1] - ticks[0])

    parts = []
    for tick in ticks:
        color = "var(--text)" if tick == 0 else "var(--line)"
        parts.append(_line((x(tick), x(tick)), (top, bottom), f"stroke: {color}"))
        parts.append(_text(x(tick), bottom + 15, f"{tick:+g}" if tick else "0", "middle", "var(--dim)"))
    parts += [_text(LEFT, top + band * (i + 0.5) + 4, name, "end", "var(--text)") for i, name in enumerate(names)]
    for point in points:
        j = sides.index(point.side)
        middle = top + band * (names.index(point.name) + 0.5) + line * (j - (len(sides) - 1) / 2)
        parts.append(_point(point, x, middle, j))
    for j, side in enumerate(sides if several else []):
        parts.append(_mark(LEFT + GAP, 10 + ROW * j, j, filled=True))
        parts.append(_text(LEFT + GAP + 10, 14 + ROW * j, side[:NAME_LENGTH], "start", "var(--text)"))
    size = f'viewBox="0 0 {WIDTH} {bottom + 22:.0f}" width="{WIDTH}" height="{bottom + 22:.0f}" font-size="12"'
    style = 'style="background: none; color: var(--text)"'  # not the white ground that printed figures get
    return "\n".join([f'<svg {size} role="img" aria-label="differences: {escape(title)}" {style}>', *parts, "</svg>"])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, about six of them, from one that is not above `low` to one that is not below `high`."""
    rough = max(high - low, 1e-6) / 6
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first, last = floor(low / step), ceil(high / step)
    return [round(step * i, 9) for i in range(first, max(last, first + 1) + 1)]


def _point(point: Point, x: Callable[[float], float], y: float, j: int) -> str:
    known = not isnan(point.low)
    interval = f" [{point.low:+.2f}, {point.high:+.2f}]" if known else ""
    text = f"<title>{escape(f'{point.side}: {point.name} {point.difference:+.2f}{interval}')}</title>"
    style = f"stroke: {COLORS[j % len(COLORS)]}; stroke-width: 2"
    whisker = _line((x(point.low), x(point.high)), (y, y), style) if known else ""
    return f"<g>{text}{whisker}{_mark(x(point.difference), y, j, filled=point.excludes_zero)}</g>"


def _mark(x: float, y: float, j: int, *, filled: bool) -> str:
    color, shape = COLORS[j % len(COLORS)], SHAPES[j % len(SHAPES)]
    style = f'style="fill: {color if filled else "var(--back)"}; stroke: {color}; stroke-width: 1.5"'
    if shape is None:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {style}/>'
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in shape)}" {style}/>'


def _line(xs: tuple[float, float], ys: tuple[float, float], style: str) -> str:
    at = f'x1="{xs[0]:.1f}" x2="{xs[1]:.1f}" y1="{ys[0]:.1f}" y2="{ys[1]:.1f}"'
    return f'<line {at} style="{style}"/>'


def _text(x: float, y: float, text: str, anchor: str, color: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="fill: {color}">{escape(text)}</text>'
