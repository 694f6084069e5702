"""One bug that is planted in the sources."""

from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """One bug. ``path`` is below the root of the project; ``old`` stands there once. ``nodes``: of how many nodes the
    worlds are in which it is searched; ``world``: their name in `WORLDS`; if it is empty, plain ones and all kinds."""

    name: str
    path: str
    old: str
    new: str
    nodes: int = 3
    world: str = ""

    def has_place(self, root: Path) -> bool:
        """Whether its text stands once in the sources."""
        return (root / self.path).read_text().count(self.old) == 1
