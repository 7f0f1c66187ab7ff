"""A griffe extension that turns Sphinx formulas and doctest examples in docstrings into Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":math:`([^`]+)`")
DIRECTIVE = re.compile(r"^( *)\.\. math:: *(.+(?:\n\1 +.+)*)", re.M)
EXAMPLE = re.compile(r"^(?: *(?:>>>|\.\.\.)(?: .*)?\n?)+", re.M)
PROMPT = re.compile(r"(?m)^ *(?:>>>|\.\.\.) ?")


class MarkdownDocstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """Turn the role `:math:` into $x$, a directive `.. math::` into $$x$$, and doctest lines into a code block."""
    text = DIRECTIVE.sub(lambda match: f"{match[1]}$${' '.join(match[2].split())}$$", text)
    text = EXAMPLE.sub(lambda match: "```python\n" + PROMPT.sub("", match[0]).rstrip() + "\n```\n", text)
    return ROLE.sub(r"$\1$", text)
