"""The proof that a store has every offset of a partition below the disk, and each key of a compacted part once."""

from random import Random

import pytest
from compacted_world import CompactedWorld, events
from remote_log_histories import segment
from test_remote_segments import cache_of

from kpybroker.cli.tier_check import MISSING, SUPERSEDED
from kpybroker.cli.tier_proof import KeyedRecord, TierBounds, superseded, uncovered
from kpybroker.cli.tier_store import keys_of
from kpybroker.machines.remote_log.lineage import CopiedRange, copies
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpystorage.remote import custom_metadata

EPOCHS = [(1, 0)]


def compacted(number: int, start: int, end: int, until: int) -> RemoteLogSegment:
    """A segment of a pass that considered newer records up to ``until``."""
    fields = custom_metadata.decode(None)._replace(compacted_until=until)
    return segment(number, start, end - 1, [(1, start)])._replace(custom_metadata=custom_metadata.encode(fields))


def ranges(*segments: RemoteLogSegment) -> list[CopiedRange]:
    return [CopiedRange(each, each.start_offset, each.next_offset) for each in segments]


def found_in(keys: dict[int, list[tuple[int, bytes]]], *segments: RemoteLogSegment) -> list[tuple[str, str]]:
    """The findings where segments at these base offsets have these keys."""
    found = superseded(ranges(*segments), lambda of: [KeyedRecord(*each) for each in keys[of.start_offset]])
    return [(each.kind, each.text) for each in found]


def test_offsets_that_no_segment_has_are_missing_up_to_the_next_one() -> None:
    segments = cache_of(segment(1, 0, 9, [(1, 0)]), segment(2, 20, 29, [(1, 20)]))
    found = list(uncovered("t-0", segments, EPOCHS, TierBounds(0, 40)))
    assert [(each.kind, each.place) for each in found] == [
        (MISSING, "t-0 offsets 10 to 19"),
        (MISSING, "t-0 offsets 30 to 39"),
    ]


@pytest.mark.parametrize(("log_start", "local_start"), [(0, 30), (5, 25), (30, 30), (40, 30)])
def test_offsets_below_the_log_start_and_on_the_disk_need_no_segment(log_start: int, local_start: int) -> None:
    segments = cache_of(segment(1, 0, 9, [(1, 0)]), segment(2, 10, 29, [(1, 10)]))
    assert list(uncovered("t-0", segments, EPOCHS, TierBounds(log_start, local_start))) == []


def test_a_segment_of_another_history_covers_nothing() -> None:
    segments = cache_of(segment(1, 0, 9, [(1, 0)]), segment(2, 10, 19, [(2, 10)]))
    (found,) = uncovered("t-0", segments, [(1, 0)], TierBounds(0, 20))
    assert found.place == "t-0 offsets 10 to 19"


def test_a_key_that_is_there_twice_below_the_clean_point_is_superseded() -> None:
    first, second = compacted(1, 0, 10, 20), compacted(2, 10, 20, 20)
    text = "1 records have a newer one of their key below offset 20, where it is compacted"
    assert found_in({0: [(3, b"a"), (4, b"b")], 10: [(12, b"a")]}, first, second) == [(SUPERSEDED, text)]
    assert found_in({0: [(3, b"a"), (4, b"b")], 10: [(12, b"c")]}, first, second) == []


def test_what_no_pass_has_considered_may_have_keys_twice() -> None:
    first, dirty = compacted(1, 0, 10, 10), segment(2, 10, 19, [(1, 10)])
    assert found_in({0: [(3, b"a")], 10: [(12, b"a"), (13, b"a")]}, first, dirty) == []


@pytest.mark.slow
def test_no_history_of_a_compacted_partition_has_findings() -> None:
    read = 0
    for seed in range(6):
        world = CompactedWorld(Random(seed))
        choices = events(world)
        for _ in range(200):
            world.rng.choice(choices)()
            log = world.log
            bounds = TierBounds(log.log_start_offset, log.local_log_start_offset)
            assert list(uncovered("t-0", world.remote, log.epochs.entries(), bounds)) == []
            if world.rng.random() < 0.1:
                held = list(copies(world.remote, log.epochs.entries(), log.log_start_offset))
                assert list(superseded(held, lambda of, world=world: keys_of(world.storage, of))) == []  # type: ignore[misc]
                read += len(held)
    assert read > 100
