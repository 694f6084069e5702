"""Filters of rows: conditions on the columns of records and on JSON fields of keys and values. Pure.

A condition is true, false or unknown, as in SQL: null compared with anything is unknown, and only rows for which the
whole filter is true are kept. `may_hold` and `interval` say what a filter excludes before anything is read.
`kpybroker.machines.scan.filter_text` reads filters, `kpybroker.pipeline.scan.row_filter` applies them to rows.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

Literal = str | int | float | bool | bytes

OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


class Column(NamedTuple):
    """A column; with a path, a field of the JSON object that the column holds."""

    name: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.name, *self.path))


class Compare(NamedTuple):
    """A column compared with a value. Times are whole microseconds since 1970."""

    column: Column
    operator: str
    value: Literal


class ColumnIn(NamedTuple):
    """A column that has one of these values."""

    column: Column
    values: tuple[Literal, ...]


class Like(NamedTuple):
    """A text that matches SQL's pattern: ``%`` stands for any text, ``_`` for one character, a backslash quotes."""

    column: Column
    pattern: str


class IsNull(NamedTuple):
    """A column that has no value; a JSON field that is null or not there."""

    column: Column


class Not(NamedTuple):
    """The opposite of a filter; unknown stays unknown."""

    filter: "Filter"


class AllOf(NamedTuple):
    """All of these."""

    filters: tuple["Filter", ...]


class AnyOf(NamedTuple):
    """At least one of these."""

    filters: tuple["Filter", ...]


Filter = Compare | ColumnIn | Like | IsNull | Not | AllOf | AnyOf


def all_of(filters: Iterable[Filter | None]) -> Filter | None:
    """All of these; None for no condition."""
    there = tuple(each for each in filters if each is not None)
    if len(there) < 2:
        return there[0] if there else None
    return AllOf(there)


def columns_of(condition: Filter | None) -> frozenset[str]:
    """The names of the columns that a filter reads."""
    match condition:
        case None:
            return frozenset()
        case Not(part):
            return columns_of(part)
        case AllOf(parts) | AnyOf(parts):
            return frozenset().union(*map(columns_of, parts))
    return frozenset((condition.column.name,))


def may_hold(condition: Filter | None, known: Mapping[str, Literal]) -> bool:
    """Whether the filter can be true for a row with these values, whatever its other columns hold."""
    return condition is None or True in _outcomes(condition, known)


_ANY: Final = frozenset((True, False, None))


def _outcomes(condition: Filter, known: Mapping[str, Literal]) -> frozenset[bool | None]:
    """The results that are possible; None is SQL's unknown."""
    match condition:
        case AllOf(parts):
            return _combined(parts, known, ends_with=False)
        case AnyOf(parts):
            return _combined(parts, known, ends_with=True)
        case Not(part):
            return frozenset(None if each is None else not each for each in _outcomes(part, known))
        case Like():
            return _ANY
    if condition.column.path or condition.column.name not in known:
        return _ANY
    value = known[condition.column.name]
    match condition:
        case Compare(_, operator, literal):
            return frozenset((OPERATORS[operator](value, literal),))
        case ColumnIn(_, values):
            return frozenset((value in values,))
    return frozenset((False,))  # IsNull: what is known is not null


def _combined(parts: Iterable[Filter], known: Mapping[str, Literal], *, ends_with: bool) -> frozenset[bool | None]:
    """The possible results of and (which ``ends_with`` False) or of or (which ends with True)."""
    results: frozenset[bool | None] = frozenset((not ends_with,))
    for part in parts:
        others = _outcomes(part, known)
        results = frozenset(_both((one, other), ends_with=ends_with) for one in results for other in others)
    return results


def _both(pair: tuple[bool | None, bool | None], *, ends_with: bool) -> bool | None:
    if ends_with in pair:
        return ends_with
    return None if None in pair else not ends_with


class Interval(NamedTuple):
    """Whole numbers from ``low`` to ``high``, both inclusive; None is no bound."""

    low: int | None = None
    high: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low > self.high

    def meet(self, other: "Interval") -> "Interval":
        """The numbers in both."""
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Interval(max(lows, default=None), min(highs, default=None))

    def join(self, other: "Interval") -> "Interval":
        """The smallest interval with the numbers of both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Interval(low, high)


EVERYTHING: Final = Interval()
NOTHING: Final = Interval(0, -1)


def interval(condition: Filter | None, column: str, known: Mapping[str, Literal]) -> Interval:
    """An interval that holds the column's value of every row for which the filter is true."""
    if condition is None:
        return EVERYTHING
    if not may_hold(condition, known):
        return NOTHING
    match condition:
        case AllOf(parts):
            found = EVERYTHING
            for part in parts:
                found = found.meet(interval(part, column, known))
            return found
        case AnyOf(parts):
            found = NOTHING
            for part in parts:
                found = found.join(interval(part, column, known))
            return found
        case Compare(Column(name, ()), operator, int(value)) if name == column:
            return {
                "=": Interval(value, value),
                "<": Interval(None, value - 1),
                "<=": Interval(None, value),
                ">": Interval(value + 1, None),
                ">=": Interval(value, None),
            }.get(operator, EVERYTHING)
        case ColumnIn(Column(name, ()), values) if name == column and all(isinstance(each, int) for each in values):
            numbers = [each for each in values if isinstance(each, int)]
            return Interval(min(numbers), max(numbers)) if numbers else NOTHING
    return EVERYTHING
