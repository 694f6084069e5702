"""The comparison of ``kpybroker tiers check``: the objects of a store beside ``__remote_log_metadata``. Pure.

The listing is taken before the metadata are read, so a segment that was announced meanwhile is known.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import DELETING, FINISHED, STARTED, RemoteLogSegment
from kpybroker.machines.remote_log.sweep import ListedObject
from kpywire.uuid import to_string

LOG: Final = ".log"
MANIFEST: Final = ".rsm-manifest"
CHUNKED: Final = (LOG, ".indexes", MANIFEST)
"""The endings of the objects of a segment in Aiven's layout."""
MISSING: Final = "missing"
SIZE: Final = "size"
UNREADABLE: Final = "unreadable"
ORPHAN: Final = "orphan"
FOREIGN: Final = "foreign"
UNFINISHED: Final = "unfinished"
SUPERSEDED: Final = "superseded"
"""An older record of a key beside a newer one, where a pass of compaction has considered both."""
DAMAGES: Final = (MISSING, SIZE, UNREADABLE, SUPERSEDED)
"""The kinds of findings that mean that records cannot be read."""

Metadata = Mapping[tuple[bytes, int], RemoteSegments]


class TierFinding(NamedTuple):
    """A difference between the store and the metadata."""

    kind: str
    place: str
    """A segment, such as orders-0 offsets 0 to 99, or the key of an object."""
    text: str
    size_bytes: int


class StoreComparison(NamedTuple):
    """The result of a comparison."""

    segments: int
    """The readable segments."""
    objects: int
    size_bytes: int
    findings: list[TierFinding]

    @property
    def is_in_order(self) -> bool:
        """Whether every readable segment has its objects."""
        return not any(each.kind in DAMAGES for each in self.findings)


def compare(listing: Iterable[ListedObject], metadata: Metadata, *, is_plain: bool) -> StoreComparison:
    """Compare a complete listing with metadata that are at least as new. ``is_plain``: logs are stored as they are,
    neither compressed nor encrypted, so their sizes have to be equal."""
    objects: dict[bytes, list[ListedObject]] = {}
    findings: list[TierFinding] = []
    count = size_bytes = 0
    for each in listing:
        count, size_bytes = count + 1, size_bytes + each.size_bytes
        segments = metadata.get((each.topic_id, each.partition))
        if segments is None:
            findings.append(TierFinding(FOREIGN, each.key, "its partition is unknown to this cluster", each.size_bytes))
        elif segments.state(each.segment_id) is None:
            findings.append(TierFinding(ORPHAN, each.key, "no segment knows it", each.size_bytes))
        else:
            objects.setdefault(each.segment_id, []).append(each)
    readable = 0
    for segment in _segments(metadata):
        found = objects.get(segment.id.segment_id, [])
        readable += segment.state is FINISHED
        findings += _of_segment(segment, found, is_plain=is_plain)
    return StoreComparison(readable, count, size_bytes, findings)


def _segments(metadata: Metadata) -> Iterator[RemoteLogSegment]:
    for segments in metadata.values():
        yield from segments.all()


def _of_segment(segment: RemoteLogSegment, found: list[ListedObject], *, is_plain: bool) -> Iterator[TierFinding]:
    size_bytes = sum(each.size_bytes for each in found)
    if segment.state is STARTED:
        yield TierFinding(UNFINISHED, words_of(segment), "its copy has not ended", size_bytes)
    elif segment.state is DELETING:
        if found:
            yield TierFinding(UNFINISHED, words_of(segment), "its deletion has not ended", size_bytes)
    elif not found:
        yield TierFinding(MISSING, words_of(segment), "the store has no object of it", segment.size_bytes)
    else:
        lacking = _lacking(found)
        if lacking:
            yield TierFinding(MISSING, words_of(segment), f"the store lacks its {' and '.join(lacking)}", 0)
        logs = [each for each in found if each.key.endswith(LOG)]
        if is_plain and logs and logs[0].size_bytes != segment.size_bytes:
            text = f"its log has {logs[0].size_bytes} bytes, the metadata say {segment.size_bytes}"
            yield TierFinding(SIZE, words_of(segment), text, logs[0].size_bytes)


def _lacking(found: list[ListedObject]) -> list[str]:
    """The endings of objects that a segment should have. Only Aiven's layout has a manifest."""
    if not any(each.key.endswith(CHUNKED[1:]) for each in found):
        return [] if any(each.key.endswith(LOG) for each in found) else [LOG]
    return [ending for ending in CHUNKED if not any(each.key.endswith(ending) for each in found)]


def words_of(segment: RemoteLogSegment) -> str:
    """A segment in words."""
    topic, partition = segment.id.topic, segment.id.partition
    number = to_string(segment.id.segment_id)
    return f"{topic}-{partition} offsets {segment.start_offset} to {segment.end_offset} (segment {number})"


def read_all(
    metadata: Metadata, read: Callable[[RemoteLogSegment], str | None], looked: Callable[[], object]
) -> Iterator[TierFinding]:
    """Read each readable segment as a whole. ``read`` says what is wrong with one."""
    for segment in _segments(metadata):
        if segment.state is FINISHED:
            wrong = read(segment)
            looked()
            if wrong is not None:
                yield TierFinding(UNREADABLE, words_of(segment), wrong, segment.size_bytes)
