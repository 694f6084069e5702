"""Scans read from a running broker what a consumer reads, whatever happens between two fetches."""

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from threading import enumerate as threads
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.client import connection
from kpybroker.client.client import Client, ClientSettings, Spot
from kpybroker.client.offset_requests import delete_records
from kpybroker.client.topic_requests import add_partitions
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan.bounds import Bound
from kpybroker.machines.scan.errors import OffsetsLost, ScanError
from kpybroker.machines.scan.filter_text import parse_filter
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.machines.scan.topics import Assigned, Matching, Subscribed
from kpybroker.pipeline.scan.ahead import ahead
from kpybroker.pipeline.scan.cluster import ScannedCluster
from kpybroker.pipeline.scan.fetching import FetchTransport, ScanFetching
from kpybroker.pipeline.scan.reading import rows
from kpybroker.testing import Broker
from kpywire.columns import decoder

QUICK = ScanFetching(max_bytes=200, max_wait_ms=10, patience_s=0.2)
"""Small fetches, so that there are many."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker() as started:
        yield started


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


def client_of(broker: Broker) -> Client:
    return Client(broker.bootstrap_servers, 5, ClientSettings(api_timeout_s=20, backoff_s=0.01, backoff_max_s=0.05))


def whole(broker: Broker, topic: str, partition: int = 0, end: int | None = None) -> OffsetRange:
    with client_of(broker) as client:
        cluster = ScannedCluster(client, Assigned({topic: (partition,)}), committed_only=False)
        ((spot, topic_id),) = cluster.partitions().items()
        log = cluster.logs([spot])[spot]
    return OffsetRange(topic, topic_id, partition, log.start, log.end if end is None else end)


def read(
    broker: Broker,
    part: OffsetRange,
    wanted: Projection = Projection(),  # noqa: B008
    fetching: ScanFetching = QUICK,
) -> list[dict[str, Any]]:
    transport = FetchTransport(client_of(broker), fetching)
    try:
        return [row for batch in rows(transport, part, wanted) for row in batch.to_pylist()]
    finally:
        transport.close()


def values(found: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in found]


def test_rows_are_the_records_of_the_range(shared: Broker) -> None:
    shared.produce("plain", *(f"{number}" for number in range(50)))
    shared.produce("plain", *(f"{number}" for number in range(50, 100)))
    part = whole(shared, "plain")
    assert values(read(shared, part)) == [b"%d" % number for number in range(100)]
    inner = part._replace(start_offset=13, end_offset=77)
    assert [row["offset"] for row in read(shared, inner, Projection(columns=("offset",)))] == list(range(13, 77))


def test_answers_come_whole_whatever_memory_they_begin_with(shared: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [b"%d" % number * 100 for number in range(50)]
    shared.produce("answers", *wanted)
    monkeypatch.setattr(connection, "AT_ONCE_BYTES", 5)
    assert values(read(shared, whole(shared, "answers"), fetching=ScanFetching())) == wanted


def test_a_filter_keeps_rows_and_reads_only_the_columns_it_needs(shared: Broker) -> None:
    shared.produce("json", *(f'{{"n": {number}, "s": "x{number % 10}"}}' for number in range(200)))
    wanted = Projection(("offset",), filter=parse_filter("value.s = 'x3' and value.n > 100"))
    assert read(shared, whole(shared, "json"), wanted) == [{"offset": number} for number in range(103, 200, 10)]


def test_batches_that_are_too_old_are_not_decoded(shared: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.create_topic("timed", config={"compression.type": "gzip"})
    for _ in range(10):
        shared.produce("timed", "a", "b")
        shared.clock.advance(minutes=1)
    part = whole(shared, "timed")
    last_ms = read(shared, part)[-1]["timestamp"].timestamp() * 1000
    inflated: list[int] = []
    decompress = decoder.decompress
    monkeypatch.setattr(decoder, "decompress", lambda *given: inflated.append(1) or decompress(*given))
    wanted = Projection(("offset",), filter=parse_filter(f"timestamp >= {int(last_ms)}"))
    fetching = QUICK._replace(max_bytes=100_000)
    assert [row["offset"] for row in read(shared, part, wanted, fetching)] == [18, 19]
    assert len(inflated) == 1
    everything = read(shared, part, Projection(("offset",), filter=parse_filter("timestamp >= 0")), fetching)
    assert len(everything) == 20
    assert len(inflated) == 11


def test_aborted_and_open_transactions_are_left_out(shared: Broker) -> None:
    shared.create_topic("paid")
    producer = Producer({"bootstrap.servers": shared.bootstrap_servers, "transactional.id": "scan", "log_level": 0})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for item in range(5):
            producer.produce("paid", f"{number}.{item}")
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    shared.produce("paid", "after")
    part = whole(shared, "paid")
    committed = [f"{number}.{item}".encode() for number in (0, 2, 4) for item in range(5)] + [b"after"]
    assert values(read(shared, part, Projection(committed_only=True))) == committed
    assert len(read(shared, part)) == 31
    middle = part._replace(start_offset=8, end_offset=27)
    assert values(read(shared, middle, Projection(committed_only=True))) == committed[5:13]
    late = Projection(("value",), committed_only=True, filter=parse_filter("timestamp >= 1"))
    assert values(read(shared, part, late)) == committed
    producer.begin_transaction()
    producer.produce("paid", "open")
    producer.flush(30)
    with pytest.raises(KafkaError, match="belongs to a transaction that stays open"):
        read(shared, whole(shared, "paid"), Projection(committed_only=True))
    producer.abort_transaction(30)


def test_a_log_that_ends_in_a_gap_of_compaction_is_read_to_its_end(broker: Broker) -> None:
    broker.create_topic("users", config={"cleanup.policy": "compact"})
    for number in range(20):
        broker.produce("users", (f"user {number % 2}", f"{number}"))
    broker.produce("users", ("user 0", "last"))
    broker.compact_topic("users")
    assert values(read(broker, whole(broker, "users"))) == [b"19", b"last"]
    assert values(read(broker, whole(broker, "users")._replace(end_offset=15))) == []
    assert values(read(broker, whole(broker, "users")._replace(start_offset=3, end_offset=20))) == [b"19"]


def test_the_leader_may_change_and_the_connection_may_break_between_fetches(broker: Broker) -> None:
    for start in range(0, 100, 10):
        broker.produce("t", *(f"{number}" for number in range(start, start + 10)))
    broker.faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2, skip=2)
    broker.faults.disconnect("Fetch", times=1, skip=5)
    broker.faults.fail("Fetch", "KAFKA_STORAGE_ERROR", times=1, skip=8)
    assert values(read(broker, whole(broker, "t"))) == [b"%d" % number for number in range(100)]


def test_a_broker_that_is_away_is_waited_for_as_long_as_the_client_may(tmp_path: Path) -> None:
    with Broker(directory=tmp_path) as first:
        first.produce("t", "a")
        part, port = whole(first, "t"), first.port
    impatient = FetchTransport(Client(f"127.0.0.1:{port}", 5, ClientSettings(api_timeout_s=0.1)), QUICK)
    with pytest.raises(KafkaError, match="NETWORK_EXCEPTION: no broker answers at"):
        list(rows(impatient, part, Projection()))
    second = Broker(directory=tmp_path, port=port)
    Timer(0.3, second.start).start()
    assert values(read(second, part)) == [b"a"]
    second.stop()


def test_a_fetch_that_keeps_failing_is_one_error(broker: Broker) -> None:
    broker.produce("t", "a")
    part = whole(broker, "t")
    broker.faults.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=1)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        read(broker, part)


def test_offsets_that_are_gone_are_data_loss_or_left_out(broker: Broker) -> None:
    broker.produce("t", *(f"{number}" for number in range(20)))
    part = whole(broker, "t")
    with client_of(broker) as client:
        delete_records(client, {Spot("t", 0): 8})
    with pytest.raises(OffsetsLost, match=r"t-0 \[0, 20\): offset 0 is gone, the log begins at 8") as raised:
        read(broker, part)
    assert raised.value.condition == "START_OFFSET_RESET"
    assert "set failOnDataLoss to false" in str(raised.value)
    assert values(read(broker, part, Projection(fails_on_data_loss=False))) == [
        b"%d" % number for number in range(8, 20)
    ]


def test_offsets_that_never_come_are_data_loss(broker: Broker) -> None:
    broker.produce("t", "a", "b")
    with pytest.raises(OffsetsLost, match="the log ends at 2, and nothing more comes"):
        read(broker, whole(broker, "t", end=5))
    beyond = whole(broker, "t", end=9)._replace(start_offset=7)
    with pytest.raises(OffsetsLost, match="begins at 0 and ends before offset 7"):
        read(broker, beyond)
    assert read(broker, beyond, Projection(fails_on_data_loss=False)) == []


def test_offsets_that_come_in_time_are_awaited(broker: Broker) -> None:
    broker.produce("t", "a")
    transport = FetchTransport(client_of(broker), QUICK._replace(patience_s=30))
    found = rows(transport, whole(broker, "t", end=2), Projection())
    broker.produce("t", "b")
    assert [row["value"] for batch in found for row in batch.to_pylist()] == [b"a", b"b"]
    transport.close()


def test_a_topic_made_again_is_data_loss_and_its_records_are_not_read(broker: Broker) -> None:
    broker.produce("t", "old")
    part = whole(broker, "t")
    broker.delete_topic("t")
    broker.produce("t", "new")
    with pytest.raises(OffsetsLost, match="topic t was deleted and created again since the scan was planned"):
        read(broker, part)
    assert read(broker, part, Projection(fails_on_data_loss=False)) == []


def test_a_reader_that_stops_early_leaves_nothing_behind(broker: Broker) -> None:
    for start in range(0, 1000, 10):
        broker.produce("t", *(f"{number}" for number in range(start, start + 10)))
    transport = FetchTransport(client_of(broker), QUICK)
    pieces = transport.pieces(whole(broker, "t"), Projection())
    next(pieces)
    pieces.close()
    transport.close()
    assert not [thread for thread in threads() if thread.name == "kpybroker-ahead"]


@settings(max_examples=30)
@given(st.lists(st.integers(), max_size=20), st.integers(1, 3), st.booleans())
def test_an_iterator_that_runs_ahead_gives_the_same_items_and_error(items: list[int], depth: int, fails: bool) -> None:
    def numbers() -> Iterator[int]:
        yield from items
        if fails:
            raise ScanError("the end")

    reader = ahead((item for item in numbers()), depth)
    assert [next(reader) for _ in items] == items
    with pytest.raises(ScanError if fails else StopIteration):
        next(reader)


def test_an_iterator_runs_while_its_reader_does_something_else() -> None:
    made: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    reader = ahead(number for number in numbers())
    assert next(reader) == 0
    for _ in range(500):
        if len(made) > 1:
            break
        time.sleep(0.01)
    assert len(made) > 1
    reader.close()


def test_topics_are_named_matched_or_assigned(shared: Broker) -> None:
    for name in ("few.a", "few.b", "other"):
        shared.create_topic(name, partitions=2)
    with client_of(shared) as client:

        def spots(topics: Subscribed | Matching | Assigned) -> list[tuple[str, int]]:
            return sorted(ScannedCluster(client, topics, committed_only=False).partitions())

        assert spots(Subscribed(("other", "few.a"))) == [("few.a", 0), ("few.a", 1), ("other", 0), ("other", 1)]
        assert spots(Matching("few.*")) == [("few.a", 0), ("few.a", 1), ("few.b", 0), ("few.b", 1)]
        assert spots(Matching("few")) == spots(Matching("ew[.]")) == spots(Matching("few.*"))
        assert spots(Matching("^ew")) == spots(Matching("few$")) == []
        assert spots(Matching(r"\p{Ll}\.b\z")) == [("few.b", 0), ("few.b", 1)]
        assert spots(Matching("^(?!few)o")) == [("other", 0), ("other", 1)]
        assert spots(Assigned({"other": (1,)})) == [("other", 1)]
        assert spots(Assigned({"other": (1, 2, -1), "few.a": ()})) == [("other", 1)]
        with pytest.raises(ScanError, match="UNKNOWN_TOPIC_OR_PARTITION: topic nowhere does not exist"):
            spots(Subscribed(("nowhere",)))
        assert "nowhere" not in shared.topics()


def test_a_topic_that_appears_while_it_is_asked_for_is_read(broker: Broker) -> None:
    with client_of(broker) as client:
        cluster = ScannedCluster(client, Subscribed(("late",)), committed_only=False, attempts=600, pause_s=0.1)
        appearing = Timer(0.3, broker.create_topic, ("late",))
        appearing.start()
        assert list(cluster.partitions()) == [("late", 0)]
        appearing.join()
        twice = ScannedCluster(client, Subscribed(("never",)), committed_only=False, attempts=2)
        asked = broker.faults.delay("Metadata", 0)
        with pytest.raises(ScanError, match="UNKNOWN_TOPIC_OR_PARTITION: topic never does not exist"):
            twice.partitions()
        assert asked.hits == 2


def test_many_topics_and_new_partitions_are_known_by_one_request(broker: Broker) -> None:
    for number in range(20):
        broker.create_topic(f"many-{number}")
    with client_of(broker) as client:
        cluster = ScannedCluster(client, Matching("many-.*"), committed_only=False)
        assert len(cluster.ends(cluster.partitions())) == 20
        rule = broker.faults.delay("Metadata", 0)
        add_partitions(client, "many-3", 4)
        assert len(cluster.ends(cluster.partitions())) == 23
        assert rule.hits <= 3


def test_bounds_by_time_come_from_the_brokers(shared: Broker) -> None:
    for _ in range(3):
        shared.produce("hours", "x")
        shared.clock.advance(hours=1)
    part = whole(shared, "hours")
    second_ms = int(read(shared, part)[1]["timestamp"].timestamp() * 1000)
    with client_of(shared) as client:
        cluster = ScannedCluster(client, Subscribed(("hours",)), committed_only=False)
        logs = cluster.logs(cluster.partitions())
        assert cluster.resolved(Bound("startingTimestamp", time_ms=second_ms), logs) == {("hours", 0): 1}
        assert cluster.resolved(Bound("startingTimestamp", time_ms=second_ms + 86_400_000), logs) == {("hours", 0): 3}


@pytest.mark.parametrize("error", [None, "CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION"])
def test_the_size_of_records_comes_from_the_log_or_from_samples(broker: Broker, error: str | None) -> None:
    for _ in range(5):
        broker.produce("t", *("v" * 1000 for _ in range(20)))
    broker.create_topic("empty")
    if error is not None:
        broker.faults.fail("DescribeLogDirs", error)
    with client_of(broker) as client:
        cluster = ScannedCluster(client, Subscribed(("t", "empty")), committed_only=False)
        ids = cluster.partitions()
        sizes = cluster.offset_bytes(ids, cluster.logs(ids))
    assert 1000 < sizes["t", 0] < 1100
    assert sizes.keys() == {("t", 0)}


def test_small_batches_that_a_filter_leaves_are_put_together(shared: Broker) -> None:
    for _ in range(30):
        shared.produce("many", *(f"{number}" for number in range(20)))
    transport = FetchTransport(client_of(shared), QUICK)
    found = list(rows(transport, whole(shared, "many"), Projection(("value",), filter=parse_filter("value = '7'"))))
    transport.close()
    assert [batch.num_rows for batch in found] == [30]
    assert isinstance(found[0], pa.RecordBatch)
