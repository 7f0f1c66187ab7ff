"""What a page loads lies beside it: the site is for machines without a network, too."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ELSEWHERE = r"""["']?(?:https?:)?//[^"'\s>]*"""
LOADED = re.compile(rf"<(?:script|img|iframe|source)\b[^>]*\bsrc={ELSEWHERE}|<link\b[^>]*\bhref={ELSEWHERE}")


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Of each page, the tags that make a browser ask another machine."""
    return [f"{page}: {found}" for page in sorted(site.rglob("*.html")) for found in LOADED.findall(page.read_text())]


if __name__ == "__main__":
    sys.exit("\n".join(loaded_from_elsewhere(Path(sys.argv[1]))) or None)
