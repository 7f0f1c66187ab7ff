"""The parts of the README that are generated from results, never typed."""

from __future__ import annotations

import re
from pathlib import Path

from lopgpn_exp.errors import InputError
from lopgpn_exp.report import typeset
from lopgpn_exp.report.audit_text import summary
from lopgpn_exp.report.document import to_markdown
from lopgpn_exp.report.reproduction import Reproduction


def readme_parts(done: Reproduction) -> dict[str, str]:
    """By the name in their markers, `<!-- table1 -->` and `<!-- /table1 -->`."""
    return {
        "table1": typeset.to_markdown(typeset.grid(done.runs.main)).strip(),
        "audit": to_markdown(list(summary(done.runs, done.audit, done.claims))).strip(),
    }


def update_readme(path: Path, done: Reproduction) -> None:
    path.write_text(updated(path.read_text(), readme_parts(done)))


def updated(text: str, parts: dict[str, str]) -> str:
    for name, content in parts.items():
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)"
        text, count = re.subn(pattern, lambda m, new=content: f"{m[1]}{new}{m[2]}", text, flags=re.S)
        if count != 1:
            raise InputError(
                f"the README has {count} places for {name}",
                expected=f"one <!-- {name} --> ... <!-- /{name} -->",
                hint="put the two markers on lines of their own",
            )
    return text
