"""Read an HTML page: its elements, and its charts in the units of the data."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np


class Reader(HTMLParser):
    """Collects tags with their attributes, and checks that every element is closed in order."""

    VOID = ("meta", "br", "img", "input", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def charts(page: str, kind: str) -> list[ElementTree.Element]:
    """Return the charts of one kind."""
    elements = [ElementTree.fromstring(text) for text in re.findall(r'<svg class="chart".*?</svg>', page, re.S)]
    return [element for element in elements if element.get("data-chart") == kind]


def in_data_units(chart: ElementTree.Element, points: np.ndarray) -> np.ndarray:
    """Convert pixels to values, using the labels of the axes."""
    fits = []
    for axis, place, offset in (("xtick", "x", 0), ("ytick", "y", -4)):
        labels = [text for text in chart.iter("text") if axis in text.get("class", "")]
        pixels = [float(label.get(place)) + offset for label in labels]
        fits.append(np.polyfit(pixels, [float(label.text) for label in labels], 1))
    return np.stack([np.polyval(fit, points[:, i]) for i, fit in enumerate(fits)], axis=1)


def lines(chart: ElementTree.Element) -> dict[str, np.ndarray]:
    """Return the polylines by their hover text, in the units of the data."""
    curves = {}
    for line in chart.iter("polyline"):
        points = np.array([[float(c) for c in pair.split(",")] for pair in line.get("points").split()])
        curves[line.find("title").text] = in_data_units(chart, points)
    return curves


def check_self_contained(page: str) -> None:
    """Check that a page is well formed, loads nothing, and draws no NaN."""
    reader = Reader(page)
    assert "link" not in {tag for tag, _ in reader.tags}
    for _, attributes in reader.tags:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp", page)
    numbers = re.findall(r'(?:points|x|y|width|height|cx|cy|d)="([^"]*)"', page)
    assert not any("nan" in text or "inf" in text for text in numbers)
