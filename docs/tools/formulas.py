"""Formulas become MathML as the site is built: nothing is loaded and nothing runs in the reader's browser."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

AFTER_INLINE = 15  # Markdown's own: inline 20, prettify 10


class MathML(Treeprocessor):
    """In place of what `pymdownx.arithmatex` (generic) found between dollars."""

    def run(self, root: Element) -> None:
        for parent in root.iter():
            for at, child in enumerate(parent):
                if child.get("class") == "arithmatex":
                    tex = " ".join((child.text or "")[2:-2].split())  # \( and \), or \[ and \]
                    formula = convert_to_element(tex, display="block" if child.tag == "div" else "inline")
                    formula.tail = child.tail
                    parent[at] = formula


class Formulas(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  (Markdown's name)
        md.treeprocessors.register(MathML(md), "mathml", AFTER_INLINE)


def makeExtension(**options: Any) -> Formulas:  # noqa: N802  (Markdown's name)
    return Formulas(**options)
