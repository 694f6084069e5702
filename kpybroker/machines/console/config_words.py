"""The values of configs in words, and words that are typed for them as values: ``604800000`` and ``7 days``. Pure.

The unit is the last word of a config's name, as Kafka names them. Words stand for exactly one number, or begin with
"about"; those of a value, typed, are the value again. A text that is no such words stays as it is, so that Kafka says
what is wrong with it.
"""

import re
from decimal import Decimal
from typing import Final, NamedTuple

from kpybroker.machines.config_def import DOUBLE, INT, INT_MAX, LONG, LONG_MAX, SHORT
from kpybroker.machines.console.wording import digits

NO_LIMIT: Final = "no limit"
ABOUT: Final = "about"
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
MOST: Final = 1_000
"""Numbers from here on are written in the next larger unit."""


class _Unit(NamedTuple):
    """The unit of a config: how many milliseconds or bytes one of it is."""

    size: int
    is_time: bool


_UNITS: Final = {
    "ms": _Unit(1, is_time=True),
    "seconds": _Unit(SECOND_MS, is_time=True),
    "minutes": _Unit(MINUTE_MS, is_time=True),
    "hours": _Unit(HOUR_MS, is_time=True),
    "bytes": _Unit(1, is_time=False),
}
"""The units by the last word of a name."""
_TIMES: Final = (
    (DAY_MS, "day", "days"),
    (HOUR_MS, "hour", "hours"),
    (MINUTE_MS, "minute", "minutes"),
    (SECOND_MS, "second", "seconds"),
)
_SIZES: Final = tuple(
    (1 << 10 * power, f"{letter}iB", f"{letter}iB") for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "K"))
)
_TYPED_TIMES: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), SECOND_MS),
    **dict.fromkeys(("min", "minute", "minutes"), MINUTE_MS),
    **dict.fromkeys(("h", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
    **dict.fromkeys(("week", "weeks"), 7 * DAY_MS),
}
_TYPED_SIZES: Final = {
    **dict.fromkeys(("b", "byte", "bytes"), 1),
    **{f"{letter}ib": 1 << 10 * power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}
"""The units that may be typed, in small letters: KiB counts by 1024, kB by 1000."""
_TYPED_NO_LIMIT: Final = frozenset({NO_LIMIT, "no limits", "unlimited"})
_TYPED: Final = re.compile(r"([0-9][0-9 \u00a0\u202f_]*(?:\.[0-9]+)?)\s*([A-Za-z]+)")
_BETWEEN_DIGITS: Final = re.compile(r"[ \u00a0\u202f_]")
_LONGEST_TYPED: Final = 60

MINUS_ONE: Final = frozenset(
    {
        "retention.ms",
        "retention.bytes",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
        "log.retention.bytes",
        "metadata.max.retention.ms",
        "metadata.max.retention.bytes",
        "queued.max.request.bytes",
        "remote.log.index.file.cache.ttl.ms",
    }
)
"""The configs where Kafka takes -1 for no limit. Elsewhere it means something else, or nothing."""
_LARGEST: Final = {
    SHORT: str(2**15 - 1),
    INT: str(INT_MAX),
    LONG: str(LONG_MAX),
    DOUBLE: "1.7976931348623157E308",
}
"""The largest value of each type: no limit, in configs that have no other way to say so."""


def words_of(name: str, kind: str, value: str | None) -> str:
    """The value of a config in words; empty where they would say no more than the value itself."""
    if value is None or kind not in _LARGEST:
        return ""
    if value == _no_limit(name, kind):
        return NO_LIMIT
    unit = _unit_of(name)
    if unit is None or not value.isascii() or not value.isdigit():
        return ""
    return _measured(int(value) * unit.size, _TIMES if unit.is_time else _SIZES)


def value_of(name: str, kind: str, text: str) -> str:
    """The value that was typed for a config, in words or as it is."""
    typed = text.strip()
    if kind not in _LARGEST or len(typed) > _LONGEST_TYPED:
        return text
    if typed.lower() in _TYPED_NO_LIMIT:
        return _no_limit(name, kind) or text
    unit, found = _unit_of(name), _TYPED.fullmatch(typed)
    if unit is None or found is None:
        return text
    size = (_TYPED_TIMES if unit.is_time else _TYPED_SIZES).get(found[2].lower())
    if size is None:
        return text
    number = Decimal(_BETWEEN_DIGITS.sub("", found[1])) * size / unit.size
    return str(int(number)) if number == int(number) else text


def _unit_of(name: str) -> _Unit | None:
    plain = name.removesuffix(".per.second")
    return _UNITS.get("bytes" if plain.endswith("buffer.size") else plain.rpartition(".")[2])


def _no_limit(name: str, kind: str) -> str | None:
    """The value that means no limit: -1, or the largest number where the name says what is counted."""
    if name in MINUS_ONE:
        return "-1"
    is_limit = name.startswith("max.") or name.endswith((".max.size", ".messages"))
    return _LARGEST[kind] if is_limit or _unit_of(name) is not None else None


def _measured(value: int, units: tuple[tuple[int, str, str], ...]) -> str:
    """A value in the largest unit of which it is a whole number, or about so much of the largest that fits."""
    largest = units[0][0]
    for size, one, more in units:
        number = value // size
        if number and value % size == 0 and (number < MOST or size == largest):
            return f"{digits(number)} {one if number == 1 else more}"
    for size, one, more in units:
        if value >= size:
            whole, part = divmod((20 * value + size) // (2 * size), 10)
            text = f"{digits(whole)}.{part} {more}" if part else f"{digits(whole)} {one if whole == 1 else more}"
            return text if (10 * whole + part) * size == 10 * value else f"{ABOUT} {text}"
    return ""


def retention_words(policy: str, time_value: str | None, bytes_value: str | None) -> str:
    """How long the records of a topic are kept, by its configs."""
    policies = [each.strip() for each in policy.split(",")]
    if "delete" not in policies:
        return "the last record of each key" if "compact" in policies else NO_LIMIT
    limits = [
        words_of(name, LONG, value) or f"{value} {unit}"
        for name, unit, value in (("retention.ms", "ms", time_value), ("retention.bytes", "bytes", bytes_value))
        if value is not None and not value.startswith("-")
    ]
    return " or ".join(limits) or NO_LIMIT
