"""Comparisons of values in JSON documents, as people type them: ``$.from == "ZRH" and $.seats[0] > 10``. Pure.

The grammar, with spaces anywhere between the parts::

    comparisons = comparison { "and" comparison }
    comparison  = path [ operator literal ]
    path        = "$" { "." name | "[" number "]" | "[" string "]" | "[*]" }
    operator    = "==" | "!=" | "<" | "<=" | ">" | ">=" | "contains"
    literal     = string | number | "true" | "false" | "null", all as in JSON

A path alone matches where it leads to a value. ``[*]`` leads to all elements of a list and all members of an object;
one that matches is enough. Values of different kinds are never equal and have no order. ``contains`` finds a text
within a text, and an element of a list.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

MOST_CHARACTERS: Final = 1000
EVERY: Final = None
"""The step to all elements of a list, or all members of an object."""

Step = str | int | None
Literal = str | int | float | bool | None


class BadPath(ValueError):
    """A text is no comparison of a path. The message is one line for the person that typed it."""


class PathComparison(NamedTuple):
    """A comparison of the values at a path with a literal. Without an operator a value has to be there."""

    steps: tuple[Step, ...]
    operator: str = ""
    literal: Literal = None

    def matches(self, document: Any) -> bool:
        """Whether a value at the path compares so."""
        if not self.operator:
            return any(True for _ in _values(document, self.steps))
        compare = _COMPARE[self.operator]
        return any(compare(value, self.literal) for value in _values(document, self.steps))

    @property
    def texts(self) -> tuple[bytes, ...]:
        """The texts that every match has: the names of its path, and a text that it is compared with. A document may
        have them with escapes, which begin with a backslash."""
        names = [step for step in self.steps if isinstance(step, str)]
        if self.operator in ("==", "contains") and isinstance(self.literal, str):
            names.append(self.literal)
        return tuple(name.encode("utf-8", "surrogatepass") for name in names)

    def __str__(self) -> str:
        path = "$" + "".join(_written(step) for step in self.steps)
        return f"{path} {self.operator} {json.dumps(self.literal)}" if self.operator else path


def comparisons_in(text: str) -> tuple[PathComparison, ...]:
    """The comparisons of a text. Raises BadPath."""
    if len(text) > MOST_CHARACTERS:
        raise BadPath(f"a JSON path has at most {MOST_CHARACTERS} characters")
    return _ComparisonParser(text).comparisons()


def document_of(data: bytes) -> Any:
    """The JSON document of a value; one that Confluent's serializer wrote begins with five bytes of its own. Raises
    ValueError or RecursionError for what is not JSON in UTF-8."""
    text = (data[5:] if data[:1] == b"\0" else data).decode()
    return json.loads(text, parse_constant=_no_number)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _written(step: Step) -> str:
    if step is EVERY:
        return "[*]"
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _NAME.fullmatch(step) else f"[{json.dumps(step)}]"


# Comparing


def _values(document: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    found = [document]
    for step in steps:
        found = [each for value in found for each in _behind(value, step)]
    return iter(found)


def _behind(value: Any, step: Step) -> list[Any]:
    if step is EVERY:
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if isinstance(step, int):
        return [value[step]] if isinstance(value, list) and step < len(value) else []
    return [value[step]] if isinstance(value, dict) and step in value else []


def _is_same(value: Any, literal: Literal) -> bool:
    return _kind(value) is _kind(literal) and bool(value == literal)


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _contains(value: Any, literal: Literal) -> bool:
    if isinstance(value, str):
        return isinstance(literal, str) and literal in value
    return isinstance(value, list) and any(_is_same(each, literal) for each in value)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Literal], bool]:
    def compares(value: Any, literal: Literal) -> bool:
        return _kind(value) in (float, str) and _kind(value) is _kind(literal) and compare(value, literal)

    return compares


_COMPARE: Final[dict[str, Callable[[Any, Literal], bool]]] = {
    "==": _is_same,
    "!=": lambda value, literal: not _is_same(value, literal),
    "<=": _ordered(operator.le),
    ">=": _ordered(operator.ge),
    "<": _ordered(operator.lt),
    ">": _ordered(operator.gt),
    "contains": _contains,
}


# Parsing

_NAME: Final = re.compile(r"[^\W\d][\w-]*")
_SPACE: Final = re.compile(r"\s*")
_STEP: Final = re.compile(
    rf'\.(?P<name>{_NAME.pattern})|\[\s*(?:(?P<number>\d{{1,9}})|(?P<every>\*)|(?P<quoted>"(?:[^"\\]|\\.)*"))\s*\]'
)
_OPERATOR: Final = re.compile(r"[=!]=|<=?|>=?|contains\b")
_AND: Final = re.compile(r"and\b")
_LITERAL: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|true\b|false\b|null\b'
)


class _ComparisonParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def comparisons(self) -> tuple[PathComparison, ...]:
        found = [self._comparison()]
        while self._take(_AND) is not None:
            found.append(self._comparison())
        if self._place < len(self._text):
            raise self._bad("==, !=, <, <=, >, >=, contains or and")
        return tuple(found)

    def _comparison(self) -> PathComparison:
        self._skip()
        if not self._text.startswith("$", self._place):
            raise self._bad('a path such as $.from or $.legs[0]["to"]')
        self._place += 1
        steps: list[Step] = []
        while (step := _STEP.match(self._text, self._place)) is not None:
            self._place = step.end()
            steps.append(self._step(step))
        if self._text[self._place : self._place + 1] in (".", "["):
            raise self._bad('.name, [number], ["name"] or [*]')
        compared = self._take(_OPERATOR)
        if compared is None:
            return PathComparison(tuple(steps))
        literal = self._take(_LITERAL)
        if literal is None:
            raise self._bad(f'"text", a number, true, false or null behind {compared}')
        return PathComparison(tuple(steps), compared, self._loaded(literal))

    def _step(self, step: re.Match[str]) -> Step:
        if step["every"]:
            return EVERY
        if step["number"]:
            return int(step["number"])
        return step["name"] or str(self._loaded(step["quoted"]))

    def _loaded(self, text: str) -> Literal:
        try:
            found: Literal = json.loads(text)
        except ValueError:
            raise BadPath(f"{text} is no text or number of JSON") from None
        return found

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        self._skip()
        found = pattern.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        self._skip()
        return found[0]

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._place)
        if found is not None:
            self._place = found.end()

    def _bad(self, wanted: str) -> BadPath:
        if self._place >= len(self._text):
            return BadPath(f"it ends where {wanted} is expected")
        return BadPath(f"{wanted} is expected, not {self._text[self._place : self._place + 40]!r}")
