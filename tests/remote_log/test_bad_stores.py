"""A store that is away for an hour, refuses, is emptied, is shared, or has damaged or swapped objects, and clocks that
differ: each is logged in one line, producers go on, and nothing is deleted that is nowhere else."""

import logging
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tier_nodes import DEADLINE_MS, TierNode, TierNodes
from tier_rules import TierRules, batches_in

from kpybroker.hosts.remote_log.open_segments import name_of
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpystorage.remote.keys import ObjectKind, object_key
from kpystorage.remote.segment_name import RemoteSegmentName
from kpywire import api, error_codes
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.replication.replica_world import LISTENER, TOPIC, VERSIONS, AtOnce
from tests.sim.store import PREFIX, StoreConditions

TIERED = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "100",
}
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
QUIET_MS = 4 * DEADLINE_MS
"""Long enough for copies, deletions, and what is abandoned."""


class Tiers:
    """Nodes with a tiered partition."""

    def __init__(self, skews_ms: tuple[int, ...] = (0,), **topic: str) -> None:
        settings = {**TIERED, **{key.replace("_", "."): value for key, value in topic.items()}}
        self.world = TierNodes(Random(7), settings, {}, skews_ms, most_pause_ms=5 * MINUTE_MS)
        self.rules = TierRules(self.world)
        self.store = self.world.store
        self.world.pass_time(1_000)

    @property
    def leader(self) -> TierNode:
        found = self.rules.leader()
        assert found is not None
        return found[0]

    def write(self, segments: int, pause_ms: int = 10) -> None:
        """Append batches, each of which ends a segment."""
        for _ in range(segments):
            self.leader.produce(2, value_bytes=200)
            self.leader.log().roll(self.leader.scheduler.now_ms())
            self.world.pass_time(pause_ms)
            self.check()

    def rest(self, duration_ms: int = QUIET_MS) -> None:
        self.world.pass_time(duration_ms)
        self.check()

    def check(self) -> None:
        self.rules.check()
        assert not self.rules.violations, self.rules.violations[0]

    @property
    def local_start(self) -> int:
        return self.leader.log().local_log_start_offset

    @property
    def copied(self) -> int:
        node = self.leader
        return int(node.remote_log.copied_offset(node.replica()))

    def fetch(self, offset: int) -> Any:
        """The answer of the leader about the partition, once there is one."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 16)
        topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics)
        for _ in range(20):
            call = Call(api.FETCH, 12, "reader", ConnectedClient("reader", 0, LISTENER), AtOnce(), VERSIONS)
            answer = self.leader.handle(request, call)
            got: list[Any] = []
            if isinstance(answer, Pending):
                answer.when_resolved(got.append)
                self.world.pass_time(2_000)
            else:
                got.append(answer)
            (data,) = got[0].responses[0].partitions
            if data.error_code or data.records:
                return data
        raise AssertionError(f"no answer at {offset}")

    def has(self, offset: int) -> bool:
        """Whether the leader serves the record at an offset."""
        data = self.fetch(offset)
        if data.error_code:
            return False
        self.rules.note_committed()
        records = data.records.read() if hasattr(data.records, "read") else bytes(data.records)
        first = batches_in(records)[0]
        assert first == self.rules.committed[first.base_offset]
        return first.base_offset <= offset < first.next_offset


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The lines that are logged for people, whose stacks are defects."""
    caplog.set_level(logging.WARNING, "kpybroker")
    found: list[str] = []
    yield found
    for record in caplog.records:
        assert record.exc_info is None, record.exc_text
        assert "\n" not in record.getMessage()


def logged(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if words in record.getMessage()]


@pytest.mark.usefixtures("lines")
def test_a_store_that_is_away_for_an_hour_costs_nothing_but_disk(caplog: pytest.LogCaptureFixture) -> None:
    tiers = Tiers()
    tiers.write(4)
    tiers.rest()
    end = tiers.leader.log().end.offset
    assert tiers.copied == end - 1
    tiers.store.conditions = StoreConditions(fails=1.0)
    tiers.write(30, pause_ms=2 * MINUTE_MS)
    assert tiers.leader.high_watermark() == end + 60
    assert tiers.local_start <= end
    assert tiers.fetch(0).error_code == error_codes.KAFKA_STORAGE_ERROR
    reported = logged(caplog, "was not copied: sim: cannot write")
    assert 10 <= len(reported) <= 40
    tiers.store.heal()
    tiers.rest(10 * MINUTE_MS)
    assert tiers.copied == tiers.leader.log().end.offset - 1
    assert all(tiers.has(offset) for offset in range(0, end + 60, 2))


@pytest.mark.usefixtures("lines")
@pytest.mark.parametrize("code", ["ExpiredToken", "RequestTimeTooSkewed"])
def test_copies_go_on_when_credentials_or_clocks_are_right_again(code: str, caplog: pytest.LogCaptureFixture) -> None:
    tiers = Tiers()
    tiers.write(4)
    tiers.rest()
    end = tiers.leader.log().end.offset
    tiers.store.conditions = StoreConditions(refuses=code)
    tiers.write(4, pause_ms=MINUTE_MS)
    assert tiers.local_start <= end
    assert logged(caplog, "was not copied: sim: cannot write sim/t-")[0].endswith(code)
    tiers.store.heal()
    tiers.rest(10 * MINUTE_MS)
    assert tiers.copied == tiers.leader.log().end.offset - 1
    assert all(tiers.has(offset) for offset in range(0, 16, 2))


@pytest.mark.usefixtures("lines")
def test_a_bucket_that_is_deleted_takes_nothing_with_it_that_a_disk_still_has(caplog: pytest.LogCaptureFixture) -> None:
    tiers = Tiers(local_retention_bytes="2000")
    tiers.write(8)
    tiers.rest()
    start, end = tiers.local_start, tiers.leader.log().end.offset
    assert 0 < start < end - 2
    assert tiers.copied == end - 1
    tiers.store.objects.clear()
    tiers.store.conditions = StoreConditions(refuses="NoSuchBucket")
    tiers.rules.committed.clear()  # of what the store alone had
    tiers.rules.start = end
    tiers.write(2, pause_ms=MINUTE_MS)
    kept = tiers.local_start
    assert kept < end - 2
    tiers.write(8, pause_ms=MINUTE_MS)
    assert tiers.local_start == kept
    assert tiers.fetch(0).error_code == error_codes.KAFKA_STORAGE_ERROR
    assert logged(caplog, "was not copied")[0].endswith("NoSuchBucket")
    assert logged(caplog, "offset 0 was not read from the store")
    assert all(tiers.has(offset) for offset in range(kept, end + 20, 2))


@pytest.mark.usefixtures("lines")
def test_objects_of_another_cluster_on_the_same_prefix_stay(caplog: pytest.LogCaptureFixture) -> None:
    tiers = Tiers()
    tiers.write(3)
    tiers.rest(10 * DEADLINE_MS)
    assert tiers.rules.foreign.items() <= tiers.store.objects.items()
    assert len(logged(caplog, "sim: has 3 objects of topics that this cluster does not know, and they stay")) == 1
    own = RemoteSegmentName("t", tiers.leader.replica().topic.id, 0, 0, bytes(range(16)))
    orphan = object_key(PREFIX, own, ObjectKind.LOG)
    tiers.store.objects[orphan] = b"of a copy that nobody knows"
    tiers.rest(10 * DEADLINE_MS)
    assert orphan not in tiers.store.objects
    assert tiers.rules.foreign.items() <= tiers.store.objects.items()


@pytest.mark.usefixtures("lines")
def test_a_damaged_object_is_not_served_and_all_others_are(caplog: pytest.LogCaptureFixture) -> None:
    tiers = Tiers()
    tiers.write(4)
    tiers.rest()
    damaged = sorted(tiers.rules.finished(), key=lambda each: each.start_offset)[1]
    key = object_key(PREFIX, name_of(damaged), ObjectKind.LOG)
    data = bytearray(tiers.store.objects[key])
    data[len(data) // 2] ^= 1
    tiers.store.objects[key] = bytes(data)
    assert not tiers.has(damaged.start_offset)
    assert (
        "does not have the checksum" in logged(caplog, f"offset {damaged.start_offset} was not read from the store")[0]
    )
    tiers.leader.produce(1)
    tiers.world.pass_time(1_000)
    assert [tiers.has(offset) for offset in (0, 2, 4, 6, 8)] == [True, False, True, True, True]


@pytest.mark.usefixtures("lines")
@pytest.mark.parametrize("kinds", [[ObjectKind.MANIFEST], [ObjectKind.LOG], [ObjectKind.LOG, ObjectKind.INDEXES]])
def test_swapped_objects_are_not_served(kinds: list[ObjectKind], caplog: pytest.LogCaptureFixture) -> None:
    tiers = Tiers()
    tiers.write(4)
    tiers.rest()
    _, one, other, _ = sorted(tiers.rules.finished(), key=lambda each: each.start_offset)
    objects = tiers.store.objects
    for kind in kinds:
        first, second = (object_key(PREFIX, name_of(each), kind) for each in (one, other))
        objects[first], objects[second] = objects[second], objects[first]
    assert [tiers.has(offset) for offset in (0, 2, 4, 6)] == [True, False, False, True]
    assert logged(caplog, "offset 2 was not read from the store")
    assert logged(caplog, "offset 4 was not read from the store")


@pytest.mark.usefixtures("lines")
def test_leaders_whose_clocks_differ_by_hours_delete_no_copy_of_one_another() -> None:
    tiers = Tiers((0, HOUR_MS, -HOUR_MS), retention_ms=str(2 * HOUR_MS))
    for node in list(tiers.world.nodes.values()):
        node.stop()
        node.start()
        tiers.rest(2_000)
    for leader in (1, 2, 3, 2):
        tiers.store.conditions = StoreConditions(latency_ms=400.0)
        tiers.world.lead(leader)
        tiers.rest(1_000)
        tiers.write(2)
        tiers.world.pass_time(700)
    tiers.store.heal()
    tiers.rest(2 * QUIET_MS)
    assert tiers.leader.log().log_start_offset == 0
    assert all(tiers.has(offset) for offset in range(0, 16, 2))
    assert tiers.rules.unsettled() == ""
