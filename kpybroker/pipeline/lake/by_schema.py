"""Values of which each names its schema: sorted by schema, since each schema has its own columns.

A `Language`, such as Avro or Protobuf, knows how a value names its schema and how it is read.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from kpybroker.machines.lake.naming import RESERVED, ColumnNames, NamingRule, struct_names
from kpybroker.machines.schemas.errors import Unknown, one_line
from kpybroker.pipeline.lake.tables import FACTS, VALUE, extra_of, facts_of, with_reasons
from kpybroker.pipeline.lake.values import Sorted, assembled


class SchemaPosition(NamedTuple):
    """The schema of a value, and the position at which its content begins."""

    key: Hashable
    start: int


JSON_TEXT: Final = pa.string()
"""The type of values that no column of another type holds: JSON in a string."""
MOST_NESTED: Final = 30
"""Lists and structs within one another; Arrow, delta-rs and engines follow some more."""

MOST_FORMS: Final = 10_000
"""The schemas that are remembered, and the names of such that there are not: records may give any number."""

Read = Callable[[Any], Any]


class ColumnKind(NamedTuple):
    """The type of a column, and how one value of a field becomes a cell."""

    type: pa.DataType
    read: Read


def same(value: Any) -> Any:
    """A value as it is."""
    return value


def structure(fields: Mapping[str, ColumnKind], rule: NamingRule) -> tuple[list[str], pa.DataType]:
    """The struct of these fields, and their names in it."""
    names = struct_names(rule, fields)
    return names, pa.struct([pa.field(name, kind.type) for name, kind in zip(names, fields.values(), strict=True)])


def bounded(kind: ColumnKind, text_of: Callable[[Any], str]) -> ColumnKind:
    """A kind of lists or structs; text in place of one that is nested too deep for tables."""
    return ColumnKind(JSON_TEXT, text_of) if _levels(kind.type) > MOST_NESTED else kind


def _levels(kind: pa.DataType) -> int:
    if pa.types.is_list(kind):
        return 1 + _levels(kind.value_type)
    return 1 + max(map(_levels, (field.type for field in kind))) if pa.types.is_struct(kind) else 0


class SchemaForm(Protocol):
    """One schema."""

    name: str
    schema: pa.Schema

    def cells(self, content: bytes) -> Sequence[Any]:
        """The value of each column. Any exception says that the content is not of this schema."""


class Language(Protocol):
    """A kind of schemas."""

    def spot(self, value: bytes) -> SchemaPosition:
        """The schema that a value names. Unknown."""

    def form(self, key: Hashable) -> SchemaForm:
        """The schema of a key that `spot` gave. Unknown."""


class BySchema:
    """Values in a language of schemas. A schema that does not fit the columns of the table makes dead letters."""

    def __init__(self, language: Language, rule: NamingRule) -> None:
        self._language = language
        self._rule = rule
        self._forms: dict[Hashable, SchemaForm | str] = {}

    def first_schema(self, sample: pa.Table) -> pa.Schema:
        fixed = pa.schema([*FACTS, *extra_of(sample.column_names)])
        columns = _Columns(fixed, self._rule)
        for value in sample[VALUE].to_pylist():
            try:
                columns.of(self._form(self._language.spot(value).key))
            except Unknown:
                continue
        return pa.schema([*fixed, *columns.added])

    def _form(self, key: Hashable) -> SchemaForm:
        form = self._forms.get(key)
        if form is None:
            try:
                form = self._language.form(key)
            except Unknown as error:
                form = str(error)
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            self._forms[key] = form
        if isinstance(form, str):
            raise Unknown(form)
        return form

    def columns(self, raw: pa.Table, table: pa.Schema) -> Sorted:
        values = raw[VALUE].to_pylist()
        groups: dict[Hashable, list[int]] = {}
        starts = [0] * len(values)
        lost: dict[int, str] = {}
        for row, value in enumerate(values):
            try:
                key, starts[row] = self._language.spot(value)
                groups.setdefault(key, []).append(row)
            except Unknown as error:
                lost[row] = str(error)
        found = []
        columns = _Columns(table, self._rule)
        for key, rows in groups.items():
            try:
                form = self._form(key)
                fields = columns.of(form)
            except Unknown as error:
                lost.update(dict.fromkeys(rows, str(error)))
                continue
            part = raw.take(pa.array(rows, pa.int64()))
            found.append(_read(part, form, fields, [values[row][starts[row] :] for row in rows]))
        order = sorted(lost)
        dead = with_reasons(raw.take(pa.array(order, pa.int64())), pa.array([lost[row] for row in order], pa.string()))
        empty = facts_of(raw.slice(0, 0))
        rows_of = pa.concat_tables([empty, *(each.rows for each in found)], promote_options="default")
        return Sorted(rows_of, pa.concat_tables([dead, *(each.dead for each in found)]))


class _Columns:
    """The columns of a table, and those that forms add to it."""

    def __init__(self, table: pa.Schema, rule: NamingRule) -> None:
        self._fields = {field.name: field for field in table}
        own = [name for name in table.names if name not in RESERVED]
        self._names = ColumnNames(rule, own, (), conflicts=False)
        self.added: list[pa.Field] = []

    def of(self, form: SchemaForm) -> pa.Schema:
        """The columns of a form, in the order of its fields. Unknown if one does not fit; then none is added."""
        found: list[pa.Field] = []
        fresh: list[pa.Field] = []
        for field in form.schema:
            name = self._names.column(field.name)
            known = self._fields.get(name)
            if known is None:
                self._names.take(name)
                fresh.append(field.with_name(name))
            elif known.type != field.type:
                self._names.drop(each.name for each in fresh)
                raise Unknown(f"{form.name}: field {field.name} is {field.type}, and the column is {known.type}")
            found.append(field.with_name(name))
        self._fields.update((each.name, each) for each in fresh)
        self.added += fresh
        return pa.schema(found)


def _read(raw: pa.Table, form: SchemaForm, fields: pa.Schema, contents: list[bytes]) -> Sorted:
    documents: list[Any] = []
    reasons: list[str | None] = []
    for content in contents:
        try:
            documents.append(form.cells(content))
            reasons.append(None)
        except Exception as error:  # hostile bytes raise errors of many kinds in the libraries
            documents.append(None)
            reasons.append(_not_of(form, error))

    def columns(good: list[int]) -> pa.Table:
        cells = [[documents[number][column] for number in good] for column in range(len(fields))]
        arrays = [pa.array(each, field.type) for each, field in zip(cells, fields, strict=True)]
        return pa.table(arrays, schema=fields)

    try:
        return assembled(raw, reasons, columns)
    except Exception:  # a cell is beyond its type: which one, only a search of each tells
        for number, cells in enumerate(documents):
            if reasons[number] is None:
                reasons[number] = _beyond(form, cells)
        return assembled(raw, reasons, columns)


def _beyond(form: SchemaForm, cells: Sequence[Any]) -> str | None:
    try:
        for cell, field in zip(cells, form.schema, strict=True):
            pa.scalar(cell, field.type)
    except Exception as error:
        return _not_of(form, error)
    return None


def _not_of(form: SchemaForm, error: Exception) -> str:
    return f"not of {form.name}: {one_line(error)}"
