"""YAML with line numbers, where every scalar stays the text that was written.

Only the node tree is composed; no object is ever constructed from a tag.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.reader import ReaderError

from dpcli.errors import PlanError

Path = tuple[str | int, ...]
MOST_REPEATED = 100_000
MOST_LEVELS = 60
_NULLS = ("", "~", "null", "Null", "NULL")
_CORE = tuple(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "map", "seq")
)
_PLAIN_WORDS = [
    (r"found character '\\?t' that cannot start", "a tab stands where only spaces may; indent with spaces"),
    (r"found character (.+) that cannot start", r"a value can't start with {0}; put the text in quotes"),
    (
        r"mapping values are not allowed",
        "a ':' stands where none is expected; check the indentation and quotes",
    ),
    (r"could not find expected ':'", "a ':' is missing after a key"),
    (r"expected ',' or '([\]}])'", "a list or mapping in brackets lacks a ',' or its closing '{0}'"),
    (r"found unexpected end of stream", "a quote is opened and never closed"),
    (r"expected <block end>", "this does not fit the lines above; check the indentation and quotes"),
    (
        r"sequence entries are not allowed",
        "a list's '- ' stands where none is expected; start a new line with it",
    ),
    (r"found unknown escape character '(.+)'", "'\\{0}' means nothing in double quotes; use single ones"),
    (r"but found '<stream end>'", "the file ends before this value does"),
    (r"found undefined alias '(.+)'", "the alias *{0} has no anchor &{0} above it"),
    (r"but found another document", "a second document starts here; a file holds one"),
]


@dataclass(frozen=True)
class Located:
    """A YAML file's content as dicts, lists, texts and None, and the line of every path in it."""

    value: Any
    source: str
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest one above it that is written; 0 for none."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def where(self, path: Path) -> str:
        """Return ``file, line 7``, or the file alone where no line is known."""
        line = self.line(path)
        return f"{self.source}, line {line}" if line else self.source


def read_yaml(text: str, source: str) -> Located:
    """Read one YAML document; ``source`` is the file's name for error messages.

    An empty document has the value None. Raises ``PlanError`` with the line at fault.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be set anew
            root = YAML(typ="safe", pure=True).compose(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise PlanError(f"{source}, line {line}: an invisible control character; delete it") from None
    except MarkedYAMLError as error:
        raise PlanError(_syntax_error(error, source)) from None
    except RecursionError:
        raise PlanError(f"{source}: nested more than {MOST_LEVELS} levels deep") from None
    except (YAMLError, ValueError) as error:
        raise PlanError(f"{source}: not readable as YAML ({error})") from None
    if root is None:
        return Located(None, source)
    reader = _Reader(source)
    return Located(reader.read(root, ()), source, reader.lines)


def _syntax_error(error: MarkedYAMLError, source: str) -> str:
    problem = str(error.problem)
    for pattern, words in _PLAIN_WORDS:
        if match := re.search(pattern, problem):
            problem = words.format(*match.groups())
            break
    opened = error.context_mark
    mark = error.problem_mark or opened
    if opened is not None and mark is not None and opened.line < mark.line and error.context:
        problem += f" (see line {opened.line + 1})"
    return f"{source}, line {mark.line + 1}: {problem}" if mark is not None else f"{source}: {problem}"


class _Reader:
    """Turns a node tree into plain values, noting lines and refusing what a plan has no use for."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[Path, int] = {}
        self._seen: set[int] = set()
        self._repeated = 0

    def read(self, node: Node, path: Path) -> Any:
        self._check(node, path)
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        return [self.read(item, (*path, place)) for place, item in enumerate(node.value)]

    def _check(self, node: Node, path: Path) -> None:
        if id(node) in self._seen:
            self._repeated += 1
        self._seen.add(id(node))
        if self._repeated > MOST_REPEATED:
            self._refuse(node, f"its aliases repeat more than {MOST_REPEATED:,} values")
        if len(path) > MOST_LEVELS:
            self._refuse(node, f"nested more than {MOST_LEVELS} levels deep")
        if (tag := str(node.tag)) not in _CORE:
            written = tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(node, f"the tag {written} has no meaning here; delete it")

    def _mapping(self, node: Node, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if str(key_node.tag) == "tag:yaml.org,2002:merge":
                self._refuse(key_node, "the merge key << is not supported; write the keys out")
            key = self._scalar(key_node) if isinstance(key_node, ScalarNode) else None
            if key is None:
                self._refuse(key_node, "a key must be a word; put it in quotes if it is one")
            here, line = (*path, key), key_node.start_mark.line + 1
            if key in found:
                self._refuse(key_node, f"the key '{key}' is already set on line {self.lines[here]}")
            self.lines[here] = line
            found[key] = self.read(value_node, here)
        return found

    def _scalar(self, node: Node) -> str | None:
        text = str(node.value)
        if str(node.tag).endswith(":null") and text in _NULLS:
            return None
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            self._refuse(node, "the text is not valid Unicode")
        return text

    def _refuse(self, node: Node, problem: str) -> NoReturn:
        raise PlanError(f"{self.source}, line {node.start_mark.line + 1}: {problem}")
