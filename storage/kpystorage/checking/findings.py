"""Findings: each is one thing in a log directory that is not as it should be."""

from collections.abc import Callable
from typing import NamedTuple

DAMAGE = "damage"
"""Bytes differ from those that were written, or files contradict one another."""
NOTE = "note"
"""Harmless, but worth knowing: what a stop leaves behind and a start completes."""


class Finding(NamedTuple):
    """One finding. ``text`` is one line for people. ``remedy`` says what mending does about it, and is empty if it can
    do nothing."""

    level: str
    path: str
    text: str
    remedy: str = ""


Report = Callable[[Finding], None]
"""Takes findings as they are made."""
