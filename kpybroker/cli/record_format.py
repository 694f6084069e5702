"""The output format of a record: a format as in kcat and rpk, or a line of JSON."""

import base64
import json
import re
from collections.abc import Callable
from datetime import datetime
from struct import Struct
from typing import Any

from kpybroker.client.reader import ReadRecord

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%d\{strftime\[([^\]]*)\]\}|%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)", re.DOTALL)

Piece = Callable[[ReadRecord], bytes]

_LENGTH = Struct(">i")

# %s is kcat's name of the value and rpk's %v; %d is rpk's timestamp and kcat's %T; %R is the length of the value as
# kcat has it for programs, in four bytes.
FIELDS: dict[str, Piece] = {
    "t": lambda found: found.spot.topic.encode(),
    "p": lambda found: b"%d" % found.spot.partition,
    "o": lambda found: b"%d" % found.record.offset,
    "d": lambda found: b"%d" % found.record.timestamp,
    "T": lambda found: b"%d" % found.record.timestamp,
    "K": lambda found: b"%d" % length(found.record.key),
    "V": lambda found: b"%d" % length(found.record.value),
    "S": lambda found: b"%d" % length(found.record.value),
    "R": lambda found: _LENGTH.pack(length(found.record.value)),
    "h": lambda found: b",".join(name.encode() + b"=" + (value or b"") for name, value in found.record.headers),
}


NULLABLE: dict[str, Callable[[ReadRecord], bytes | None]] = {
    "k": lambda found: found.record.key,
    "v": lambda found: found.record.value,
    "s": lambda found: found.record.value,
}


def simple_layout(key_delimiter: str | None) -> str:
    """The format for a value, or key, delimiter and value, on a line of its own."""
    if key_delimiter is None:
        return "%v\\n"
    return f"%k{key_delimiter.replace('%', '%%').replace(chr(92), chr(92) * 2)}%v\\n"


def length(value: bytes | None) -> int:
    """The length of a value; -1 for null, as in kcat."""
    return -1 if value is None else len(value)


def formatter(text: str, null: bytes = b"") -> Piece:
    """A function that prints a record by a format such as ``%t %p %o %k %v\\n``. Raises ValueError for a wrong one.

    ``null`` is what stands for a key or value that is null.
    """
    pieces: list[Piece] = []
    position = 0

    def literal(value: bytes) -> None:
        pieces.append(lambda _found: value)

    for token in _TOKEN.finditer(text):
        literal(text[position : token.start()].encode())
        position = token.end()
        date, field, byte, escape = token.groups()
        if date is not None:
            pieces.append(_date(date))
        elif byte:
            literal(bytes.fromhex(byte))
        elif escape is not None:
            if escape not in ESCAPES:
                raise ValueError(f"\\{escape} is not known; use \\n \\t \\r \\0 \\\\ or \\x41")
            literal(ESCAPES[escape])
        elif field == "%":
            literal(b"%")
        elif field in NULLABLE:
            pieces.append(_or_null(NULLABLE[field], null))
        elif field in FIELDS:
            pieces.append(FIELDS[field])
        else:
            known = " ".join("%" + name for name in (*NULLABLE, *FIELDS))
            raise ValueError(f"%{field} is not known; use {known} or %%")
    literal(text[position:].encode())
    return lambda found: b"".join(piece(found) for piece in pieces)


def _date(layout: str) -> Piece:
    """rpk's ``%d{strftime[%F]}``, in local time; nothing for a record without a time."""

    def piece(found: ReadRecord) -> bytes:
        timestamp = found.record.timestamp
        return b"" if timestamp < 0 else datetime.fromtimestamp(timestamp / 1000).strftime(layout).encode()

    return piece


def _or_null(value_of: Callable[[ReadRecord], bytes | None], null: bytes) -> Piece:
    def piece(found: ReadRecord) -> bytes:
        value = value_of(found)
        return null if value is None else value

    return piece


def json_line(found: ReadRecord) -> bytes:
    """A record as a line of JSON. Bytes that are not UTF-8 are in base64 under ``key_base64`` or ``value_base64``."""
    record = found.record
    line: dict[str, Any] = {"topic": found.spot.topic, "partition": found.spot.partition, "offset": record.offset}
    line["timestamp"] = record.timestamp
    line |= _text("key", record.key) | _text("value", record.value)
    line["headers"] = [{"key": name} | _text("value", value) for name, value in record.headers]
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _text(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
