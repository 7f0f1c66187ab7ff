"""The frame of an HTML page: nothing from the network, light and dark as the reader's system has it."""

from html import escape

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --line: #c9c9c9; --soft: #f1f3f5; --dim: #5c5c5c; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8e8; --back: #16181b; --line: #44484d; --soft: #22262a; --dim: #a9adb2; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
       max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; } h3 { font-size: 1.05rem; }
code { background: var(--soft); padding: 0 .25em; border-radius: 3px; font-size: .92em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .86rem; margin: .8rem 0; }
th, td { padding: .18rem .5rem; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); }
tbody td, tbody th { border-bottom: 1px solid var(--soft); font-weight: normal; }
td.number, th.number { text-align: right; white-space: nowrap; }
table.paper td, table.paper thead th { text-align: right; white-space: nowrap; padding: .12rem .34rem; }
table.paper thead th.group { text-align: center; }
table.paper .group { border-left: 1px solid var(--line); }
table.paper tbody { border-bottom: 2px solid var(--line); }
table.paper th.model { white-space: nowrap; font-weight: 600; text-align: right; }
table.paper th.dataset { vertical-align: middle; }
table.paper u { text-decoration-thickness: 1px; text-underline-offset: 2px; }
figure { margin: 1rem 0; } figcaption { color: var(--dim); font-size: .86rem; }
figure svg { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
""".strip()


def page(title: str, body: str, *, style: str = "") -> str:
    """`style` is what this page needs beyond what all pages share."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}\n{style}</style>",
            "</head>",
            "<body>",
            body,
            "</body>",
            "</html>",
            "",
        ]
    )
