"""ISO 8601 durations (``PnDTnHnMn.nS``) as ``java.time.Duration`` reads them. Pure."""

import re

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_duration_ms(text: str) -> int | None:
    """The milliseconds of a duration, rounded down; None for a text that is no duration."""
    match = _DURATION.fullmatch(text)
    if match is None or match[3] in ("T", "t") or not any(match.group(2, 4, 5, 6)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.group(2, 4, 5, 6))
    nanoseconds = int((match[7] or "").ljust(9, "0"))
    if (match[6] or "").startswith("-"):
        nanoseconds = -nanoseconds
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanoseconds
    return (-total if match[1] == "-" else total) // 1_000_000
