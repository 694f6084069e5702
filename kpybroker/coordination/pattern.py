"""Patterns of clients in the syntax of RE2, as in Kafka: the time to match is proportional to the text.

Python's own ``re`` has another syntax, and a client could choose a pattern whose match never ends.
"""

from collections.abc import Callable
from functools import lru_cache

_MAX_BYTES = 1 << 20
"""The memory that a compiled pattern may use."""
_MOST_CLASSES = 100
"""The most classes of Unicode, such as ``\\pL``: RE2 takes 30 KB to read each, before it looks at the size."""


class InvalidPattern(Exception):
    """The text is not a pattern, or the pattern is too large."""


@lru_cache(4)
def whole_match(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether the whole of a text matches. Raises InvalidPattern.

    The last patterns are cached: a request goes to every shard, and compiling a large pattern takes milliseconds.
    """
    if pattern.count("\\p") + pattern.count("\\P") > _MOST_CLASSES:
        raise InvalidPattern("pattern too large")
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise InvalidPattern(error.reason) from None
    except re2.error as error:
        reason = error.args[0]
        raise InvalidPattern(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
    return lambda text: compiled.fullmatch(text) is not None
