"""The offsets of groups that are carried over from a source, cut to what is mirrored."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

NO_EPOCH: Final = -1


class GroupOffset(NamedTuple):
    """A committed offset, with what its committer added."""

    offset: int
    leader_epoch: int
    metadata: str


Commits = Mapping[tuple[str, int], GroupOffset]
"""The offsets of one group, by topic and partition."""
Place = TypeVar("Place", bound=tuple[str, int])


def clamped(commits: Commits, ends: Mapping[Place, int]) -> dict[tuple[str, int], GroupOffset]:
    """The offsets that may be committed here: none is above the end of its partition, and partitions whose end is not
    known are left out. The epoch of a cut offset is not known."""
    found = {}
    known: dict[tuple[str, int], int] = dict(ends.items())
    for place, commit in commits.items():
        end = known.get(place)
        if end is not None:
            found[place] = commit if commit.offset <= end else GroupOffset(end, NO_EPOCH, commit.metadata)
    return found
