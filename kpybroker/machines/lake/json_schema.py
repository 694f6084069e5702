"""The columns of JSON documents: inferred, widened, never narrowed. Pure.

A field becomes a column of the type of its first values, widened from long to double while a schema is being inferred.
Null is missing. Objects and lists in fields are JSON text. A value that does not fit the column ``x`` is in the column
``x__str``: a string as it is, anything else as JSON text. So no value is lost, and a column never changes its type.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kpybroker.machines.lake.naming import DELTA, ColumnNames, NamingRule

BOOLEAN: Final = "boolean"
LONG: Final = "long"
DOUBLE: Final = "double"
STRING: Final = "string"
JSON: Final = "json"
"""Objects and lists, as text. It is a string in a table; a table's string column takes both."""

MOST_COLUMNS: Final = 1_000
LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1
_LONGS: Final = range(LEAST, MOST + 1)
PYTHON: Final[dict[str, type]] = {BOOLEAN: bool, LONG: int, DOUBLE: float, STRING: str, JSON: str}

Document = Mapping[str, Any]


class TooManyColumns(Exception):
    """A document has more fields than a table may have columns."""


def type_of(value: Any) -> str | None:
    """The type of a value; None for null. A whole number that a long cannot hold is a string."""
    match value:
        case None:
            return None
        case bool():
            return BOOLEAN
        case int():
            return LONG if value in _LONGS else STRING
        case float():
            return DOUBLE
        case str():
            return STRING
    return JSON


def widened(known: str, seen: str) -> str | None:
    """The type that holds values of both; None for a conflict."""
    if known == seen:
        return known
    if {known, seen} == {LONG, DOUBLE}:
        return DOUBLE
    return STRING if {known, seen} == {STRING, JSON} else None


def text_of(value: Any) -> str:
    """A value as text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class JsonColumns:
    """The columns by name, and the column of each field."""

    def __init__(
        self, types: Mapping[str, str] | None = None, rule: NamingRule = DELTA, others: Iterable[str] = ()
    ) -> None:
        """Begin with the columns that a table has; ``others`` are columns of it that take no field's values."""
        self.types: dict[str, str] = dict(types or {})
        self._names = ColumnNames(rule, self.types, others, conflicts=True)
        self._usual: dict[str, type | None] = {}
        """Python's type of values of a field that fit its column without a closer look."""
        self.column = self._names.column

    def declare(self, types: Mapping[str, str]) -> None:
        """Add columns for fields whose types a schema declares, as far as a table may have as many."""
        for field, kind in types.items():
            if len(self.types) >= MOST_COLUMNS:
                return
            self._add(self.column(field), kind)

    def learn(self, documents: Iterable[Document]) -> None:
        """Infer from a sample: columns are added and widened. Documents with too many fields add none."""
        for document in documents:
            before = dict(self.types)
            for field, value in document.items():
                seen = type_of(value)
                if seen is not None:
                    self._learn(self.column(field), seen, value)
            if len(self.types) > max(MOST_COLUMNS, len(before)):
                self._take_back(before)

    def _learn(self, name: str, seen: str, value: Any) -> None:
        known = self.types.get(name)
        if known is None:
            self._add(name, seen)
        elif (wider := widened(known, seen)) is not None:
            self.types[name] = wider
        elif not fits(value, known):
            self._add(self._names.conflict(name), STRING)

    def add(self, document: Document) -> None:
        """Add the columns that a document needs; those that exist keep their types. TooManyColumns: none is added."""
        usual = self._usual
        count = len(self.types)
        for field, value in document.items():
            kind = type(value)
            if kind is usual.get(field) and (kind is not int or LEAST <= value <= MOST):
                continue
            seen = type_of(value)
            if seen is None:
                continue
            name = self.column(field)
            known = self.types.get(name)
            if known is None:
                self._add(name, seen)
            elif known is not seen and not fits(value, known):
                self._add(self._names.conflict(name), STRING)
            usual[field] = PYTHON.get(self.types[name])
        if len(self.types) > MOST_COLUMNS and len(self.types) > count:
            self._take_back(dict(list(self.types.items())[:count]))
            raise TooManyColumns(f"the table would have more than {MOST_COLUMNS} columns of fields")

    def _take_back(self, before: dict[str, str]) -> None:
        self._names.drop(self.types.keys() - before.keys())
        self.types = before
        self._usual.clear()

    def _add(self, name: str, kind: str) -> None:
        if name not in self.types:
            self.types[name] = kind
            self._names.take(name)

    def fields(self) -> dict[str, str]:
        """The types of the columns that are named like the field whose values they have."""
        return {name: kind for name, kind in self.types.items() if self.column(name) == name}

    def values(self, documents: list[Document]) -> dict[str, list[Any]]:
        """The values of each column, None where a document has none. `add` has seen the documents."""
        found: dict[str, list[Any]] = {name: [None] * len(documents) for name in self.types}
        usual = self._usual
        cells = {field: found[self.column(field)] for field in usual}
        for row, document in enumerate(documents):
            for field, value in document.items():
                if value is None:
                    continue
                seen = type(value)
                if seen is usual.get(field) and (seen is not int or LEAST <= value <= MOST):
                    cells[field][row] = value
                    continue
                name = self.column(field)
                kind = self.types[name]
                if kind is STRING or kind is JSON:
                    found[name][row] = value if type(value) is str else text_of(value)
                elif fits(value, kind):
                    found[name][row] = value
                else:
                    found[self._names.conflict(name)][row] = text_of(value)
        return found


def fits(value: Any, kind: str) -> bool:
    """Whether a column of this type holds the value exactly."""
    match kind:
        case "string" | "json":
            return True
        case "boolean":
            return isinstance(value, bool)
        case "long":
            return type(value) is int and value in _LONGS
    return type(value) is float or (type(value) is int and abs(value) <= 1 << 53)
