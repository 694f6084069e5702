"""The text of the option ``filter``: conditions as in SQL's WHERE. Pure.

``partition in (0, 2) and timestamp >= '2026-01-31T12:00:00Z' and value.user.name like 'A%' or key is null``. A name
with other characters than letters, digits and ``_`` stands in backquotes. Bytes are ``X'00ff'``.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NoReturn

from kpybroker.machines.scan.columns import HEADERS, PLAIN
from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.filters import AllOf, AnyOf, Column, ColumnIn, Compare, Filter, IsNull, Like, Literal, Not

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DEEPEST: Final = 100
LARGEST: Final = (1 << 63) - 1
WORDS: Final = ("and", "or", "not", "in", "is", "null", "like", "between", "true", "false")
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<bytes>[xX]'(?:[0-9a-fA-F]{2})*') | (?P<text>'(?:[^']|'')*') | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?) | (?P<name>[^\W\d]\w*)
    | (?P<sign><=>|<=|>=|!=|<>|==|[=<>(),.])
    )""",
    re.VERBOSE,
)
_SAME: Final = {"==": "=", "<>": "!="}
_WHOLE: Final = ("partition", "offset", "timestampType")


def parse_filter(text: str) -> Filter:
    """The filter that a text says. Raises BadOption."""
    return _Parser(text).whole()


class _Parser:
    """Reads a text from left to right. ``_tokens``: (kind, text, position) each, and an end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                self._fail(position, "cannot be read")
            kind = str(match.lastgroup)
            word = match[kind]
            if kind == "name" and word.lower() in WORDS:
                kind, word = "word", word.lower()
            self._tokens.append((kind, _SAME.get(word, word), match.start(match.lastgroup or 0)))
            position = match.end()
        self._tokens.append(("end", "", len(text)))
        self._at = 0
        self._depth = 0

    def whole(self) -> Filter:
        found = self._any()
        if self._tokens[self._at][0] != "end":
            self._expected("and, or or the end")
        return found

    def _fail(self, position: int, problem: str) -> NoReturn:
        shown = self._text[position : position + 30] or "its end"
        raise BadOption(f"filter: {problem} at {shown!r}, character {position + 1} of {self._text[:200]!r}")

    def _expected(self, what: str) -> NoReturn:
        self._fail(self._tokens[self._at][2], f"{what} is expected")

    def _take(self, kind: str, *words: str) -> str | None:
        """The next token if it is of this kind and one of these words, which is then passed."""
        found, word, _ = self._tokens[self._at]
        if found != kind or (words and word not in words):
            return None
        self._at += 1
        return word

    def _must(self, kind: str, word: str) -> None:
        if self._take(kind, word) is None:
            self._expected(word)

    def _any(self) -> Filter:
        return self._chain("or", self._all, AnyOf)

    def _all(self) -> Filter:
        return self._chain("and", self._one, AllOf)

    def _chain(self, word: str, read: Callable[[], Filter], combine: Callable[[tuple[Filter, ...]], Filter]) -> Filter:
        parts = [read()]
        while self._take("word", word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else combine(tuple(parts))

    def _one(self) -> Filter:
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(self._tokens[self._at][2], "conditions are nested too deeply")
        try:
            if self._take("word", "not"):
                return Not(self._one())
            if self._take("sign", "("):
                found = self._any()
                self._must("sign", ")")
                return found
            return self._condition()
        finally:
            self._depth -= 1

    def _condition(self) -> Filter:
        column = self._column()
        if self._take("word", "is"):
            negated = self._take("word", "not")
            self._must("word", "null")
            return Not(IsNull(column)) if negated else IsNull(column)
        if (sign := self._take("sign", "=", "!=", "<", "<=", ">", ">=")) is not None:
            return Compare(column, sign, self._literal(column))
        negated = self._take("word", "not")
        if self._take("word", "in"):
            found: Filter = ColumnIn(column, self._literals(column))
        elif self._take("word", "like"):
            found = Like(column, self._pattern(column))
        elif self._take("word", "between"):
            low = self._literal(column)
            self._must("word", "and")
            found = AllOf((Compare(column, ">=", low), Compare(column, "<=", self._literal(column))))
        else:
            self._expected("=, !=, <, <=, >, >=, in, like, between or is null")
        return Not(found) if negated else found

    def _column(self) -> Column:
        position = self._tokens[self._at][2]
        name = self._name()
        known = {each.lower(): each for each in PLAIN}
        if name.lower() == HEADERS:
            self._fail(position, "headers cannot be filtered")
        if name.lower() not in known:
            self._fail(position, f"there is no column {name}; there are {', '.join(PLAIN)}")
        path = []
        while self._take("sign", "."):
            path.append(self._name())
        column = Column(known[name.lower()], tuple(path))
        if path and column.name not in ("key", "value"):
            self._fail(position, f"{column.name} has no fields; key and value may have, as JSON")
        return column

    def _name(self) -> str:
        kind, word, _ = self._tokens[self._at]
        if kind not in ("name", "quoted", "word"):
            self._expected("the name of a column or field")
        self._at += 1
        return word[1:-1].replace("``", "`") if kind == "quoted" else word

    def _literals(self, column: Column) -> tuple[Literal, ...]:
        self._must("sign", "(")
        values = [self._literal(column)]
        while self._take("sign", ","):
            values.append(self._literal(column))
        self._must("sign", ")")
        return tuple(values)

    def _literal(self, column: Column) -> Literal:
        kind, word, position = self._tokens[self._at]
        self._at += 1
        value: Literal
        if kind == "number":
            value = float(word) if set(word) & set(".eE") else int(word)
        elif kind == "text":
            value = word[1:-1].replace("''", "'")
        elif kind == "bytes":
            value = bytes.fromhex(word[2:-1])
        elif kind == "word" and word in ("true", "false"):
            value = word == "true"
        else:
            self._at -= 1
            self._expected("a value: 5, 'text', true or X'00ff'")
        try:
            return _as_column(column, value)
        except ValueError as error:
            self._fail(position, f"{column} {error}")

    def _pattern(self, column: Column) -> str:
        if not column.path and column.name not in ("key", "value", "topic"):
            self._expected("in, between or a comparison")
        _, word, position = self._tokens[self._at]
        if self._take("text") is None:
            self._fail(position, "a pattern such as 'A%' is expected")
        return word[1:-1].replace("''", "'")


def _as_column(column: Column, value: Literal) -> Literal:
    """A value with the type that the column has. ValueError if it has none."""
    if column.path:
        if isinstance(value, bytes):
            raise ValueError("is a JSON field, which is never bytes")
        return value
    if column.name in _WHOLE:
        if type(value) is not int or abs(value) > LARGEST:
            raise ValueError("is a whole number of at most 64 bits")
        return value
    if column.name == "timestamp":
        return _microseconds(value)
    if column.name == "topic":
        if not isinstance(value, str):
            raise ValueError("is a text")
        return value
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise ValueError(f"is bytes; a JSON field of it is {column}.NAME")
    return value


def _microseconds(value: Literal) -> int:
    """A time: whole milliseconds since 1970, or a text in ISO 8601, which is UTC unless it says otherwise."""
    if type(value) is int:
        if abs(value) > LARGEST // 1000:
            raise ValueError("is a time in milliseconds since 1970")
        return value * 1000
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError("is a time such as '2026-01-31T12:00:00Z', or milliseconds since 1970") from None
    return microseconds(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def microseconds(moment: datetime) -> int:
    """A time with its zone as microseconds since 1970."""
    past = moment - EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds
