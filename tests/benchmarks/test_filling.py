"""A topic that a row reads: its batches do not depend on how soon a broker acknowledges them."""

from collections import Counter

from benchmarks.clients.confluent_fill import batch_records, fill, shares
from benchmarks.raw import frames
from benchmarks.raw.asking import Address, ask
from kpybroker.testing import Broker
from kpywire.batch import batch_headers
from kpywire.codec import decode
from kpywire.messages.fetch import FetchResponse

RECORD_BYTES = 20_000
RECORDS = 300


def test_partitions_take_turns_with_whole_batches_and_get_equally_many_records() -> None:
    dealt = list(shares(23, 2, 5))
    assert dealt == [(0, 5), (1, 5), (0, 5), (1, 5), (0, 2), (1, 1)]
    counts: Counter[int] = Counter()
    for index, count in shares(150_001, 1000, 900):
        counts[index] += count
    assert sorted(set(counts.values())) == [150, 151]


def test_a_batch_is_a_little_smaller_than_librdkafka_allows() -> None:
    for size in (100, 150, 1000, 10_000):
        assert 0.85e6 < batch_records(size) * size < 1e6
    assert batch_records(2_000_000) == 1


def batches(broker: Broker, topic: str, partition: int) -> list[tuple[int, int]]:
    """Base offset and number of records of each batch."""
    asked = frames.fetch(topic, partition, 0, max_bytes=1 << 26, min_bytes=1, max_wait_ms=500).frame
    answer = memoryview(ask(Address(broker.host, broker.port), asked))[5:]
    records = decode(FetchResponse, 12, answer).responses[0].partitions[0].records
    assert records is not None
    return [(header.base_offset, header.record_count) for _, header in batch_headers(records)]


def test_a_broker_that_acknowledges_late_gets_the_same_batches() -> None:
    with Broker() as broker:
        for topic in ("soon", "late"):
            broker.create_topic(topic, 2)
        broker.faults.delay("Produce", seconds=0.05, topic="late")
        for topic in ("soon", "late"):
            fill(broker.bootstrap_servers, topic, 2, RECORDS, RECORD_BYTES, RECORD_BYTES, {})
        for partition in (0, 1):
            soon, late = batches(broker, "soon", partition), batches(broker, "late", partition)
            assert soon == late == [(0, 47), (47, 47), (94, 47), (141, 9)]
