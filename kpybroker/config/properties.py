"""Java ``.properties`` files: comments, continued lines, separators and escapes as ``java.util.Properties`` reads them.

The pairs are not interpreted here. A key that occurs twice has its last value. Files are UTF-8; one that is not is read
as Latin-1, which is what Java does with every file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kpybroker.machines.config_def import ConfigError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A value and the number of the line it begins on."""

    value: str
    line: int
    is_doubled: bool = False
    """Whether its line has ``==``: the second ``=`` belongs to the value, as in Java."""


def read_properties(path: Path) -> dict[str, Property]:
    """The pairs of a file. Raises ConfigError, naming file and line, if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return parse_properties(text, str(path))


def parse_properties(text: str, source: str = "properties") -> dict[str, Property]:
    """The pairs of a text; ``source`` names it in an error."""
    properties = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            properties[_unescape(key)] = Property(_unescape(value), number, value.startswith("="))
        except ValueError:
            raise ConfigError(f"{source}:{number}: malformed \\uxxxx escape") from None
    return properties


def doubts(properties: Mapping[str, Property], source: str) -> list[str]:
    """A line for each pair that is probably not meant as it is read."""
    return [
        f"{source}:{each.line}: the value of {key} begins with '=', since the line has '=='; where that is meant, "
        "'=\\=' says so"
        for key, each in properties.items()
        if each.is_doubled
    ]


def written_properties(properties: Mapping[str, str]) -> str:
    """A text that `parse_properties` reads as these pairs, one line each; keys are names of configs."""
    return "".join(f"{key}={_escape(value)}\n" for key, value in properties.items())


def _escape(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\f", "\\f")
    return f"\\{text}" if text[:1] in (" ", "\t", "=", ":") else text


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines that hold a pair, continued ones joined, with the number of the line each begins on."""
    lines: list[tuple[int, str]] = []
    open_line: str | None = None
    physical = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    for number, raw in enumerate(physical, 1):
        line = raw.lstrip(_BLANK)
        if not open_line:
            open_line = None
            if not line or line[0] in "#!":
                continue
            first = number
        else:
            line = open_line + line
        backslashes = len(line) - len(line.rstrip("\\"))
        open_line = line[:-1] if backslashes % 2 else None
        if open_line is None:
            lines.append((first, line))
    if open_line:
        lines.append((first, open_line))
    return lines


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANK)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANK)
    return line[:end], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if len(digits) != 4 or not digits.isalnum():
                    raise ValueError(digits)
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        elif character == "\\":
            break
        parts.append(character)
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
