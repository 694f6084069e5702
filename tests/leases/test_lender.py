"""Lent segments of a running node: they are read as files, and stay while the node deletes and compacts."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from running_node import RunningNode

from kpybroker.client.client import Client
from kpybroker.hosts.leases.lender import Lender
from kpybroker.machines.lease_manifest import LeaseRequest, Manifest
from kpybroker.machines.scan.errors import OffsetsLost, ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan import reading
from kpybroker.pipeline.scan.fetching import FetchTransport
from kpybroker.pipeline.scan.files import FileTransport
from support.waiting import eventually

RECORDS = 3_000
COMMITTED = Projection(("offset", "value"), committed_only=True)
EVERYTHING = Projection(("offset", "value"))


class Lending:
    """A node with a topic of many small segments, and its lender."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        settings = {"log.dirs": str(directory), "node.id": "1", "process.roles": "broker,controller"}
        self.node = RunningNode(settings)
        self.servers = f"127.0.0.1:{self.node.port}"
        broker = self.node.node.broker
        assert broker is not None
        disk = broker.replicas.directories.working[0].disk
        self.lender = Lender(("c", 1), broker.leases, broker.replicas, disk, broker.scheduler, random.Random(1))
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def create(self, topic: str, **config: str) -> None:
        made = NewTopic(topic, 1, config={"segment.bytes": "1048576", **config})
        self.admin.create_topics([made])[topic].result(30)

    def produce(self, topic: str, numbers: range, **settings: Any) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "batch.num.messages": 20, **settings})
        if "transactional.id" in settings:
            producer.init_transactions(30)
            producer.begin_transaction()
        for number in numbers:
            producer.produce(topic, (b"%d" % number).rjust(2_000), b"k%d" % (number % 7), partition=0)
        producer.flush(30)
        if "transactional.id" in settings:
            producer.abort_transaction(30) if settings["transactional.id"] == "aborts" else producer.commit_transaction(
                30
            )

    def borrow(self, *topics: str, duration_ms: int = 60_000, may_read: bool = True) -> Manifest:
        got: list[Manifest] = []
        arrived = threading.Event()

        def take(manifest: Manifest) -> None:
            got.append(manifest)
            arrived.set()

        wanted = [LeaseRequest(topic, 0) for topic in topics]
        self.node.call(lambda: self.lender.borrow(wanted, duration_ms, lambda _topic: may_read, take))
        assert arrived.wait(30)
        return got[0]

    def stop(self) -> None:
        """End the leases and the node, unless it has ended."""
        if not self.node.loop.is_closed():
            self.node.call(self.lender.stop)
            self.node.stop()

    def nothing_is_lent(self) -> bool:
        """Whether all lent names are removed, which takes a few turns of the node's loop."""
        eventually(lambda: not self.lent_files(), "all lent names are removed", within_s=30)
        return True

    def lent_files(self) -> list[Path]:
        return sorted(self.directory.glob("*/*.log.*.deleted"))


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Lending]:
    made = Lending(tmp_path / "data")
    try:
        yield made
    finally:
        made.stop()


def rows(transport: Any, part: OffsetRange, wanted: Projection) -> list[tuple[int, bytes]]:
    return [
        (row["offset"], row["value"]) for batch in reading.rows(transport, part, wanted) for row in batch.to_pylist()
    ]


def files_of(manifest: Manifest) -> FileTransport:
    return FileTransport({(part.topic, part.partition): part for part in manifest.partitions}, piece_bytes=70_000)


def whole(manifest: Manifest, wanted: Projection) -> OffsetRange:
    (part,) = manifest.partitions
    end = part.last_stable_offset if wanted.committed_only else part.high_watermark
    return OffsetRange(part.topic, part.topic_id, part.partition, part.log_start_offset, end)


@pytest.mark.parametrize("wanted", [EVERYTHING, COMMITTED])
def test_files_have_the_rows_that_a_fetch_has(lending: Lending, wanted: Projection) -> None:
    lending.create("t")
    lending.produce("t", range(1_000))
    lending.produce("t", range(1_000, 1_200), **{"transactional.id": "aborts"})
    lending.produce("t", range(1_200, 1_400), **{"transactional.id": "commits"})
    manifest = lending.borrow("t")
    part = whole(manifest, wanted)
    expected = rows(FetchTransport(Client(lending.servers)), part, wanted)
    assert len(expected) == (1_200 if wanted.committed_only else 1_400)
    assert rows(files_of(manifest), part, wanted) == expected
    middle = part._replace(start_offset=1_011, end_offset=1_303)
    assert rows(files_of(manifest), middle, wanted) == [row for row in expected if 1_011 <= row[0] < 1_303]


def test_lent_segments_outlive_deleted_records_and_deleted_topics(lending: Lending) -> None:
    lending.create("t")
    lending.produce("t", range(RECORDS))
    manifest = lending.borrow("t")
    part = whole(manifest, EVERYTHING)
    expected = rows(files_of(manifest), part, EVERYTHING)
    lending.admin.delete_records([TopicPartition("t", 0, 2_500)])[TopicPartition("t", 0)].result(30)
    assert lending.borrow("t").partitions[0].log_start_offset == 2_500
    assert rows(files_of(manifest), part, EVERYTHING) == expected
    assert len(expected) == RECORDS


def test_names_are_removed_when_a_lease_ends_and_when_its_time_is_over(lending: Lending) -> None:
    lending.create("t")
    lending.produce("t", range(RECORDS))
    first, second = lending.borrow("t"), lending.borrow("t", duration_ms=1_000)
    count = len(first.partitions[0].segments)
    assert count > 3
    assert lending.node.call(lambda: lending.lender.give_back(first.lease))
    assert not lending.node.call(lambda: lending.lender.give_back(first.lease))
    over = threading.Event()
    lending.node.call(lambda: lending.node.loop.call_later(1.5, over.set))
    assert over.wait(30)
    assert lending.nothing_is_lent()
    assert lending.node.call(lambda: lending.lender.renew(second.lease)) is None
    with pytest.raises(ScanError, match="the lease is over"):
        rows(files_of(second), whole(second, EVERYTHING), EVERYTHING)


def test_a_lease_whose_time_is_over_is_not_renewed_before_its_timer_comes(lending: Lending) -> None:
    lending.create("t")
    lent = lending.borrow("t", duration_ms=60_000)

    def renewed(late_ms: int) -> int | None:
        lender, now_ms = lending.lender, lending.lender._now_ms()
        lender._now_ms = lambda: now_ms + late_ms  # type: ignore[method-assign]
        try:
            return lender.renew(lent.lease)
        finally:
            del lender._now_ms

    assert lending.node.call(lambda: renewed(0)) == 60_000
    assert lending.node.call(lambda: renewed(61_000)) is None


def test_a_start_removes_lent_files_that_a_killed_node_left(lending: Lending) -> None:
    lending.create("t")
    lending.produce("t", range(200))
    lending.borrow("t")
    left = {path.name for path in lending.lent_files()}
    assert left
    lending.node.stop()
    again = Lending(lending.directory)
    try:
        again.produce("t", range(1))
        assert again.nothing_is_lent()
    finally:
        again.stop()


def test_partitions_that_cannot_be_lent_are_named_with_the_reason(lending: Lending) -> None:
    lending.create("t")
    assert lending.borrow("nowhere").refused == [
        ("nowhere", 0, "UNKNOWN_TOPIC_OR_PARTITION: no such partition on this node")
    ]
    denied = lending.borrow("t", may_read=False)
    assert (denied.partitions, len(denied.refused)) == ([], 1)


def test_another_topic_and_offsets_beyond_the_lease_are_refused(lending: Lending) -> None:
    lending.create("t")
    lending.produce("t", range(100))
    manifest = lending.borrow("t")
    part = whole(manifest, EVERYTHING)
    with pytest.raises(OffsetsLost, match="deleted and created again"):
        rows(files_of(manifest), part._replace(topic_id=bytes(16)), EVERYTHING)
    with pytest.raises(ScanError, match="the lease ends at offset 100"):
        rows(files_of(manifest), part._replace(end_offset=101), EVERYTHING)


def test_a_lease_outlasts_the_time_that_its_lending_takes(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    lending.create("t")
    lending.produce("t", range(10))
    now_ms = Lender._now_ms

    def later(lender: Lender) -> int:
        """Each look at the clock is two seconds later, as while others use the loop."""
        later.ahead_ms += 2_000  # type: ignore[attr-defined]
        lending.node.node.scheduler.call_soon(lender._end_due)  # the timer of another lease
        return now_ms(lender) + later.ahead_ms  # type: ignore[attr-defined, no-any-return]

    later.ahead_ms = 0  # type: ignore[attr-defined]
    lend = Lender._lend

    def slowly(lender: Lender, *arguments: Any) -> Any:
        lender._end_due()
        lender._now_ms()
        return lend(lender, *arguments)

    monkeypatch.setattr(Lender, "_lend", slowly)
    monkeypatch.setattr(Lender, "_now_ms", later)
    manifest = lending.borrow("t", duration_ms=1_000)
    assert (len(manifest.partitions), manifest.refused, manifest.expires_in_ms) == (1, [], 1_000)


def test_a_lease_that_ends_while_it_is_lent_is_answered_with_nothing_lent(
    lending: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("t", "u"):
        lending.create(topic)
        lending.produce(topic, range(10))
    lend = Lender._lend

    def ended(lender: Lender, lease_id: int, lease_request: LeaseRequest, may_read: Any) -> Any:
        if lease_request.topic == "u":
            lender.give_back(f"{lease_id:x}")
        return lend(lender, lease_id, lease_request, may_read)

    monkeypatch.setattr(Lender, "_lend", ended)
    manifest = lending.borrow("t", "u")
    assert (manifest.partitions, manifest.expires_in_ms) == ([], 0)
    assert sorted(manifest.refused) == [("t", 0, "the lease has ended"), ("u", 0, "the lease has ended")]
    assert lending.nothing_is_lent()


def test_a_defect_while_a_partition_is_lent_is_an_answer(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    lending.create("t")
    monkeypatch.setattr(lending.lender.leases, "add", lambda *_arguments: {}[1])
    manifest = lending.borrow("t")
    assert manifest.refused == [("t", 0, "it could not be lent because of a defect")]


def test_records_that_only_a_store_has_are_not_lent_so_that_readers_fetch_them(lending: Lending) -> None:
    lending.create("tiered")
    lending.produce("tiered", range(RECORDS))
    replica = lending.node.node.broker.replicas.find("tiered", 0)  # type: ignore[union-attr]
    log = replica.led().log

    def shorten() -> None:
        log.configure(log.config._replace(is_tiered=True))
        log.flush()
        assert log.delete_oldest(1, 0) == 1

    lending.node.call(shorten)
    manifest = lending.borrow("tiered")
    assert manifest.partitions == []
    ((*_, reason),) = manifest.refused
    assert reason == "OFFSET_MOVED_TO_TIERED_STORAGE: its first records are only in a store"
