"""Patterns of transactional ids, in the syntax of RE2 as Kafka's: matching takes time in proportion to the text.

Python's own ``re`` knows another syntax, and lets a client choose a pattern that never ends.
"""

from collections.abc import Callable
from functools import lru_cache

_MAX_BYTES = 1 << 20
"""What a pattern may need of memory."""


class InvalidPattern(Exception):
    """Not a pattern, or one that is too large."""


@lru_cache(4)
def whole_match(pattern: str) -> Callable[[str], bool]:
    """Whether the whole of a text matches. Raises InvalidPattern.

    The last ones are kept: a request is put to every shard, and a large pattern takes milliseconds to be understood.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidPattern(str(error)) from None
    return lambda text: compiled.fullmatch(text) is not None
