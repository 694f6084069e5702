"""One bug that is planted in the sources."""

from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """One bug. ``path`` is below the root of the project; ``old`` stands there once. ``nodes``: of how many nodes the
    worlds are in which it is searched; ``is_guarded``: whether they have ACLs and client quotas; ``is_lending``:
    whether their files are lent and read; ``is_beating``: whether they have a group of the consumer protocol;
    ``has_zookeeper``: whether their nodes are brokers in ZooKeeper mode."""

    name: str
    path: str
    old: str
    new: str
    nodes: int = 3
    is_guarded: bool = False
    is_lending: bool = False
    is_beating: bool = False
    has_zookeeper: bool = False

    def has_place(self, root: Path) -> bool:
        """Whether its text stands once in the sources."""
        return (root / self.path).read_text().count(self.old) == 1
