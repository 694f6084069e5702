"""Objects in a store that belong to nothing: what a crashed copy or a late upload left.

A listing may be stale, a copy may be under way on another broker, and another cluster may use the same prefix. So an
object is an orphan only if it was listed at two times that are further apart than any copy may last, no metadata knew
its segment at the second time, and the metadata of its partition are known here.

Not here: reading names of objects (``kpystorage``), listing, deleting.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from kpybroker.machines.remote_log.cache import RemoteSegments


class ListedObject(NamedTuple):
    """An object of a listing."""

    key: str
    topic_id: bytes
    partition: int
    segment_id: bytes
    size_bytes: int


class Belonging(Enum):
    """The relation of an object to the metadata."""

    KNOWN = "its segment is known"
    YOUNG = "its copy may still be under way"
    ORPHAN = "no segment knows it"
    FOREIGN = "its partition is unknown to this cluster"
    """Never deleted: it may be all that another cluster has."""


class ObjectSweep:
    """The sweeps of one prefix. It remembers when unknown objects were first listed, by this node's own clock."""

    def __init__(self, wait_ms: int) -> None:
        """``wait_ms`` is longer than any copy may last, plus the time that a listing may be stale."""
        self._wait_ms = wait_ms
        self._first_seen: dict[str, int] = {}

    def forget(self) -> None:
        """Wait again for every object: the metadata may have been old when it was first listed."""
        self._first_seen.clear()

    def judge(
        self,
        listing: Iterable[ListedObject],
        segments_of: Callable[[bytes, int], RemoteSegments | None],
        now_ms: int,
    ) -> list[tuple[ListedObject, Belonging]]:
        """Judge a complete listing. ``segments_of`` reads metadata that are at least as new as the listing, None for
        a partition that this cluster does not know or has not read. An object that is not listed is forgotten."""
        before, self._first_seen = self._first_seen, {}
        judged = []
        for each in listing:
            segments = segments_of(each.topic_id, each.partition)
            if segments is None:
                judged.append((each, Belonging.FOREIGN))
            elif segments.state(each.segment_id) is not None:
                judged.append((each, Belonging.KNOWN))
            else:
                since_ms = self._first_seen[each.key] = before.get(each.key, now_ms)
                is_old = now_ms - since_ms >= self._wait_ms
                judged.append((each, Belonging.ORPHAN if is_old else Belonging.YOUNG))
        return judged
