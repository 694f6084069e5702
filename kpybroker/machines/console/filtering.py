"""The filter of records as people type it, and the same in words. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kpybroker.machines.console.content import HEX, TEXT
from kpybroker.machines.console.json_paths import BadPath, comparisons_in
from kpybroker.machines.console.matching import WHERE, FilterMatcher, Needle, RecordFilter, WantedHeader

MOST_CHARACTERS: Final = 1000
REGEX: Final = "regex"
KINDS: Final = (TEXT, REGEX, HEX)
_PLACES: Final = {"any": "anywhere", "key": "in the key", "value": "in the value", "header": "in a header"}


@dataclass(frozen=True, slots=True)
class FilterFields:
    """The fields of a filter, as they were typed. All that are filled have to match."""

    text: str = ""
    """A part of the record, by ``kind`` and ``where``."""
    kind: str = TEXT
    """``text``, ``regex`` (RE2) or ``hex``."""
    where: str = "any"
    """``any``, ``key``, ``value`` or ``header``."""
    ignore_case: bool = False
    key: str = ""
    """A part of the key."""
    header: str = ""
    """The name of a header, or its name and a part of its value: ``name=part``."""
    json: str = ""
    """Comparisons of values in JSON: ``$.from == "ZRH" and $.amount > 10``."""
    since: str = ""
    """The time of the first record."""
    until: str = ""
    """The time that records are older than."""

    @property
    def is_empty(self) -> bool:
        """Whether every record matches."""
        return not (self.text or self.key or self.header or self.json or self.since or self.until)


NO_FILTER: Final = FilterFields()
NAMES: Final = tuple(FilterFields.__dataclass_fields__)


def filter_of(fields: FilterFields) -> RecordFilter | None:
    """The filter; None if every record matches. Raises ValueError with one line."""
    if fields.is_empty:
        return None
    if max(len(fields.text), len(fields.key), len(fields.header)) > MOST_CHARACTERS:
        raise ValueError(f"a search is for at most {MOST_CHARACTERS} characters")
    needles = []
    if fields.text:
        needles.append(_needle(fields))
    if fields.key:
        needles.append(Needle(_folded(fields.key, fields), "key", fields.ignore_case))
    name, _, part = fields.header.partition("=")
    try:
        comparisons = comparisons_in(fields.json) if fields.json else ()
    except BadPath as error:
        raise ValueError(f"JSON path: {error}") from None
    return RecordFilter(
        tuple(needles),
        WantedHeader(name.strip(), _folded(part.strip(), fields), fields.ignore_case) if fields.header else None,
        comparisons,
        _time("since", fields.since),
        _time("until", fields.until),
    )


def _needle(fields: FilterFields) -> Needle:
    if fields.where not in WHERE:
        raise ValueError(f"where is none of {', '.join(WHERE)}")
    if fields.kind not in KINDS:
        raise ValueError(f"kind is none of {', '.join(KINDS)}")
    if fields.kind == HEX:
        try:
            return Needle(bytes.fromhex(fields.text), fields.where)
        except ValueError:
            raise ValueError("text is no hexadecimal number") from None
    if fields.kind == TEXT:
        return Needle(_folded(fields.text, fields), fields.where, fields.ignore_case)
    needle = Needle(fields.text.encode("utf-8", "replace"), fields.where, fields.ignore_case, is_pattern=True)
    try:
        FilterMatcher(RecordFilter((needle,)))
    except ValueError as error:
        raise ValueError(f"text is no regular expression of RE2: {error}") from None
    return needle


def _folded(text: str, fields: FilterFields) -> bytes:
    data = text.encode("utf-8", "replace")
    return data.lower() if fields.ignore_case else data


def _time(name: str, text: str) -> int | None:
    return time_in(text, name) if text.strip() else None


def time_in(text: str, name: str = "time") -> int:
    """A time in ms since 1970: digits, or a date with a time, in UTC unless it says otherwise. Raises ValueError."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        line = f"{name} is neither milliseconds since 1970 nor a date such as 2026-01-31T12:00"
        raise ValueError(line) from None


def in_words(fields: FilterFields) -> tuple[str, ...]:
    """The conditions of a filter, each as a part of a sentence."""
    found = []
    if fields.text:
        kind = {TEXT: f"“{fields.text}”", REGEX: f"/{fields.text}/", HEX: f"the bytes {fields.text}"}[fields.kind]
        found.append(f"{kind} {_PLACES[fields.where]}")
    if fields.key:
        found.append(f"“{fields.key}” in the key")
    if fields.header:
        name, equals, part = fields.header.partition("=")
        found.append(f"a header {name.strip()}" + (f" with “{part.strip()}”" if equals else ""))
    if fields.json:
        found.append(fields.json.strip())
    if fields.since:
        found.append(f"since {fields.since.strip()}")
    if fields.until:
        found.append(f"before {fields.until.strip()}")
    if fields.ignore_case and (fields.text or fields.key or fields.header):
        found.append("in capitals or small letters")
    return tuple(found)
