"""A Markdown extension that renders formulas as MathML when the site is built: no script, no download."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

AFTER_INLINE = 15  # priority between Markdown's own inline (20) and prettify (10)


class MathML(Treeprocessor):
    """Replaces the formulas that `pymdownx.arithmatex` (generic) has marked."""

    def run(self, root: Element) -> None:
        for parent in root.iter():
            for index, child in enumerate(parent):
                if child.get("class") == "arithmatex":
                    tex = " ".join((child.text or "")[2:-2].split())  # without \( and \), or \[ and \]
                    formula = convert_to_element(tex, display="block" if child.tag == "div" else "inline")
                    formula.tail = child.tail
                    parent[index] = formula


class Formulas(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  (the name is given by Markdown)
        md.treeprocessors.register(MathML(md), "mathml", AFTER_INLINE)


def makeExtension(**options: Any) -> Formulas:  # noqa: N802  (the name is given by Markdown)
    return Formulas(**options)
