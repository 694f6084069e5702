"""One thing found in a log directory that is not as it should be."""

from collections.abc import Callable
from typing import NamedTuple

DAMAGE = "damage"
"""Bytes are not what was written, or files contradict one another."""
NOTE = "note"
"""Worth knowing, and no harm: what a stop leaves behind, and a start finishes."""


class Finding(NamedTuple):
    """``text`` is one line for people; ``remedy`` says what mending does about it, nothing if it can do nothing."""

    level: str
    path: str
    text: str
    remedy: str = ""


Report = Callable[[Finding], None]
"""Takes findings as they are made."""
