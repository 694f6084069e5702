"""A filter on decoded rows, by columns: `pyarrow.compute` for what Arrow holds, JSON only where a field is asked for.

Invariant: a row is kept if and only if the filter is true for it; unknown, as in SQL, is not true.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kpybroker.machines.scan.filters import (
    OPERATORS,
    AllOf,
    AnyOf,
    Column,
    ColumnIn,
    Compare,
    Filter,
    IsNull,
    Like,
    Literal,
    Not,
)
from kpybroker.pipeline.scan.containing import containing

_ARROW: Final = {
    "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_TRUE, _FALSE = pa.scalar(value=True), pa.scalar(value=False)
_NOTHING: Final = object()
"""The value of a JSON field that is not there."""


def kept(condition: Filter, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows for which the filter is true."""
    return rows.filter(_mask(condition, rows, exact=False), null_selection_behavior="drop")


def _mask(condition: Filter, rows: pa.RecordBatch, *, exact: bool) -> pa.Array:
    """For each row true, false, or null for unknown. Unless ``exact``, false may stand for unknown, which costs less;
    below a negation only the exact result is right."""
    match condition:
        case AllOf(parts) if exact:
            return reduce(pc.and_kleene, (_mask(part, rows, exact=True) for part in parts))
        case AllOf(parts):
            return _all(parts, rows)
        case AnyOf(parts):
            return reduce(pc.or_kleene, (_mask(part, rows, exact=exact) for part in parts))
        case Not(part):
            return pc.invert(_mask(part, rows, exact=True))
    if condition.column.path:
        return _of_json(condition, rows, exact=exact)
    column = rows.column(condition.column.name)
    if pa.types.is_int32(column.type):
        column = column.cast(pa.int64())  # the type that values of conditions have
    match condition:
        case Compare(_, operator, value):
            return _ARROW[operator](column, _scalar(value, column.type))
        case ColumnIn(_, values):
            wanted = pa.array([_scalar(each, column.type).as_py() for each in values], column.type)
            return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=wanted), pa.scalar(None, pa.bool_()))
        case Like(_, pattern):
            return pc.match_like(column, pattern)
    return pc.is_null(column)


def _all(parts: Sequence[Filter], rows: pa.RecordBatch) -> pa.Array:
    """And. JSON is parsed only in rows that the other conditions leave over."""
    mask = pa.repeat(_TRUE, rows.num_rows)
    for part in sorted(parts, key=_reads_json):
        if _reads_json(part):
            chosen = pc.fill_null(mask, fill_value=False)
            mask = _spread(chosen, _mask(part, rows.filter(chosen), exact=False))
        else:
            mask = pc.and_kleene(mask, _mask(part, rows, exact=False))
    return mask


def _spread(chosen: pa.Array, results: pa.Array) -> pa.Array:
    """The results of the chosen rows at their places, false at the others."""
    return pc.replace_with_mask(pa.repeat(_FALSE, len(chosen)), chosen, results)


def _reads_json(condition: Filter) -> bool:
    match condition:
        case Not(part):
            return _reads_json(part)
        case AllOf(parts) | AnyOf(parts):
            return any(map(_reads_json, parts))
    return bool(condition.column.path)


def _scalar(value: Literal, of_type: pa.DataType) -> pa.Scalar:
    return pa.scalar(value, pa.int64()).cast(of_type) if pa.types.is_timestamp(of_type) else pa.scalar(value, of_type)


def _of_json(condition: Compare | ColumnIn | Like | IsNull, rows: pa.RecordBatch, *, exact: bool) -> pa.Array:
    """The results of a condition on a JSON field."""
    column = rows.column(condition.column.name)
    possible = None if exact else _possible(condition, column)
    if possible is None:
        return pa.array(map(_test(condition), column.to_pylist()), pa.bool_())
    found = pa.array(map(_test(condition), column.filter(possible).to_pylist()), pa.bool_())
    return _spread(possible, found)


def _possible(condition: Compare | ColumnIn | Like | IsNull, column: pa.Array) -> pa.Array | None:
    """The rows for which an equality with a text can be true; None if all have to be parsed.

    JSON holds a text without special characters as it is, or holds a backslash. Rows with neither are not equal, or
    have an unknown result.
    """
    match condition:
        case Compare(_, "=", str(value)):
            values: tuple[Literal, ...] = (value,)
        case ColumnIn(_, values):
            pass
        case _:
            return None
    texts = [value for value in values if isinstance(value, str) and value.isprintable() and '"' not in value]
    if len(texts) < len(values) or len(texts) > 8 or any("\\" in text for text in texts):
        return None
    return containing(column, [text.encode() for text in (*texts, "\\")])


def _test(condition: Compare | ColumnIn | Like | IsNull) -> Callable[[bytes | None], bool | None]:
    """The function from a column's value to the result."""
    column = condition.column
    match condition:
        case Compare(_, operator, literal):
            compare = OPERATORS[operator]
            return lambda data: _compared(compare, _field(data, column), literal)
        case ColumnIn(_, values):
            return lambda data: _is_one(_field(data, column), values)
        case Like(_, pattern):
            expression = like_expression(pattern)
            return lambda data: _matched(expression, _field(data, column))
    return lambda data: _field(data, column) in (None, _NOTHING)


def _field(data: bytes | None, column: Column) -> Any:
    """The value of a JSON field; `_NOTHING` where there is none."""
    if data is None:
        return _NOTHING
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return _NOTHING
    for name in column.path:
        if not isinstance(found, dict) or name not in found:
            return _NOTHING
        found = found[name]
    return found


def _kind(value: object) -> type:
    """Values of one kind can be compared; whole and other numbers are of one."""
    return float if type(value) is int else type(value)


def _compared(compare: Callable[[Any, Any], bool], value: Any, literal: Literal) -> bool | None:
    return compare(value, literal) if _kind(value) is _kind(literal) else None


def _is_one(value: Any, values: Sequence[Literal]) -> bool | None:
    if value is None or value is _NOTHING:
        return None
    return any(_kind(value) is _kind(each) and value == each for each in values)


def _matched(expression: re.Pattern[str], value: Any) -> bool | None:
    return expression.fullmatch(value) is not None if isinstance(value, str) else None


def like_expression(pattern: str) -> re.Pattern[str]:
    """SQL's pattern as a regular expression."""
    signs = {"%": ".*", "_": "."}
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    return re.compile("".join(signs.get(each) or re.escape(each[-1]) for each in pieces), re.DOTALL)
