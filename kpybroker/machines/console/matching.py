"""Whether a record has the text that is searched. Regular expressions are those of RE2, whose time is bounded."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpybroker.machines import re2_patterns
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
