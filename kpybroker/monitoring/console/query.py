"""The query and the forms of requests, checked: a value that is no number is refused in one line. Pure."""

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from kpybroker.runtime.http.request import HttpRefused

MOST_FIELDS: Final = 200
PIECE_BYTES: Final = 4096
"""The bytes of a form that are decoded at once."""
TOO_MANY: Final = f"there are more than {MOST_FIELDS} values"
MOST_ESCAPES: Final = 65_536
"""The most escaped characters of a JSON body: each takes up to 35 ns while the loop is held."""
MOST_PARTS: Final = 2_000
"""The texts, numbers and containers of a JSON body: more would be read in one step, and no request has as many."""
MOST_TOKEN_BYTES: Final = 128
_TOKEN: Final = b"token="


class Query:
    """Named values of a request."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def text(self, name: str, default: str = "") -> str:
        """A value."""
        return self.values.get(name, default)

    def needed(self, name: str) -> str:
        """A value that has to be there. Raises Refused."""
        found = self.values.get(name, "")
        if not found:
            raise bad(f"{name} is missing")
        return found

    def number(self, name: str, default: int, *, lowest: int = 0, highest: int = 2**63 - 1) -> int:
        """A whole number within these bounds. Raises Refused."""
        found = self.values.get(name, "").strip()
        if not found:
            return default
        digits = found.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 20:
            raise bad(f"{name} is no whole number")
        number = int(found)
        if not lowest <= number <= highest:
            raise bad(f"{name} is not between {lowest} and {highest}")
        return number

    def flag(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.values.get(name, "") in ("1", "true", "on", "yes")


def parsed(text: str) -> Query:
    """The query of an address. Of a name that comes twice the last value counts. Raises Refused."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError:
        raise bad(TOO_MANY) from None
    return Query(dict(pairs))


def token_in(form: bytes) -> str:
    """The token of a form, which is read before anything else of it."""
    fields = (each for each in form.split(b"&", MOST_FIELDS) if each.startswith(_TOKEN))
    return next(fields, b"")[len(_TOKEN) :][:MOST_TOKEN_BYTES].decode("latin-1")


def read_form(form: bytes, values: dict[str, str]) -> Iterator[None]:
    """Add the values of a form, as `parsed` has them, in pieces: large ones take long. Raises Refused."""
    if form.count(b"&") >= MOST_FIELDS:
        raise bad(TOO_MANY)
    if not form.isascii():
        raise bad("a form is ASCII, and other characters are written as %C3%A9")
    for field in filter(None, form.split(b"&")):
        texts = []
        for part in field.partition(b"=")[::2]:
            pieces = bytearray()
            for piece in _unquoted(part):
                pieces += piece
                yield
            texts.append(pieces.decode("utf-8", "replace"))
        name, value = texts
        values[name] = value


def _unquoted(text: bytes) -> Iterator[bytes]:
    """The bytes that a part of a form stands for, in pieces that cut no character written as %41."""
    start = 0
    while start < len(text):
        end = start + PIECE_BYTES
        escape = text.find(b"%", end - 2, end)
        end = end if escape < 0 else escape
        yield unquote_to_bytes(text[start:end].replace(b"+", b" "))
        start = end


def from_json(body: bytes) -> Query:
    """The named values of a JSON object, which has passed `check_parts`. Raises Refused."""
    try:
        found = json.loads((body or b"{}").decode())
        if not isinstance(found, dict):
            raise ValueError(found)
        values = {name: _text(value) for name, value in found.items() if value is not None}
        for each in (*values, *values.values()):
            each.encode()  # a text may hold half a character
    except (ValueError, RecursionError):
        raise bad("the body is no JSON object") from None
    if len(found) > MOST_FIELDS:
        raise bad(TOO_MANY)
    return Query(values)


def check_parts(body: bytes) -> None:
    """Raise Refused for a body of too many parts or escaped characters, before it is read."""
    if body.count(b"\\") > MOST_ESCAPES:
        raise bad(f"the body has more than {MOST_ESCAPES} escaped characters; a form may have them")
    # Without escaped quotes, every second piece is a text.
    pieces = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 2 * MOST_PARTS + 1)
    around = b"".join(pieces[::2])
    if len(pieces) // 2 + sum([around.count(each) for each in (b"[", b"{", b",")]) > MOST_PARTS:
        raise bad(f"the body has more than {MOST_PARTS} parts")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def partition_in(query: Query) -> int:
    """The partition that is asked for; -1 where none is. Raises Refused."""
    return query.number("partition", -1, lowest=-1, highest=2**31 - 1)


def bad(line: str) -> HttpRefused:
    """A refusal of what the sender can mend."""
    return HttpRefused(HTTPStatus.BAD_REQUEST, line)


class RefusedQuery(HttpRefused):
    """A refusal of a query, with the value of the page that shows it beside what was typed."""

    def __init__(self, refused: HttpRefused, shown: Any) -> None:
        super().__init__(refused.status, str(refused), refused.headers)
        self.shown = shown
