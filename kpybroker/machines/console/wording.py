"""Numbers, sizes, times and counted things as the pages write them: one way for all of them. Pure."""

from datetime import UTC, datetime
from typing import Final

NONE: Final = "–"
"""The text of a value that is not known."""
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def digits(number: float | None) -> str:
    """A whole number with narrow spaces between thousands; a dash for None."""
    return NONE if number is None else f"{number:,.0f}".replace(",", "\u202f")


def counted(number: int, one: str, more: str | None = None) -> str:
    """A number and its noun: ``1 record``, ``12 records``. ``more``: the plural, if it is not ``one`` with an s."""
    return f"{digits(number)} {one if number == 1 else more or one + 's'}"


def rate(per_s: float) -> str:
    """A number of things per second, with a decimal below 10."""
    return digits(per_s) if per_s >= 10 or not per_s else f"{per_s:.1f}"


def in_bytes(count: float) -> str:
    """A number of bytes, short."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB".replace(",", "\u202f")


def percent(share: float) -> str:
    """A share of 1 in percent, with decimals below 10."""
    value = share * 100
    return f"{digits(value)} %" if value >= 10 or not value else f"{value:.2f} %"


def milliseconds(value: float | None) -> str:
    """A time span in ms: with decimals where it is short, in seconds where it is long."""
    if value is None:
        return NONE
    if value >= 10_000:
        return seconds(value / 1000)
    if value <= 0 or value >= 10:
        return f"{digits(value)} ms"
    return f"{value:.2f} ms" if value < 1 else f"{value:.1f} ms"


def milliseconds_of(less: float, more: float) -> str:
    """Two time spans in ms, the unit once where both have it: ``0.3 / 16 ms``."""
    first, second = milliseconds(less), milliseconds(more)
    return f"{first.removesuffix(' ms') if second.endswith(' ms') else first} / {second}"


def seconds(value: float | None) -> str:
    """A time span."""
    if value is None:
        return NONE
    for unit, name in _SPANS:
        if value >= unit * 2:
            return f"{digits(value / unit)} {name}"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def time(ms: int | None) -> str:
    """A time in ms since 1970 as UTC."""
    if ms is None or ms < 0:
        return NONE
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def ago(ms: int | None, now_ms: float) -> str:
    """The age of a time in ms since 1970: ``3 min ago``; ``in 5 s`` for one that is to come."""
    if ms is None or ms < 0:
        return NONE
    passed_s = (now_ms - ms) / 1000
    return f"{seconds(passed_s)} ago" if passed_s >= 0 else f"in {seconds(-passed_s)}"


def in_words(value: float, unit: str) -> str:
    """A value with its unit, short."""
    if unit == "B/s":
        return f"{in_bytes(value)}/s"
    if unit == "ms":
        return milliseconds(value)
    if unit == "s":
        return seconds(value)
    if unit.endswith("/s"):
        return f"{rate(value)} {unit}"
    return f"{digits(value)} {unit}".strip()
