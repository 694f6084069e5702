"""The form that produces a record: its texts as bytes, and a record as its texts. Pure."""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.content import BASE64, HEX, TEXT
from kpybroker.machines.console.record_tasks import FoundRecord

ENCODINGS: Final = (TEXT, HEX, BASE64)
MOST_BYTES: Final = 256 * 1024
"""A form takes no larger record: a page would have all of it."""


@dataclass(frozen=True, slots=True)
class ProducePage:
    """The form that produces a record, empty or filled from another record."""

    topic: str
    partitions: int
    partition: int | None
    """The partition; None for that of the key."""
    key: str
    """The key; null if it is empty."""
    key_as: str
    """``text``, ``hex`` or ``base64``: how ``key`` writes the bytes."""
    value: str
    value_as: str
    is_null: bool
    """Whether the value is null: a tombstone."""
    headers: str
    """Lines ``name=value``."""
    headers_as: str
    source: int | None
    """The offset of the record that it is filled from."""
    notes: tuple[str, ...]
    """The parts of that record which the form cannot have."""
    may_write: bool


def empty_form(topic: str, partitions: int, *, may_write: bool) -> ProducePage:
    """The form without a record."""
    return ProducePage(
        topic=topic,
        partitions=partitions,
        partition=None,
        key="",
        key_as=TEXT,
        value="",
        value_as=TEXT,
        is_null=False,
        headers="",
        headers_as=TEXT,
        source=None,
        notes=(),
        may_write=may_write,
    )


def filled_form(topic: str, partitions: int, record: FoundRecord, *, may_write: bool) -> ProducePage:
    """The form that produces a record again. Bytes that a form would alter are in base64. Raises ValueError for a
    record that is too large, or a marker of a transaction."""
    if record.control is not None:
        raise ValueError("this is a marker of a transaction, which only a broker writes")
    size = len(record.key or b"") + len(record.value or b"")
    size += sum(len(name) + len(value or b"") for name, _, value, _ in record.headers)
    if size > MOST_BYTES:
        raise ValueError(f"it has {size} bytes, and the form takes at most {MOST_BYTES}; download its value instead")
    notes = []
    if record.key == b"":
        notes.append("its key is empty; the form makes it null")
    key, key_as = _written(record.key or b"", is_line=True)
    value, value_as = _written(record.value or b"", is_line=False)
    typed = [(name, value or b"") for name, _, value, _ in record.headers if _may_be_typed(name)]
    if len(typed) < len(record.headers):
        notes.append(f"{len(record.headers) - len(typed)} of its headers have names that the form cannot have")
    if any(value is None for _, _, value, _ in record.headers):
        notes.append("a header of it has the value null; the form makes it empty")
    is_text = all(_is_typed_text(value) for _, value in typed)
    lines = [f"{name}={value.decode() if is_text else base64.b64encode(value).decode()}" for name, value in typed]
    return ProducePage(
        topic=topic,
        partitions=partitions,
        partition=record.partition,
        key=key,
        key_as=key_as,
        value=value,
        value_as=value_as,
        is_null=record.value is None,
        headers="\n".join(lines),
        headers_as=TEXT if is_text else BASE64,
        source=record.offset,
        notes=tuple(notes),
        may_write=may_write,
    )


def _written(data: bytes, *, is_line: bool) -> tuple[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    kept = text if is_line else text.replace("\n", "").replace("\t", "")
    return (text, TEXT) if kept.isprintable() else (base64.b64encode(data).decode(), BASE64)


def _is_typed_text(value: bytes) -> bool:
    """Whether the value of a header is a text that a line of the form keeps."""
    return _written(value, is_line=True)[1] == TEXT and value == value.strip()


def _may_be_typed(name: str) -> bool:
    return "=" not in name and name == name.strip() and name.isprintable() and bool(name)


def bytes_in(text: str, encoding: str, name: str) -> bytes:
    """The bytes that a text stands for. Raises ValueError with one line."""
    if encoding == TEXT:
        return text.encode("utf-8", "surrogatepass")
    if encoding == HEX:
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise ValueError(f"{name} is no hexadecimal number: two digits a byte, such as 00 ff 7a") from None
    if encoding != BASE64:
        raise ValueError(f"{name}_as is none of {', '.join(ENCODINGS)}")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{name} is not base64") from None


def headers_in(text: str, encoding: str) -> tuple[tuple[str, bytes], ...]:
    """The headers of lines ``name=value``. Raises ValueError with one line."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"headers: {line[:100]!r} is not name=value")
        found.append((name.strip(), bytes_in(value.strip(), encoding, "headers")))
    return tuple(found)
