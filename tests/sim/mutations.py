"""Bugs to plant: in which file what text becomes what other. Each is one that somebody could make.

A planted bug is found when a seed fails with it. The texts are held against the sources by a test, so a change of the
code brings its mutations along.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    """One bug. ``path`` is below the root of the project; ``old`` stands there once."""

    name: str
    path: str
    old: str
    new: str


MUTATIONS: list[Mutation] = []
