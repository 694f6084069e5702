"""The records that a filter lets through. Regular expressions are those of RE2, whose time is bounded. Pure."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpybroker.machines import re2_patterns
from kpybroker.machines.console.json_paths import PathComparison, document_of
from kpywire.record import Record

WHERE: Final = ("any", "key", "value", "header")


class Needle(NamedTuple):
    """The text that is searched."""

    data: bytes
    """UTF-8 or any bytes; in lower case if ``ignores_case``. As ``pattern`` a regular expression of RE2."""
    where: str
    """``key``, ``value``, ``header``, or ``any`` of them."""
    ignores_case: bool = False
    is_pattern: bool = False


class WantedHeader(NamedTuple):
    """A header that a record has to have, with this text in its value."""

    name: str
    data: bytes = b""
    """In lower case if ``ignores_case``."""
    ignores_case: bool = False


class RecordFilter(NamedTuple):
    """The conditions that a record has to meet, all of them."""

    needles: tuple[Needle, ...] = ()
    header: WantedHeader | None = None
    comparisons: tuple[PathComparison, ...] = ()
    """Comparisons of its value, which has to be JSON."""
    since_ms: int | None = None
    until_ms: int | None = None
    """The time that it has to be older than."""


class Matcher:
    """Matches one needle."""

    def __init__(self, needle: Needle, has: Callable[[bytes], bool]) -> None:
        self._needle = needle
        self._has = has

    def may_be_in(self, section: bytes) -> bool:
        """Whether a record in this part of a batch can match: a text lies within one key, value or header. A pattern
        may be bound to their ends, so it says nothing here."""
        return self._needle.is_pattern or self._has(section)

    def __call__(self, record: Record) -> bool:
        """Whether a record matches."""
        return any(self._has(part) for part in self._parts(record))

    def _parts(self, record: Record) -> Iterator[bytes]:
        where = self._needle.where
        if where in ("key", "any") and record.key is not None:
            yield record.key
        if where in ("value", "any") and record.value is not None:
            yield record.value
        if where in ("header", "any"):
            for name, value in record.headers:
                yield name.encode()
                if value is not None:
                    yield value


def matcher(needle: Needle) -> Matcher:
    """The matcher of a needle. Raises ValueError for a pattern that RE2 does not take."""
    if needle.is_pattern:
        try:
            pattern = re2_patterns.compiled(needle.data, ignores_case=needle.ignores_case)
        except re2_patterns.InvalidPattern as invalid:
            raise ValueError(str(invalid)) from None
        return Matcher(needle, lambda data: pattern.search(data) is not None)
    wanted = needle.data
    if needle.ignores_case:
        return Matcher(needle, lambda data: wanted in data.lower())
    return Matcher(needle, lambda data: wanted in data)


class FilterMatcher:
    """Matches a filter."""

    def __init__(self, wanted: RecordFilter) -> None:
        """Raises ValueError for a pattern that RE2 does not take."""
        self._wanted = wanted
        self._matchers = [matcher(each) for each in wanted.needles]
        self._texts = tuple(text for each in wanted.comparisons for text in each.texts)
        self._is_timed = wanted.since_ms is not None or wanted.until_ms is not None

    def may_be_in(self, section: bytes) -> bool:
        """Whether a record in this part of a batch can match."""
        return all(each.may_be_in(section) for each in self._matchers) and self._may_be_json_in(section)

    def _may_be_json_in(self, data: bytes) -> bool:
        return all(text in data for text in self._texts) or b"\\" in data

    def __call__(self, record: Record) -> bool:
        """Whether a record matches."""
        wanted = self._wanted
        return (
            (not self._is_timed or self._is_in_time(record.timestamp))
            and all(each(record) for each in self._matchers)
            and (wanted.header is None or has_header(record, wanted.header))
            and (not wanted.comparisons or self._compares(record.value))
        )

    def _compares(self, value: bytes | None) -> bool:
        return value is not None and self._may_be_json_in(value) and compares(value, self._wanted.comparisons)

    def _is_in_time(self, timestamp_ms: int) -> bool:
        since_ms, until_ms = self._wanted.since_ms, self._wanted.until_ms
        return (since_ms is None or timestamp_ms >= since_ms) and (until_ms is None or timestamp_ms < until_ms)


def has_header(record: Record, wanted: WantedHeader) -> bool:
    """Whether a record has this header."""
    for name, value in record.headers:
        text = b"" if value is None else value.lower() if wanted.ignores_case else value
        if name == wanted.name and wanted.data in text:
            return True
    return False


def compares(value: bytes, comparisons: tuple[PathComparison, ...]) -> bool:
    """Whether a value is JSON and all of these hold for it."""
    try:
        document = document_of(value)
    except (ValueError, RecursionError):
        return False
    return all(each.matches(document) for each in comparisons)
