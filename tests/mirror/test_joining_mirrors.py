"""A log joins that of a cluster that took over: the divergence is found, and nothing before it is cut off."""

from random import Random

import pytest
from test_feeding import NOW_MS, batches, copy_once, leader_of, new_log, produce

from kpybroker.machines.mirror.divergence import (
    AskHere,
    ComparedBounds,
    EpochEnd,
    ExportedPart,
    compared,
    exported_parts,
    exported_text,
)
from kpybroker.machines.mirror.feeding import FedPartition, NotExported
from kpybroker.machines.partition.leader import PartitionLeader
from kpystorage.log import Log
from kpywire.batch import parse_header

FENCE = 2_000


def divergence(here: Log, there: Log) -> int:
    """The divergence as a command asks for it."""
    bounds = ComparedBounds(here.log_start_offset, here.end.offset, there.log_start_offset)
    asked = EpochEnd(*here.epochs.end_offset_for(FENCE - 1, here.end.offset))
    for _ in range(100):
        answer = EpochEnd(*there.epochs.end_offset_for(asked.epoch, there.end.offset))
        outcome = compared(asked, answer, bounds)
        if not isinstance(outcome, AskHere):
            return outcome
        asked = EpochEnd(*here.epochs.end_offset_for(outcome.epoch, here.end.offset))
    raise AssertionError("the comparison does not end")


def written(log: Log, epochs: list[int], random: Random, value: bytes) -> PartitionLeader:
    """A leader of a log that leaders of these epochs, and this last one, have written to."""
    for epoch in epochs:
        leader = leader_of(log, epoch, log.end.offset)
        for _ in range(random.randrange(4)):
            produce(leader, random.randint(1, 3), value)
    return leader


def diverged(seed: int) -> tuple[Log, PartitionLeader]:
    """A log that was the source of a mirror, sealed, and the leader of the former mirror."""
    random = Random(seed)
    old = written(new_log(), [0, 1, 4], random, b"common")
    new = leader_of(new_log(), 1_000, is_fed=True)
    fed = FedPartition(new)
    for _ in range(random.randint(1, 12)):
        copy_once(old, fed, 0)
    if random.random() < 0.5:
        new.log.truncate_to(random.randint(0, new.log.end.offset), NOW_MS)  # it had not got everything
    here = written(old.log, random.choice([[4], [4, 5], [6, 7]]), random, b"only here").log
    there = written(new.log, [1_000, 1_003], random, b"only there")
    if random.random() < 0.4:
        there.log.advance_log_start(random.randint(0, there.log.end.offset))
    if random.random() < 0.2:
        here.advance_log_start(random.randint(0, here.end.offset))
    leader_of(here, FENCE, here.end.offset)
    return here, there


@pytest.mark.parametrize("seed", range(300))
def test_what_is_before_the_divergence_is_at_the_source_and_the_rest_is_cut(seed: int) -> None:
    here, there = diverged(seed)
    start, source_start = here.log_start_offset, there.log.log_start_offset
    found = divergence(here, there.log)
    assert start <= found <= here.end.offset
    at_source = set(batches(there.log, source_start))
    for batch in batches(here, start):
        header = parse_header(batch)
        if source_start <= header.base_offset and header.next_offset <= found:
            assert batch in at_source
    leader = leader_of(here, FENCE, here.end.offset, is_fed=True)
    fed = FedPartition(leader, found)
    for _ in range(20):
        copy_once(there, fed, source_start)
    assert here.end.offset == there.log.end.offset
    common_start = max(here.log_start_offset, source_start)
    assert batches(here, common_start) == batches(there.log, common_start)


def test_the_divergence_is_exactly_where_the_other_leader_began() -> None:
    old, new = leader_of(new_log(), 0), leader_of(new_log(), 1_000, is_fed=True)
    produce(old, 5, b"common")
    copy_once(old, FedPartition(new), 0)
    produce(old, 3, b"only here")
    new.end_feed()
    produce(new, 9, b"only there")
    leader_of(old.log, FENCE, old.log.end.offset)
    assert divergence(old.log, new.log) == 5


def test_all_records_count_as_different_where_the_source_has_deleted_what_would_show_it() -> None:
    old, new = leader_of(new_log(), 0), leader_of(new_log(), 1_000, is_fed=True)
    produce(old, 5, b"common")
    copy_once(old, FedPartition(new), 0)
    produce(old, 3, b"only here")
    new.end_feed()
    produce(new, 9, b"only there")
    new.log.advance_log_start(7)
    leader_of(old.log, FENCE, old.log.end.offset)
    assert divergence(old.log, new.log) == 0


def joining(count: int, exported_from: int) -> tuple[PartitionLeader, PartitionLeader, FedPartition]:
    """A source with ``count`` of 10 records, and its mirror, which may lose those from ``exported_from`` on."""
    whole, here = leader_of(new_log(), 0), leader_of(new_log(), FENCE, is_fed=True)
    for number in range(10):
        produce(whole, 1, b"%d" % number)
    for _ in range(11):
        copy_once(whole, FedPartition(here), 0)
    whole.log.truncate_to(count, NOW_MS)
    source = leader_of(whole.log, 1_000, count)
    produce(source, 1, b"later")
    return source, here, FedPartition(here, exported_from)


def test_records_that_were_not_exported_are_never_cut_off() -> None:
    source, here, fed = joining(4, 6)
    before = batches(here.log, 0)
    with pytest.raises(NotExported, match="repeat `kpybroker mirror create --adopt`"):
        copy_once(source, fed, 0)
    assert batches(here.log, 0) == before


def test_a_shorter_log_of_the_source_cuts_off_nothing_that_was_not_exported() -> None:
    _, here, fed = joining(4, 6)
    with pytest.raises(NotExported):
        fed.leader_ends(4, NOW_MS)
    assert here.log.end.offset == 10


def test_once_the_logs_agree_the_mirror_follows_every_loss_of_the_source() -> None:
    source, here, fed = joining(6, 6)
    for _ in range(3):
        copy_once(source, fed, 0)
    source.log.truncate_to(2, NOW_MS)
    lost = leader_of(source.log, 1_001, 2)
    produce(lost, 1, b"after an unclean election")
    for _ in range(3):
        copy_once(lost, fed, 0)
    assert batches(here.log, 0) == batches(lost.log, 0)


def test_a_leader_that_is_fed_forgets_the_epoch_in_which_it_wrote_nothing() -> None:
    leader = leader_of(new_log(), 3)
    produce(leader, 2, b"x")
    log = leader_of(leader.log, 7, 2).log
    assert log.epochs.entries() == [(3, 0), (7, 2)]
    leader_of(log, 8, 2, is_fed=True)
    assert log.epochs.entries() == [(3, 0)]


def test_exported_parts_are_read_from_their_text() -> None:
    parts = [ExportedPart(0, 10, 15, 3, 5), ExportedPart(7, 0, 1, 0, 0)]
    assert list(exported_parts(exported_text(parts)).values()) == parts
    assert exported_parts("") == {}
    with pytest.raises(ValueError, match="not enough values"):
        exported_parts("0:1:2")
