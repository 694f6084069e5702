"""The part of ``kpybroker tiers check`` that goes beyond single segments, pure: each offset that only the store should
have is in a segment that readers get, and a compacted topic has no record that a pass should have dropped.

A pass says in a segment up to which offset it considered newer records. Below the smallest of these ends each key is
there once (`kpybroker.machines.remote_log.compacting`). Not here: values that passes dropped, which nothing else has.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import Final, NamedTuple

from kpybroker.cli.tier_check import MISSING, SUPERSEDED, TierFinding, words_of
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.compacting import StoredPart, compacted_until, dirt_of
from kpybroker.machines.remote_log.lineage import CopiedRange, Epochs, copies
from kpybroker.machines.remote_log.segments import RemoteLogSegment

DIGEST_BYTES: Final = 16


class TierBounds(NamedTuple):
    """The bounds of a partition. The metadata were read between these two questions."""

    log_start: int
    """Asked afterwards: what is below may be gone by now."""
    local_start: int
    """Asked before: what is copied since is in the metadata, too."""


class KeyedRecord(NamedTuple):
    """A record of a segment that was read."""

    offset: int
    key: bytes


KeysOf = Callable[[RemoteLogSegment], Iterable[KeyedRecord] | None]
"""Reads the keys in a segment; None for one that cannot be read, which is reported elsewhere."""


def uncovered(place: str, segments: RemoteSegments, epochs: Epochs, bounds: TierBounds) -> Iterator[TierFinding]:
    """The offsets below the disk that no readable segment of the leader's history has."""
    offset = bounds.log_start
    while offset < bounds.local_start:
        for each in copies(segments, epochs, offset):
            offset = each.end_offset
        if offset >= bounds.local_start:
            return
        following = (each.start_offset for each in segments.all() if each.start_offset > offset)
        end = min([*following, bounds.local_start])
        text = "neither the leader's disk nor a readable segment of its history has them"
        yield TierFinding(MISSING, f"{place} offsets {offset} to {end - 1}", text, 0)
        offset = end


def superseded(ranges: Sequence[CopiedRange], keys_of: KeysOf) -> Iterator[TierFinding]:
    """The keys that the compacted part of a log has twice: one finding for each segment with older ones."""
    whole = takewhile(lambda each: each.end_offset == each.segment.next_offset, ranges)  # as passes do
    parts = tuple(StoredPart(each.segment, each.start_offset, compacted_until(each.segment)) for each in whole)
    clean_until = dirt_of(parts).first_dirty_offset
    newest: dict[bytes, tuple[int, StoredPart]] = {}
    older: dict[bytes, int] = {}
    for part in parts:
        if part.start >= clean_until:
            break
        for record in keys_of(part.segment) or ():
            if not part.start <= record.offset < clean_until:
                continue
            key = blake2b(record.key, digest_size=DIGEST_BYTES).digest()
            before = newest.get(key)
            if before is not None:
                name = before[1].segment.id.segment_id
                older[name] = older.get(name, 0) + 1
            newest[key] = record.offset, part
    for part in parts:
        count = older.get(part.segment.id.segment_id)
        if count:
            text = f"{count} records have a newer one of their key below offset {clean_until}, where it is compacted"
            yield TierFinding(SUPERSEDED, words_of(part.segment), text, part.segment.size_bytes)
