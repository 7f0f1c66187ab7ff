"""Mutations of text files that keep their structure: a value of JSON or YAML, or a cell of a table, is replaced."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from tests.support.hostile import MARKER, mutate

Mutation = Callable[[bytes, random.Random], bytes]
DEEP = "@deep@"  # stands for lists nested too deeply for an encoder
ODD_NUMBERS = (0, -1, 1, 2**31, -(2**63), 10**30, 1.5, 1e308, 5e-324, float("nan"), float("inf"), -float("inf"))
ODD_TEXTS = (
    *("", " ", "NaN", "null", "-1", "1e999", "None", "a\nb", "\0", "\u202e", "\ud800", "é" * 300, "x" * 100_000, DEEP),
    *("../../x", "/etc/passwd", "~", "$HOME", "${oc.env:HOME}", "a=b", "'", '"', "`id`", "; touch " + MARKER),
    *(
        "\x1b[2J",
        "=HYPERLINK(1)",
        "<script>",
        "%s%n",
        "{0}",
        "os.system",
        "subprocess.Popen",
        "evil.Evil",
        "torch.load",
    ),
    *("lopgpn_exp.commands.dispatch.os.system", "builtins.exec", "lopgpn_exp.models.GPN", "lopgpn_exp.models.Model"),
)
ODD_VALUES = (*ODD_NUMBERS, *ODD_TEXTS, None, True, [], {}, [[]], [1], ["a"], {"a": 1}, {"_target_": "os.system"})
ODD_CELLS = (*ODD_VALUES, '"a\nb"', '"', '""', "1,2", "true", "0x1F", "\u0661", "1_000", "2e5")
YAML_LINES = (
    f"x: !!python/object/apply:os.system ['touch {MARKER}']",
    "!!python/name:os.system",
    "a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: &d [*c, *c, *c, *c]",
    "a: &a [*a]",
    "<<: {model: x}",
    "? [1, 2] : 3",
    "%YAML 9.9",
    "--- \n---",
    "model: {_target_: evil.Evil}",
    "x: !!binary aaaa",
    "- 1",
)


def mutate_json(content: bytes, rng: random.Random) -> bytes:
    """Return JSON in which some values are replaced, removed, repeated or renamed; or with mutated bytes."""
    if rng.random() < 0.2:
        return mutate(content, rng)
    text = json.dumps(mutate_tree(json.loads(content), rng))
    return text.replace(f'"{DEEP}"', "[" * 100_000 + "]" * 100_000).encode()


def mutate_yaml(content: bytes, rng: random.Random) -> bytes:
    """Return YAML in which some values are replaced, removed, repeated or renamed; or with odd lines or bytes."""
    kind = rng.choice(("bytes", "line", "tree", "tree", "tree"))
    if kind == "bytes":
        return mutate(content, rng)
    if kind == "line":
        lines = content.decode().splitlines()
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(YAML_LINES))
        return "\n".join(lines).encode()
    text = yaml.safe_dump(mutate_tree(yaml.safe_load(content), rng), sort_keys=False)
    return text.replace(DEEP, "[" * 500 + "]" * 500).encode("utf-8", "surrogatepass")


def mutate_tree(tree: Any, rng: random.Random) -> Any:
    """Return a copy of nested dicts and lists in which one to three places are changed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(list_places(tree))
        if not places or rng.random() < 0.02:
            return rng.choice(ODD_VALUES)
        parent, key = rng.choice(places)
        kind = rng.choice(("replace", "replace", "replace", "remove", "rename", "move", "repeat"))
        if kind == "remove":
            del parent[key]
        elif kind == "rename" and isinstance(parent, dict):
            parent[str(rng.choice(ODD_VALUES))] = parent.pop(key)
        elif kind == "repeat":
            parent[key] = [parent[key]] * rng.choice((1, 2, 1000))
        elif kind == "move":
            source, name = rng.choice(places)
            parent[key] = copy.deepcopy(source[name]) if _has(source, name) else None
        else:
            parent[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    return tree


def _has(parent: Any, key: Any) -> bool:
    return key in parent if isinstance(parent, dict) else key < len(parent)


def list_places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (parent, key) of every value below a dict or a list; of long lists only the first entries."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:3]) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from list_places(value)


def mutate_csv(content: bytes, rng: random.Random) -> bytes:
    """Return a table with odd cells, or rows and columns that are missing, repeated or reordered; or mutated bytes."""
    if rng.random() < 0.3:
        return mutate(content, rng)
    rows = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(rng.choice((1, 2, 5))):
        row = rows[rng.choice((0, rng.randrange(len(rows))))]
        column = rng.randrange(len(row)) if row else 0
        kind = rng.choice(("cell", "cell", "cell", "drop", "duplicate", "column", "shuffle", "blank"))
        if kind == "cell" and row:
            row[column] = str(rng.choice(ODD_CELLS))
        elif kind == "drop" and row:
            del row[column]
        elif kind == "duplicate":
            rows.insert(rng.randrange(len(rows)), list(row))
        elif kind == "column":
            rows = [[*cells[:column], *cells[column + 1 :]] for cells in rows]
        elif kind == "shuffle":
            rng.shuffle(rows)
        else:
            rows.insert(rng.randrange(len(rows)), [])
    end = rng.choice(("\n", "\n", "\r\n", "\r"))
    return end.join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")
