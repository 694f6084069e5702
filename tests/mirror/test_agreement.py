"""A mirror of a source without topic ids: whatever happens there, both logs agree again, or the mirror stays whole."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from test_feeding import FAR, LARGEST, NOW_MS, batches, leader_of, new_log, produce

from kpybroker.hosts.mirror.agreeing import batch_before
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.agreement import agreed_end, check_batch, check_start
from kpybroker.machines.mirror.divergence import EpochEnd
from kpybroker.machines.mirror.feeding import CreatedAgain, FedPartition
from kpybroker.machines.mirror.ids import is_made_up, made_up_id, may_be_mirror
from kpybroker.machines.mirror.naming import identified, named
from kpybroker.machines.partition.leader import PartitionLeader
from kpywire import codec, error_codes
from kpywire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from kpywire.record import Record, build_batch
from kpywire.uuid import ZERO_UUID

A, B = bytes(15) + b"a", bytes(15) + b"b"


def compare_once(source: PartitionLeader, fed: FedPartition) -> None:
    """The comparison by a `MirrorFeed`, in the epoch of the source's leader. Raises CreatedAgain."""
    fed.epoch = source.epoch
    while (asked := fed.log.epochs.latest) >= 0:
        there = EpochEnd(*source.log.epochs.end_offset_for(asked, source.log.end.offset))
        cut = agreed_end(fed, asked, there)
        mine = batch_before(fed, cut) if cut > fed.log.log_start_offset else b""
        if mine:
            try:
                piece = source.read(cut - 1, FAR, source.high_watermark, min_one_batch=True)
            except KafkaError as error:
                if error.code != error_codes.OFFSET_OUT_OF_RANGE:
                    raise
                check_start(fed, cut, source.log.log_start_offset)
            else:
                assert piece is not None
                assert check_batch(fed, mine, memoryview(piece.read()), is_compacted=False)
        if cut >= fed.log.end.offset:
            return
        fed.truncate(*there, NOW_MS)
        if there.epoch == asked:
            return


def fetch_once(source: PartitionLeader, fed: FedPartition) -> None:
    """One fetch after a comparison, without anything in between."""
    log_start = source.log.log_start_offset
    try:
        found = source.read(fed.log.end.offset, FAR, source.high_watermark, min_one_batch=True)
    except KafkaError as error:
        if error.code != error_codes.OFFSET_OUT_OF_RANGE:
            raise
        assert not fed.leader_ends(source.high_watermark.offset, NOW_MS)
        fed.leader_starts(log_start, NOW_MS)
        return
    fed.source_log_start = log_start
    if found is not None:
        view, position = memoryview(found.read()), 0
        while position < len(view):
            position = fed.append(view, position, NOW_MS)
    if fed.heard(source.high_watermark.offset, log_start).log_start:
        fed.log.advance_log_start(log_start)


class Comparing(RuleBasedStateMachine):
    """A source with elections, clean and unclean, with retention, and with topics that are created again."""

    @initialize()
    def begin(self) -> None:
        self.value = 0
        self.source = leader_of(new_log(), 0)
        self.leader = leader_of(new_log(), FAR, is_fed=True)
        self.fed = FedPartition(self.leader)
        self.created_again = False
        self.kept: list[bytes] = []
        """The batches of the mirror when the topic was created again."""

    @rule(counts=st.lists(st.integers(1, LARGEST), min_size=1, max_size=4))
    def produce(self, counts: list[int]) -> None:
        for count in counts:
            self.value += 1
            produce(self.source, count, b"%d" % self.value)

    @rule(lost=st.integers(0, 12), epochs=st.integers(1, 3))
    def elect_at_the_source(self, lost: int, epochs: int) -> None:
        """An election. Some of the log stays, unless nothing is lost."""
        log = self.source.log
        if lost and log.end.offset - lost >= log.log_start_offset + LARGEST:
            log.truncate_to(log.end.offset - lost, NOW_MS)
        self.source = leader_of(log, self.source.epoch + epochs, log.end.offset)

    @rule(part=st.floats(0, 1))
    def delete_records_at_the_source(self, part: float) -> None:
        log = self.source.log
        log.advance_log_start(log.log_start_offset + int(part * (log.end.offset - log.log_start_offset)))

    @rule(epochs=st.integers(-1, 1), more=st.integers(-4, 9))
    def create_again(self, epochs: int, more: int) -> None:
        """The topic is another one, with nearly as many records or more, before anything of it is fetched."""
        log = self.fed.log
        if not self.created_again and log.end.offset > log.log_start_offset:
            self.created_again = True
            self.kept = batches(log, log.log_start_offset)
            self.source = leader_of(new_log(), max(self.source.epoch + epochs, 0))
            self.produce([1] * max(log.end.offset + more, 0))

    @rule(times=st.integers(1, 3))
    def fetch(self, times: int) -> None:
        for _ in range(times):
            try:
                compare_once(self.source, self.fed)
            except CreatedAgain:
                log = self.fed.log
                if not self.created_again:  # what is left has nothing in common with the mirror
                    assert self.source.log.epochs.end_offset_for(log.epochs.latest, FAR)[1] <= log.log_start_offset
                    self.fed.log.truncate_fully_and_start_at(0, NOW_MS)
                    self.fed.leader.cut_to_source()
                return
            fetch_once(self.source, self.fed)

    @invariant()
    def nothing_of_another_topic_is_appended(self) -> None:
        """A source whose log begins behind the mirror's shows nothing of it, and that is fetched."""
        if hasattr(self, "fed") and self.created_again and self.source.log.log_start_offset == 0:
            log = self.fed.log
            assert batches(log, log.log_start_offset) == self.kept

    def teardown(self) -> None:
        if hasattr(self, "fed") and not self.created_again:
            for _ in range(16):
                self.fetch(1)
            there, start = self.source.log, self.source.log.log_start_offset
            here = self.fed.log
            assert (here.log_start_offset, here.end.offset) == (start, there.end.offset)
            assert batches(here, start) == batches(there, start)


TestComparing = Comparing.TestCase
TestComparing.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


# Single rules.


def pair(count: int = 3, epoch: int = 4) -> tuple[PartitionLeader, FedPartition]:
    """A source with batches of one record, and its mirror that has them all."""
    source, fed = leader_of(new_log(), epoch), FedPartition(leader_of(new_log(), FAR, is_fed=True))
    for _ in range(count):
        produce(source, 1, b"x")
    compare_once(source, fed)
    fetch_once(source, fed)
    assert fed.log.end.offset == count
    return source, fed


def test_a_leader_of_an_earlier_epoch_leads_another_topic() -> None:
    _, fed = pair()
    fed.epoch = 3
    with pytest.raises(CreatedAgain, match="its leader is of epoch 3, and the last batch here of 4"):
        agreed_end(fed, 4, EpochEnd(4, 3))
    fed.epoch = -1
    assert agreed_end(fed, 4, EpochEnd(4, 3)) == 3


def test_an_epoch_that_goes_on_does_not_become_shorter() -> None:
    _, fed = pair()
    with pytest.raises(CreatedAgain, match="it ends at 2, before the 3 here, in the same leader epoch"):
        agreed_end(fed, 4, EpochEnd(4, 2))
    fed.epoch = 5
    assert agreed_end(fed, 4, EpochEnd(4, 2)) == 2
    assert agreed_end(fed, 4, EpochEnd(-1, -1)) == 3
    with pytest.raises(CreatedAgain, match="nothing in common"):
        agreed_end(fed, 4, EpochEnd(4, 0))


def test_an_offset_out_of_range_truncates_nothing_in_an_epoch_that_was_compared() -> None:
    _, fed = pair()
    with pytest.raises(CreatedAgain):
        fed.leader_ends(2, NOW_MS)
    assert not fed.leader_ends(3, NOW_MS)
    fed.epoch = -1
    assert fed.leader_ends(2, NOW_MS)


def test_a_log_that_begins_later_is_not_compared() -> None:
    _, fed = pair()
    check_start(fed, 3, 3)
    with pytest.raises(CreatedAgain, match="it begins at 2, and ends before offset 3"):
        check_start(fed, 3, 2)


def batch(base: int, values: list[bytes], offsets: list[int] | None = None, epoch: int = 4) -> bytes:
    records = [
        Record(timestamp=NOW_MS, value=value, offset=base + number if offsets is None else offsets[number])
        for number, value in enumerate(values)
    ]
    return build_batch(records, base_offset=base, partition_leader_epoch=epoch)


def test_the_last_batch_tells_topics_apart() -> None:
    _, fed = pair()
    mine = batch(3, [b"a", b"b"])
    other = memoryview(batch(3, [b"a", b"c"]))
    assert check_batch(fed, mine, memoryview(mine), is_compacted=False)
    assert check_batch(fed, mine, memoryview(mine)[:61], is_compacted=False), "the header is enough"
    assert not check_batch(fed, mine, memoryview(mine)[:60], is_compacted=False)
    for is_compacted in (False, True):
        with pytest.raises(CreatedAgain, match="it has another batch at offset 3"):
            check_batch(fed, mine, other, is_compacted=is_compacted)


def test_a_compacted_source_may_have_less_of_the_last_batch() -> None:
    _, fed = pair()
    mine = batch(3, [b"a", b"b"])
    less = memoryview(batch(3, [b"b"], [4]))
    assert check_batch(fed, mine, less, is_compacted=True)
    assert not check_batch(fed, mine, less[:-1], is_compacted=True)
    assert check_batch(fed, mine, memoryview(batch(5, [b"z"])), is_compacted=True)
    with pytest.raises(CreatedAgain):
        check_batch(fed, mine, memoryview(batch(3, [b"b"], [4], epoch=5)), is_compacted=True)
    with pytest.raises(CreatedAgain):
        check_batch(fed, mine, less, is_compacted=False)


def test_made_up_ids_are_recognized() -> None:
    rng = Random(1)
    made = {made_up_id(rng.randbytes) for _ in range(300)}
    assert len(made) == 300
    assert all(map(is_made_up, made))
    assert not is_made_up(ZERO_UUID)
    (one, *_) = made
    assert may_be_mirror(one, A)
    assert may_be_mirror(A, ZERO_UUID)
    assert may_be_mirror(A, A)
    assert not may_be_mirror(A, B)


# Names.


def fetch_request(*topics: bytes, forgotten: tuple[bytes, ...] = ()) -> FetchRequest:
    part = FetchPartition(
        partition=0, current_leader_epoch=3, fetch_offset=7, last_fetched_epoch=2, partition_max_bytes=9
    )
    return FetchRequest(
        max_wait_ms=1,
        min_bytes=2,
        max_bytes=3,
        session_id=4,
        session_epoch=5,
        topics=[FetchTopic(topic_id=each, partitions=[part]) for each in topics],
        forgotten_topics_data=[ForgottenTopic(topic_id=each, partitions=[0, 1]) for each in forgotten],
    )


@pytest.mark.parametrize(("version", "epoch"), [(10, -1), (11, -1), (12, 2)])
def test_topics_are_fetched_by_their_names(version: int, epoch: int) -> None:
    sent = named(fetch_request(A, forgotten=(B,)), {A: "a", B: "b"}, version)
    read = codec.decode(FetchRequest, version, codec.encode(sent, version))
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes, read.session_id, read.session_epoch) == (1, 2, 3, 4, 5)
    (topic,) = read.topics
    (part,) = topic.partitions
    assert (topic.topic, part.partition, part.fetch_offset, part.current_leader_epoch) == ("a", 0, 7, 3)
    assert (part.last_fetched_epoch, part.partition_max_bytes) == (epoch, 9)
    assert [(each.topic, each.partitions) for each in read.forgotten_topics_data] == [("b", [0, 1])]


def test_a_partition_of_an_earlier_topic_of_the_name_is_not_forgotten() -> None:
    sent = named(fetch_request(A, forgotten=(B,)), {A: "t", B: "t"}, 12)
    assert [(each.topic, each.partitions) for each in sent.forgotten_topics_data] == [("t", [1])]


def test_answers_have_the_ids_of_topics_here() -> None:
    response = FetchResponse(throttle_time_ms=0, responses=[FetchableTopicResponse(topic="a", partitions=[])])
    assert [each.topic_id for each in identified(response, {"a": A}).responses] == [A]
    other = object()
    assert identified(other, {}) is other
