"""The bytes of records as text that shows what they are: nothing is run, hidden, or silently left out. Pure."""

import base64
import json
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

AUTO, TEXT, JSON_FORM, HEX, BASE64 = "auto", "text", "json", "hex", "base64"
FORMS: Final = (AUTO, TEXT, JSON_FORM, HEX)
HEX_BYTES: Final = 4096
"""The bytes that a hex dump shows."""
MOST_PARTS: Final = 3_000
"""The parts of a JSON up to which each has a line of its own: beyond that it is shown as it is written."""
MOST_INDENTED: Final = 40
_ROW: Final = 16
_HIDDEN: Final = frozenset(("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Zs"))
NARROW: Final = "\u202f"
_KEPT: Final = " \n\t"
_MOST_SPELLED: Final = 4096
_TOKENS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{\[]\s*[}\]]|[{}\[\],:]|[^\s"{}\[\],:]+')
"""The tokens of JSON: texts, empty containers, punctuation, and the others."""


@dataclass(frozen=True, slots=True)
class Content:
    """A key, a value or a header."""

    form: str
    """``null``, ``empty``, ``text``, ``json`` or ``hex``, or the kind of its schema: how ``text`` shows the bytes."""
    text: str
    base64: str | None
    """The bytes that are shown, exactly; None for null."""
    bytes: int
    """The size of the whole; -1 for null."""
    is_cut: bool
    """Whether only its beginning is here."""
    schema_id: int | None = None
    """The schema that it names, where a registry is asked for schemas."""
    note: str = ""
    """The name of its message, why it is not valid by its schema, or why it is not shown by it."""


class ContentBySchema(NamedTuple):
    """A content as its schema describes it. ``text`` is None where it cannot be."""

    schema_id: int
    form: str
    """``avro``, ``protobuf`` or ``json schema``."""
    text: str | None
    note: str


def content_of(data: bytes | None, size: int, form: str = AUTO, by_schema: ContentBySchema | None = None) -> Content:
    """The content of these bytes, which are the beginning of ``size`` bytes."""
    if data is None:
        return Content("null", "", None, -1, is_cut=False)
    if by_schema is not None and form == AUTO:
        number, name, text, note = by_schema
        plain = content_of(data, size)
        if text is not None:
            plain = replace(plain, form=name, text=visible(text), is_cut=False)
        return replace(plain, schema_id=number, note=visible(note))
    shown, text = _shown(data, form, is_whole=len(data) == size)
    is_cut = len(data) < size or (shown == HEX and len(data) > HEX_BYTES)
    return Content(shown if data else "empty", text, base64.b64encode(data).decode(), size, is_cut)


def _shown(data: bytes, form: str, *, is_whole: bool) -> tuple[str, str]:
    if form == HEX:
        return HEX, hex_dump(data)
    if form == TEXT:
        return TEXT, visible(data.decode("utf-8", "backslashreplace"))
    text = _utf8(data, is_whole=is_whole)
    if text is None:
        return HEX, hex_dump(data)
    if is_whole and form in (AUTO, JSON_FORM) and is_json(text, must_be_container=form == AUTO):
        return JSON_FORM, visible(text if _has_many_parts(text) else indented(text))
    if form == AUTO and _is_binary(text):
        return HEX, hex_dump(data)
    return TEXT, visible(text)


def _utf8(data: bytes, *, is_whole: bool) -> str | None:
    """The text in UTF-8; None if it is none. A text that was cut may end within a character."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.start < len(data) - 4:
            return None
        return data[: error.start].decode()


def _is_binary(text: str) -> bool:
    """Whether a text has more control characters than a text has."""
    controls = sum(unicodedata.category(each) == "Cc" and each not in "\n\r\t" for each in text[:1000])
    return controls * 10 > len(text[:1000])


def visible(text: str) -> str:
    """A text in which every character can be seen: those that would be invisible, or change how others are shown, are
    written as ``<U+202E>``."""
    return text if text.replace("\n", "").isprintable() else text.translate(_SPELLED)


class _Spelled(dict[int, str]):
    """Characters as they are shown, by their numbers. Few are kept at a time."""

    def __missing__(self, number: int) -> str:
        if len(self) >= _MOST_SPELLED:
            self.clear()
        character = chr(number)
        is_hidden = character not in _KEPT and unicodedata.category(character) in _HIDDEN
        self[number] = shown = f"<U+{number:04X}>" if is_hidden else character
        return shown


_SPELLED: Final = _Spelled()


def sentence(text: str) -> str:
    """A sentence of the console with names in it: as `visible`, but the narrow spaces in its numbers stay."""
    return NARROW.join(map(visible, text.split(NARROW)))


def in_one_line(content: Content, most: int = 120) -> str:
    """The beginning of a content in one line. JSON is written without its line breaks."""
    text = content.text[: 4 * most]
    if content.form == HEX:
        text = text.partition("\n")[0].partition("  ")[2]
    line = " ".join(text.split())
    is_cut = len(line) > most or len(content.text) > 4 * most or content.is_cut
    return line[:most] + "…" if is_cut else line


def hex_dump(data: bytes) -> str:
    """The bytes as offsets, hexadecimal numbers and ASCII."""
    lines = []
    for start in range(0, min(len(data), HEX_BYTES), _ROW):
        row = data[start : start + _ROW]
        ascii_text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{_ROW * 3 - 1}}  {ascii_text}")
    return "\n".join(lines)


def is_json(text: str, *, must_be_container: bool) -> bool:
    """Whether a text is JSON; with ``must_be_container`` an object or a list."""
    stripped = text.lstrip()
    if must_be_container and not stripped.startswith(("{", "[")):
        return False
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _has_many_parts(text: str) -> bool:
    """Whether lines of their own for all parts of a JSON would be too many to read, and take too long to make."""
    return sum([text.count(each) for each in "[{,:"]) > MOST_PARTS


def indented(text: str) -> str:
    """JSON with line breaks and indentation. Names, texts and numbers stay as they are written."""
    parts: list[str] = []
    depth, line = 0, "\n"
    for each in _TOKENS.findall(text):
        first, last = each[0], each[-1]
        if first in "{[" and last in "}]":
            parts.append(first + last)
        elif first in "{[":
            depth += 1
            line = _line(depth)
            parts.append(first + line)
        elif first in "}]":
            depth -= 1
            line = _line(depth)
            parts.append(line + first)
        elif first == ",":
            parts.append("," + line)
        elif first == ":":
            parts.append(": ")
        else:
            parts.append(each)
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + "  " * (depth if depth < MOST_INDENTED else MOST_INDENTED)
