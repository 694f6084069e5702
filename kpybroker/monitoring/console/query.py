"""The query and the forms of requests, checked: a value that is no number is refused in one line. Pure."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

from kpybroker.runtime.http.request import HttpRefused

MOST_FIELDS: Final = 200


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
    """The query of an address, or a form. Of a name that comes twice the last value counts. Raises Refused."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError:
        raise bad(f"there are more than {MOST_FIELDS} values") from None
    return Query(dict(pairs))


def from_json(body: bytes) -> Query:
    """The named values of a JSON object. Raises Refused."""
    try:
        found = json.loads(body or b"{}")
        json.dumps(found, ensure_ascii=False).encode()  # a text may hold half a character
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise bad("the body is no JSON object")
    if len(found) > MOST_FIELDS:
        raise bad(f"there are more than {MOST_FIELDS} values")
    return Query({name: _text(value) for name, value in found.items() if value is not None})


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
