"""Check that no page of the site loads anything from another machine: it must work without a network."""

from __future__ import annotations

import re
import sys
from pathlib import Path

REMOTE = r"""["']?(?:https?:)?//[^"'\s>]*"""
REMOTE_TAG = re.compile(rf"<(?:script|img|iframe|source)\b[^>]*\bsrc={REMOTE}|<link\b[^>]*\bhref={REMOTE}")


def find_remote_resources(site: Path) -> list[str]:
    """Return the tags that make a browser contact another machine, with their pages."""
    return [f"{page}: {tag}" for page in sorted(site.rglob("*.html")) for tag in REMOTE_TAG.findall(page.read_text())]


if __name__ == "__main__":
    sys.exit("\n".join(find_remote_resources(Path(sys.argv[1]))) or None)
