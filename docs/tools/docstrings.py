"""Docstrings in the words of the pages: formulas and examples are otherwise in those of Sphinx and doctest."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":math:`([^`]+)`")
DIRECTIVE = re.compile(r"^( *)\.\. math:: *(.+(?:\n\1 +.+)*)", re.M)
EXAMPLE = re.compile(r"^(?: *>>> .*\n?)+", re.M)


class InMarkdown(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = in_markdown(obj.docstring.value)


def in_markdown(text: str) -> str:
    """The role `:math:` as $x$, a directive `.. math::` as a paragraph $$x$$, lines after `>>>` as a block of code."""
    text = DIRECTIVE.sub(lambda found: f"{found[1]}$${' '.join(found[2].split())}$$", text)
    text = EXAMPLE.sub(lambda found: "```python\n" + re.sub(r"(?m)^ *>>> ", "", found[0]).rstrip() + "\n```\n", text)
    return ROLE.sub(r"$\1$", text)
