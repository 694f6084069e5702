"""Regular expressions of RE2, which anybody may choose: the time to match is proportional to the text, and the memory
and time to compile are bounded.

Python's own ``re`` has another syntax, and a client could choose a pattern whose match never ends.
"""

from typing import Any, Final

_MAX_BYTES: Final = 1 << 20
"""The memory that a compiled pattern may use."""
_MOST_CLASSES: Final = 100
"""The most classes of Unicode, such as ``\\pL``: RE2 takes 30 KB to read each, before it looks at the size."""


class InvalidPattern(Exception):
    """The text is not a pattern, or the pattern is too large. The message says why in the words of RE2."""


def compiled(pattern: str | bytes, *, ignores_case: bool = False) -> Any:
    """The pattern, for texts of its type. Raises InvalidPattern."""
    text = pattern.lower() if isinstance(pattern, bytes) else pattern.encode(errors="replace").lower()
    if text.count(b"\\p") > _MOST_CLASSES:
        raise InvalidPattern("pattern too large")
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_BYTES
    options.case_sensitive = not ignores_case
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise InvalidPattern(error.reason) from None
    except re2.error as error:
        reason = error.args[0]
        raise InvalidPattern(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
