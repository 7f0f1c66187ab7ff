"""Training loss and validation cross-entropy of each epoch."""

from __future__ import annotations

MAX_POINTS = 200  # per series; a chart cannot show more


class History:
    """Records series of points (epoch, value)."""

    def __init__(self) -> None:
        self._series: dict[str, list[list[float]]] = {"training/loss": [], "training/val_nll": []}

    def add(self, name: str, epoch: int, value: float) -> None:
        self._series[name].append([epoch, value])

    def points(self) -> dict[str, list[list[float]]]:
        """Return at most `MAX_POINTS` points per series, including the first, last and lowest."""
        return {name: thin_points(points, MAX_POINTS) for name, points in self._series.items()}


def thin_points(points: list[list[float]], max_points: int) -> list[list[float]]:
    """Return at most `max_points` evenly spaced points, including the first, last and lowest."""
    if len(points) <= max_points:
        return points
    last = len(points) - 1
    indices = {round(i * last / (max_points - 2)) for i in range(max_points - 1)}
    indices.add(min(range(len(points)), key=lambda i: points[i][1]))
    return [points[i] for i in sorted(indices)]
