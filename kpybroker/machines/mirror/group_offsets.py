"""The offsets of groups that are carried over from a source, cut to what is mirrored."""

from collections.abc import Collection, Mapping
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


class GroupRemoval(NamedTuple):
    """Offsets of a group that were carried over and that the source does not have any more."""

    spots: frozenset[tuple[str, int]]
    is_whole: bool
    """The source does not have the group at all."""


def removals(
    carried: Mapping[str, Collection[tuple[str, int]]],
    found: Mapping[str, Commits],
    dead: Collection[str],
    topics: Collection[str],
) -> dict[str, GroupRemoval]:
    """The offsets that are to be removed here, by group. ``found`` are the source's, ``dead`` the groups that it does
    not have, and ``topics`` those that it has: offsets of a topic that was deleted there stay, as its records do."""
    due = {}
    for group, spots in carried.items():
        if group in found or group in dead:
            gone = frozenset(spot for spot in spots if spot[0] in topics and spot not in found.get(group, {}))
            if gone:
                due[group] = GroupRemoval(gone, group in dead and len(gone) == len(spots))
    return due
