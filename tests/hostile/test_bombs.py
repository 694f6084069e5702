"""Batches that take long to inflate, to check, to compress again or to search: nobody else waits for them.

While each attack goes on, an honest client asks for metadata. The event loop may work for others while one of its
requests waits, but only for a few milliseconds; the work that is attacked takes a hundred times as long.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest
from attacker import Attacker, create_topic, produce, produce_request
from probe import probing
from test_batches import NOW_MS, sealed
from watched import WatchedBroker

from kpywire import error_codes
from kpywire.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress
from kpywire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.record import encode_record
from tests.wire.test_compressed_attacks import ATTACKS

MIB = 1024 * 1024
MOST_HELD_MS = 30.0
"""The CPU time of the loop while an honest request waits: two pieces of at most 10 ms, on a slow machine."""
PARTITIONS = 6
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
StartBroker = Callable[..., WatchedBroker]


@pytest.fixture(scope="module")
def odd_records() -> tuple[bytes, int]:
    """A section of about a megabyte whose records do not look alike, and their number."""
    count = 60_000
    rng = Random(1)
    sizes = [rng.randrange(5) for _ in range(count)]
    return b"".join(
        encode_record(index, size * 99, b"k" * size, b"v" * size) for index, size in enumerate(sizes)
    ), count


def bomb(codec: int, inflated_bytes: int) -> bytes:
    """A batch of one record of zeros."""
    return sealed({"attributes": codec}, compress(codec, encode_record(0, 0, None, bytes(inflated_bytes))))


def many(topic: str, batches: list[bytes]) -> ProduceRequest:
    """A request with a batch for each partition."""
    data = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


@pytest.fixture
def quiet(target: WatchedBroker) -> Iterator[WatchedBroker]:
    """The broker, which holds nobody up while the test goes on."""
    with probing(target.port, target.pid) as held:
        yield target
    assert held.requests
    assert held.longest_ms < MOST_HELD_MS


def test_produced_batches_of_many_parts_leave_the_loop_to_others(quiet: WatchedBroker) -> None:
    with Attacker(quiet.port) as client:
        create_topic(client, "parts")
        for codec, section in ATTACKS.values():
            batch = sealed({"attributes": codec}, section(1_000_000))
            assert produce(client, "parts", batch).error_code != error_codes.NONE


def test_pushed_metrics_of_many_parts_leave_the_loop_to_others(quiet: WatchedBroker) -> None:
    """Anybody may push, and again at once by another instance id."""
    with Attacker(quiet.port) as client:
        for codec, section in ATTACKS.values():
            found = client.call(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0)
            push = PushTelemetryRequest(
                client_instance_id=found.client_instance_id,
                subscription_id=found.subscription_id,
                terminating=False,
                compression_type=codec,
                metrics=section(1_000_000),
            )
            assert client.call(push, 0).error_code in (error_codes.NONE, error_codes.INVALID_RECORD)


@pytest.mark.parametrize("codec", CODECS, ids=[NAMES[codec] for codec in CODECS])
def test_many_bombs_in_one_request_leave_the_loop_to_others(quiet: WatchedBroker, codec: int) -> None:
    topic = f"bombs-{NAMES[codec]}"
    size = 40 * MIB if codec in (GZIP, ZSTD) else 16 * MIB
    with Attacker(quiet.port) as client:
        create_topic(client, topic, PARTITIONS)
        quiet.forget_peak()
        before = quiet.memory_bytes()
        answer = client.call(many(topic, [bomb(codec, size)] * PARTITIONS), 9).responses[0]
        assert [each.error_code for each in answer.partition_responses] == [error_codes.NONE] * PARTITIONS
        assert [each.index for each in answer.partition_responses] == list(range(PARTITIONS))
        assert quiet.peak_memory_bytes() - before < 32 * MIB
        asked = ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=each, timestamp=NOW_MS) for each in range(PARTITIONS)],
        )
        (found,) = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7).topics
        assert [each.error_code for each in found.partitions] == [error_codes.NONE] * PARTITIONS
        assert [each.offset for each in found.partitions] == [0] * PARTITIONS


def test_many_small_bombs_in_one_request_leave_the_loop_to_others(quiet: WatchedBroker) -> None:
    """Each one is small enough to be checked at once."""
    with Attacker(quiet.port) as client:
        create_topic(client, "small-bombs", 60)
        for codec in (GZIP, ZSTD):
            answer = client.call(many("small-bombs", [bomb(codec, MIB)] * 60), 9).responses[0]
            assert [each.error_code for each in answer.partition_responses] == [error_codes.NONE] * 60


@pytest.mark.parametrize("codec", [NONE, *CODECS], ids=NAMES)
def test_records_that_do_not_look_alike_leave_the_loop_to_others(
    quiet: WatchedBroker, odd_records: tuple[bytes, int], codec: int
) -> None:
    section, count = odd_records
    batch = sealed({"attributes": codec, "record_count": count}, compress(codec, section))
    with Attacker(quiet.port) as client:
        topic = f"odd-{NAMES[codec]}"
        create_topic(client, topic, message_timestamp_type="LogAppendTime")
        assert produce(client, topic, batch).error_code == error_codes.NONE
        asked = ListOffsetsPartition(partition_index=0, timestamp=NOW_MS + 10**9)
        for timestamp in (-3, NOW_MS - 10**9, NOW_MS + 10**9):
            asked.timestamp = timestamp
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
            assert client.call(request, 7).topics[0].partitions[0].error_code == error_codes.NONE


@pytest.mark.parametrize(
    ("kind", "level"), [("gzip", "9"), ("zstd", "15"), ("lz4", "12"), ("snappy", None), ("uncompressed", None)]
)
def test_compressing_again_leaves_the_loop_to_others(quiet: WatchedBroker, kind: str, level: str | None) -> None:
    topic = f"again-{kind}"
    levels = {} if level is None else {f"compression_{kind}_level": level}
    noise = Random(1).randbytes(2000)
    record = encode_record(0, 0, None, bytes(b"ab"[byte & 1] for byte in noise) * 300)
    with Attacker(quiet.port) as client:
        create_topic(client, topic, PARTITIONS, compression_type=kind, **levels)
        codec = ZSTD if kind == "gzip" else GZIP
        batch = sealed({"attributes": codec}, compress(codec, record))
        answer = client.call(many(topic, [batch] * PARTITIONS), 9).responses[0]
        assert [each.error_code for each in answer.partition_responses] == [error_codes.NONE] * PARTITIONS


def test_clients_that_come_again_for_each_bomb_leave_the_loop_to_others(quiet: WatchedBroker) -> None:
    """And one that does not wait for the answer leaves nothing behind."""
    batch = bomb(GZIP, 60 * MIB)
    with Attacker(quiet.port) as client:
        create_topic(client, "come-again")
    for number in range(10):
        client = Attacker(quiet.port)
        client.send(produce_request("come-again", batch), 9)
        if number % 2:
            client.vanish()
        elif number % 8 == 0:
            client.receive(0, 9)
        client.vanish()
    with Attacker(quiet.port) as client:
        assert produce(client, "come-again", batch).error_code == error_codes.NONE


def test_a_bomb_in_a_transaction_that_is_not_open_is_refused(attacker: Attacker) -> None:
    create_topic(attacker, "no-transaction")
    section = compress(ZSTD, encode_record(0, 0, None, bytes(8 * MIB)))
    fields = {"attributes": ZSTD | 0x10, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    answer = produce(attacker, "no-transaction", sealed(fields, section))
    assert answer.error_code == error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
