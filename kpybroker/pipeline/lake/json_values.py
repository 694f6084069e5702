"""Values that are JSON objects, one in each record."""

import json
import math
import re
import sys
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa

from kpybroker.machines.lake.json_schema import BOOLEAN, DOUBLE, LONG, STRING, Document, JsonColumns, TooManyColumns
from kpybroker.machines.lake.naming import DELTA, RESERVED, NamingRule
from kpybroker.machines.schemas.errors import Unknown
from kpybroker.pipeline.lake.json_columns import TYPES, parsed
from kpybroker.pipeline.lake.tables import FACTS, VALUE, extra_of, facts_of
from kpybroker.pipeline.lake.values import Sorted, assembled, none_of

MOST_AT_ONCE: Final = 8192
LEAST_AT_ONCE: Final = 256
"""The number of documents that Arrow parses at once: few where one of many does not fit."""
MOST_DEEP: Final = 200
"""Objects and lists within one another; Python, Arrow and engines follow some more."""
DEEP: Final = f"not JSON: nested more than {MOST_DEEP} deep"
MOST_SHOWN: Final = 40
NAMES: Final = {pa.bool_(): BOOLEAN, pa.int64(): LONG, pa.float64(): DOUBLE, pa.string(): STRING}


class DocumentForm(Protocol):
    """A schema of documents."""

    types: dict[str, str]

    def reason(self, document: Any) -> str | None:
        """Why a document is not valid; None for one that is."""


class Schemas(Protocol):
    """The schemas of documents."""

    start: int
    """The bytes before a document."""

    def form(self, value: bytes) -> DocumentForm:
        """The schema of a value. Unknown."""


class JsonValues:
    """JSON objects, valid by their schemas if there are any."""

    def __init__(self, schemas: Schemas | None = None, rule: NamingRule = DELTA) -> None:
        self._schemas = schemas
        self._rule = rule

    def first_schema(self, sample: pa.Table) -> pa.Schema:
        columns = JsonColumns(rule=self._rule)
        for value in sample[VALUE].to_pylist():
            document, form, reason = self._document(value)
            if reason is None:
                if form is not None:
                    columns.declare(form.types)
                columns.learn([document])
        inferred = [pa.field(name, TYPES[kind]) for name, kind in columns.types.items()]
        return pa.schema([*FACTS, *extra_of(sample.column_names), *inferred])

    def columns(self, raw: pa.Table, table: pa.Schema) -> Sorted:
        known = {each.name: NAMES[each.type] for each in table if each.type in NAMES and each.name not in RESERVED}
        columns = JsonColumns(known, self._rule, [name for name in table.names if name not in known])
        declared: set[int] = set()
        if self._schemas is not None or not raw.num_rows:
            return self._one_by_one(raw, columns, declared)
        done: list[Sorted] = []
        at, size, size_by_one = 0, MOST_AT_ONCE, LEAST_AT_ONCE
        while at < raw.num_rows:
            found = _at_once(raw.slice(at, size), columns)
            if found is not None:
                at += size
                size, size_by_one = min(2 * size, MOST_AT_ONCE), LEAST_AT_ONCE
            elif size > LEAST_AT_ONCE:
                size = max(size // 8, LEAST_AT_ONCE)
                continue
            else:
                found = self._one_by_one(raw.slice(at, size_by_one), columns, declared)
                at += size_by_one
                size_by_one = min(2 * size_by_one, MOST_AT_ONCE)
            done.append(found)
        rows = pa.concat_tables([each.rows for each in done], promote_options="default")
        return Sorted(rows, pa.concat_tables([each.dead for each in done]))

    def _one_by_one(self, raw: pa.Table, columns: JsonColumns, declared: set[int]) -> Sorted:
        """Sort records, with columns for whatever they have. ``declared`` are the schemas whose columns are there."""
        documents: list[Document] = []
        reasons: list[str | None] = []
        for value in raw[VALUE].to_pylist():
            document, form, reason = self._document(value)
            if reason is None:
                try:
                    if form is not None and id(form) not in declared:
                        declared.add(id(form))
                        columns.declare(form.types)
                    columns.add(document)
                except TooManyColumns as error:
                    reason = str(error)
            documents.append(document)
            reasons.append(reason)
        return assembled(raw, reasons, lambda good: _arrays(columns, [documents[number] for number in good]))

    def _document(self, value: bytes | None) -> tuple[Document, DocumentForm | None, str | None]:
        """A record's fields and their schema, or why it has none."""
        if value is None:
            return {}, None, "the record has no value"
        if self._schemas is None:
            document, reason = document_of(value)
            return document, None, reason
        try:
            form = self._schemas.form(value)
        except Unknown as error:
            return {}, None, str(error)
        document, reason = document_of(value[self._schemas.start :])
        return document, form, reason or form.reason(document)


def document_of(value: bytes) -> tuple[Document, str | None]:
    """The fields of a JSON object, or why it is none."""
    try:
        found = (_READ_LARGE if _MAY_BE_LARGE.search(value) else _READ)(value.decode())
    except UnicodeDecodeError as error:
        return {}, f"not UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        return {}, f"not JSON at character {error.pos}: {error.msg}"
    except _NotANumber as error:
        return {}, f"not JSON: {error}"
    except ValueError:
        return {}, f"a number has more than {sys.get_int_max_str_digits()} digits"
    except RecursionError:
        return {}, DEEP
    if not isinstance(found, dict):
        return {}, f"not a JSON object but {_KINDS.get(type(found), 'null')}"
    if value.count(b"[") + value.count(b"{") > MOST_DEEP and not _is_shallow(found):
        return {}, DEEP
    if b"\\u" in value and not _is_unicode(found):
        return {}, "a string has half a surrogate pair"
    return found, None


class _NotANumber(ValueError):
    """A number that JSON or a double does not have."""


def _no_constant(name: str) -> NoReturn:
    raise _NotANumber(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise _NotANumber(f"the number {text[:MOST_SHOWN]} is beyond a double")
    return found


_READ: Final = json.JSONDecoder(parse_constant=_no_constant).decode
_READ_LARGE: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite).decode
_MAY_BE_LARGE: Final = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")
"""Found in every document with a number beyond a double, and in few others."""
_KINDS: Final = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


def _is_shallow(found: Any) -> bool:
    """Whether no value is nested deeper than `MOST_DEEP`: JSON text of it can be written, and read by others."""
    level = [found]
    for _ in range(MOST_DEEP):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return True
    return False


def _is_unicode(document: dict[str, Any]) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _at_once(raw: pa.Table, columns: JsonColumns) -> Sorted | None:
    """Rows of documents that fit the columns as they are; None if some do not."""
    types = columns.fields()
    cells = parsed(raw[VALUE], types)
    if cells is None:
        return None
    found = dict(zip(types, cells, strict=True))
    rows = facts_of(raw)
    for name, kind in columns.types.items():
        column = found[name] if name in found else pa.nulls(raw.num_rows, TYPES[kind])
        rows = rows.append_column(pa.field(name, TYPES[kind]), column)
    return Sorted(rows, none_of(raw))


def _arrays(columns: JsonColumns, documents: list[Document]) -> pa.Table:
    values = columns.values(documents)
    fields = [pa.field(name, TYPES[kind]) for name, kind in columns.types.items()]
    arrays = [pa.array(values[field.name], field.type) for field in fields]
    return pa.table(arrays, schema=pa.schema(fields))
