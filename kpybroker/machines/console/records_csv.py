"""Records as CSV, for spreadsheets: a text that would be a formula there begins with an apostrophe. Pure."""

import base64
import csv
import io
import json
from typing import Final

from kpybroker.machines.console.content import BASE64, HEX, JSON_FORM, TEXT, Content
from kpybroker.machines.console.records import RecordRow
from kpybroker.machines.console.wording import time

HEADINGS: Final = (
    "partition", "offset", "time", "timestamp_ms", "key", "key_form", "value", "value_form", "value_bytes", "headers",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The first characters of a cell that spreadsheets take for a formula."""


def head() -> str:
    """The first line."""
    return _line(HEADINGS)


def line_of(row: RecordRow) -> str:
    """The line of a record. Contents are those of the page; bytes that are no text are base64."""
    key, value = _text_and_form(row.key), _text_and_form(row.value)
    headers = [[each.name, _text_and_form(each.value)[0]] for each in row.headers]
    return _line(
        (
            str(row.partition),
            str(row.offset),
            time(row.timestamp_ms),
            str(row.timestamp_ms),
            safe(key[0]),
            key[1],
            safe(value[0]),
            value[1],
            str(row.value.bytes),
            json.dumps(headers, ensure_ascii=False) if headers else "",
        )
    )


def safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _text_and_form(content: Content) -> tuple[str, str]:
    if content.base64 is None:
        return "", "null"
    form = content.form + (", cut" if content.is_cut else "")
    if content.form == HEX:
        return content.base64, BASE64 + form.removeprefix(HEX)
    if content.form in (TEXT, JSON_FORM):
        return base64.b64decode(content.base64).decode("utf-8", "replace"), form
    return content.text, form


def _line(cells: tuple[str, ...]) -> str:
    made = io.StringIO()
    csv.writer(made, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(cells)
    return made.getvalue()
