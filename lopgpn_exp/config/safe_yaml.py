"""Read YAML that may come from elsewhere: plain values only, and limits on its size, nesting and aliases."""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

MAX_CHARACTERS = 200_000  # the config of a run has about 2,000
MAX_DEPTH = 50
MAX_VALUES = 20_000  # with every alias replaced by what it stands for
PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge")}


def parse_yaml(text: str) -> Any:
    """Return the content of a YAML text: dicts, lists, strings, numbers, booleans and None.

    Raises:
        ValueError: if the text is not valid, holds anything else, or exceeds one of the limits.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{len(text):,} characters of YAML, more than {MAX_CHARACTERS:,}")
    try:
        return yaml.load(text, Loader=_LimitedLoader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line}{error.problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    except LookupError as error:  # PyYAML does not check a value against an explicit tag: `!!bool x`
        raise ValueError(f"a value does not match its tag ({error})") from None


class _LimitedLoader(yaml.SafeLoader):
    """Checks every node while it is composed, before anything is built from it. Dates are strings, as in Hydra."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}  # by the id of a complete node, aliases included

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.YAMLError(f"values are nested more than {MAX_DEPTH} levels deep")
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        assert node is not None
        if is_alias and id(node) not in self._sizes:
            raise yaml.YAMLError("an alias stands for a value that contains it")
        if node.tag not in PLAIN_TAGS:
            raise yaml.YAMLError(f"{node.tag.rpartition(':')[2]} is not a plain value")
        if not is_alias:
            self._sizes[id(node)] = self._count_values(node)
        return node

    def construct_yaml_int(self, node: Any) -> int:
        value = super().construct_yaml_int(node)
        if not -(2**63) <= value < 2**63:
            raise yaml.YAMLError("a whole number has more than 64 bits")
        return value

    def _count_values(self, node: yaml.Node) -> int:
        children = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in children for part in pair]
        size = 1 + sum(self._sizes[id(child)] for child in children)
        if size > MAX_VALUES:
            raise yaml.YAMLError(f"more than {MAX_VALUES:,} values")
        return size


_LimitedLoader.add_constructor("tag:yaml.org,2002:int", _LimitedLoader.construct_yaml_int)
