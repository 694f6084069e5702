"""Patterns of clients in the syntax of RE2, as in Kafka."""

from collections.abc import Callable
from functools import lru_cache

from kpybroker.machines.re2_patterns import compiled


@lru_cache(4)
def whole_match(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether the whole of a text matches. Raises InvalidPattern.

    The last patterns are cached: a request goes to every shard, and compiling a large pattern takes milliseconds.
    """
    usable = compiled(pattern)
    return lambda text: usable.fullmatch(text) is not None
