"""Values of which each names its schema: sorted by schema, since each schema has its own columns.

A `Language`, such as Avro or Protobuf, knows how a value names its schema and how it is read.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from kpybroker.lake.json_schema import RESERVED
from kpybroker.lake.tables import FACTS, VALUE, extra_of, facts_of, with_reasons
from kpybroker.lake.values import Sorted, assembled
from kpybroker.schemas.errors import Unknown, one_line


class Spot(NamedTuple):
    """The schema of a value, and the position at which its content begins."""

    key: Hashable
    start: int


class Form(Protocol):
    """One schema."""

    name: str
    schema: pa.Schema

    def cells(self, content: bytes) -> Sequence[Any]:
        """The value of each column. Any exception says that the content is not of this schema."""


class Language(Protocol):
    """A kind of schemas."""

    def spot(self, value: bytes) -> Spot:
        """The schema that a value names. Unknown."""

    def form(self, key: Hashable) -> Form:
        """The schema of a key that `spot` gave. Unknown."""


class BySchema:
    """Values in a language of schemas. A schema that does not fit the columns of the table makes dead letters."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._forms: dict[Hashable, Form] = {}

    def first_schema(self, sample: pa.Table) -> pa.Schema:
        fields = {field.name: field for field in (*FACTS, *extra_of(sample.column_names))}
        taken = {name.lower() for name in fields}
        for value in sample[VALUE].to_pylist():
            try:
                form = self._form(self._language.spot(value).key)
            except Unknown:
                continue
            for field in form.schema:
                if field.name.lower() not in taken:
                    taken.add(field.name.lower())
                    fields[field.name] = field
        return pa.schema(list(fields.values()))

    def _form(self, key: Hashable) -> Form:
        form = self._forms.get(key)
        if form is None:
            form = self._language.form(key)
            if taken := set(form.schema.names) & {*RESERVED}:
                raise Unknown(f"{form.name} has a field {min(taken)}, which is a name of the lake's own columns")
            self._forms[key] = form
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
        columns = {field.name.lower(): field for field in table}
        for key, rows in groups.items():
            try:
                form = self._form(key)
                _require_fit(form, columns)
            except Unknown as error:
                lost.update(dict.fromkeys(rows, str(error)))
                continue
            columns.update({field.name.lower(): field for field in form.schema})
            part = raw.take(pa.array(rows, pa.int64()))
            found.append(_read(part, form, [values[row][starts[row] :] for row in rows]))
        order = sorted(lost)
        dead = with_reasons(raw.take(pa.array(order, pa.int64())), pa.array([lost[row] for row in order], pa.string()))
        empty = facts_of(raw.slice(0, 0))
        rows_of = pa.concat_tables([empty, *(each.rows for each in found)], promote_options="default")
        return Sorted(rows_of, pa.concat_tables([dead, *(each.dead for each in found)]))


def _require_fit(form: Form, columns: dict[str, pa.Field]) -> None:
    for field in form.schema:
        known = columns.get(field.name.lower(), field)
        if known.name != field.name:
            raise Unknown(f"{form.name}: field {field.name} and column {known.name} differ in case alone")
        if known.type != field.type:
            raise Unknown(f"{form.name}: field {field.name} is {field.type}, and the column is {known.type}")


def _read(raw: pa.Table, form: Form, contents: list[bytes]) -> Sorted:
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
        cells = [[documents[number][column] for number in good] for column in range(len(form.schema))]
        arrays = [pa.array(each, field.type) for each, field in zip(cells, form.schema, strict=True)]
        return pa.table(arrays, schema=form.schema)

    try:
        return assembled(raw, reasons, columns)
    except Exception:  # a cell is beyond its type: which one, only a search of each tells
        for number, cells in enumerate(documents):
            if reasons[number] is None:
                reasons[number] = _beyond(form, cells)
        return assembled(raw, reasons, columns)


def _beyond(form: Form, cells: Sequence[Any]) -> str | None:
    try:
        for cell, field in zip(cells, form.schema, strict=True):
            pa.scalar(cell, field.type)
    except Exception as error:
        return _not_of(form, error)
    return None


def _not_of(form: Form, error: Exception) -> str:
    return f"not of {form.name}: {one_line(error)}"
