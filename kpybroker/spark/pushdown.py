"""Filters that Spark pushes to a data source (since 4.1), as filters of a scan."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kpybroker.machines.scan.columns import PLAIN
from kpybroker.machines.scan.filter_text import microseconds
from kpybroker.machines.scan.filters import Column, ColumnIn, Compare, Filter, IsNull, Like, Literal, Not

_COMPARISONS: Final[Mapping[str, str]] = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_PATTERNS: Final[Mapping[str, str]] = {"StringStartsWith": "{}%", "StringEndsWith": "%{}", "StringContains": "%{}%"}


def filter_of(pushed: Any) -> Filter | None:
    """The same filter; None for one that only Spark can judge."""
    name = type(pushed).__name__
    if name == "Not":
        inner = filter_of(pushed.child)
        return None if inner is None else Not(inner)
    path = pushed.attribute
    if len(path) != 1 or path[0] not in PLAIN:
        return None
    column = Column(path[0])
    if name in ("IsNull", "IsNotNull"):
        return IsNull(column) if name == "IsNull" else Not(IsNull(column))
    if name in _PATTERNS:
        return Like(column, _PATTERNS[name].format(_quoted(pushed.value))) if column.name == "topic" else None
    if name == "In":
        values = tuple(_literal(column, each) for each in pushed.value if each is not None)
        there = tuple(each for each in values if each is not None)
        return ColumnIn(column, there) if there and len(there) == len(pushed.value) else None
    value = _literal(column, getattr(pushed, "value", None))
    return Compare(column, _COMPARISONS[name], value) if name in _COMPARISONS and value is not None else None


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _literal(column: Column, value: Any) -> Literal | None:
    """A value with the type that the column has; None if it has another."""
    match column.name:
        case "timestamp":
            return microseconds(value) if isinstance(value, datetime) and value.tzinfo is not None else None
        case "key" | "value":
            return bytes(value) if isinstance(value, bytes | bytearray) else None
        case "topic":
            return value if isinstance(value, str) else None
    return value if type(value) is int else None
