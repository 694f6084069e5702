"""Transactions by unmodified clients: kafka-python, confluent-kafka and aiokafka, each the same way."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from conftest import NewTopic, StartBroker
from exactly_once.clients import CLIENTS, Client, Lost, Refused
from exactly_once.history import Position
from kpywire import error_codes
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.end_txn import EndTxnRequest
from support.access import Access
from support.raw_client import RawClient, connect
from support.raw_requests import topic_named
from support.raw_transactions import (
    ADDING,
    Transactional,
    aborted_in,
    answers_to_the_stable_end,
    committed_values,
    fetch,
    find_coordinator,
    stable_end,
    values_in,
)
from support.waiting import eventually

New = Callable[[str], Client]
"""A producer of a transactional id, and its consumer."""


@pytest.fixture(params=sorted(CLIENTS))
def new_client(request: pytest.FixtureRequest, bootstrap_servers: str) -> Iterator[New]:
    """Makes producers of one kind of client, and closes them in the end."""
    made: list[Client] = []

    def new(transactional_id: str) -> Client:
        made.append(CLIENTS[request.param](Access(bootstrap_servers), transactional_id))
        return made[-1]

    yield new
    for client in made:
        with suppress(Lost, Refused):
            client.close()


def written(raw: RawClient, topic: str) -> list[str]:
    """All records of partition 0, those of aborted transactions too, once nothing is open."""
    eventually(lambda: stable_end(raw, topic) == fetch(raw, topic, committed=False).high_watermark, "all ends")
    answers = list(answers_to_the_stable_end(raw, topic, committed=False))
    assert not any(aborted_in(each) for each in answers)
    return [str(value, "utf-8") for each in answers for value in values_in(each) if value is not None]


def seen(client: Client, topic: str, group: str, count: int) -> list[str]:
    """The first values that the client's own consumer reads, committed ones only."""
    client.read_from((topic, 0), group)
    values: list[str] = []
    eventually(lambda: values.extend(each.value for each in client.poll()) or len(values) >= count, "records")
    return values


def test_commits_are_read_and_aborts_are_not(new_client: New, raw: RawClient, topic: str) -> None:
    client = new_client(topic)
    for number, end in enumerate((client.commit, client.abort, client.commit, client.abort, client.commit)):
        client.begin()
        for which in "ab":
            client.send((topic, 0), f"{number}{which}")
        client.flush()
        end()
    assert written(raw, topic) == [f"{number}{which}" for number in range(5) for which in "ab"]
    assert seen(client, topic, topic, 6) == ["0a", "0b", "2a", "2b", "4a", "4b"]


def test_reading_writing_and_committing_is_atomic(new_client: New, raw: RawClient, new_topic: NewTopic) -> None:
    """Consume, transform, produce; every third step is aborted and done again."""
    source, sink = new_topic(), new_topic()
    writer = new_client(source)
    writer.begin()
    for number in range(12):
        writer.send((source, 0), str(number))
    writer.commit()
    client = new_client(sink)
    client.read_from((source, 0), sink)
    done, steps = 0, 0
    while done < 12:
        polled = client.poll()
        if not polled:
            continue
        steps += 1
        taken = polled[:3]
        client.begin()
        for each in taken:
            client.send((sink, 0), f"{each.value}*")
        client.flush()
        client.send_position(Position(sink, (source, 0), taken[-1].offset + 1))
        if steps % 3 == 0:
            client.abort()
            client.go_back_to((source, 0), taken[0].offset)
        else:
            client.commit()
            done += len(taken)
            client.go_back_to((source, 0), taken[-1].offset + 1)
    assert seen(new_client(sink + "-reader"), sink, sink + "-reader", 12) == [f"{number}*" for number in range(12)]
    resumed = new_client(sink + "-resumed")
    resumed.read_from((source, 0), sink)
    assert not list(resumed.poll())
    assert len(written(raw, sink)) > 12


def test_a_second_producer_ends_the_first(new_client: New, raw: RawClient, topic: str) -> None:
    first = new_client(topic)
    first.begin()
    first.send((topic, 0), "zombie")
    first.flush()
    second = new_client(topic)
    second.begin()
    second.send((topic, 0), "alive")
    second.flush()
    second.commit()
    with pytest.raises((Lost, Refused)):
        first.commit()
    assert written(raw, topic) == ["zombie", "alive"]
    assert seen(second, topic, topic, 1) == ["alive"]


# Brokers that end, and time that passes: on a broker of the test's own


def create(raw: RawClient, topic: str) -> None:
    raw.call(CreateTopicsRequest(topics=[topic_named(topic)], timeout_ms=10_000, validate_only=False), 7)
    eventually(lambda: fetch(raw, topic, committed=False).error_code == 0, "the topic")


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_transactions_go_on_after_a_restart(start_broker: StartBroker, how: str) -> None:
    """A transaction that was open stays open, a decided one is decided, and zombies stay fenced."""
    broker = start_broker()
    with connect(broker.bootstrap_servers) as raw:
        create(raw, "orders")
        create(raw, "ends")
        producer, other = Transactional(raw, "open"), Transactional(raw, "ended")
        find_coordinator(raw, "open")
        producer.init()
        other.init()
        assert producer.produce("orders", b"a", version=ADDING).error_code == 0
        assert other.produce("ends", b"x", version=ADDING).error_code == 0
        assert other.end(False, 5).error_code == 0
        other.until("CompleteAbort")
    broker.restart(kill=how == "killed")
    with connect(broker.bootstrap_servers) as raw:
        find_coordinator(raw, "open")
        producer.raw = other.raw = raw
        eventually(lambda: producer.describe().transaction_state == "Ongoing", "the transaction")
        assert stable_end(raw, "orders") == 0
        assert aborted_in(fetch(raw, "ends", committed=True)) == [(other.producer_id, 0)]
        assert producer.produce("orders", b"b", version=ADDING).error_code == 0
        identity = producer.producer_id
        assert producer.end(True, 5).error_code == 0
        eventually(lambda: stable_end(raw, "orders") == 3, "the marker")
        assert committed_values(raw, "orders") == [b"a", b"b"]
        zombie = Transactional(raw, "open", identity, producer.epoch - 1)
        assert zombie.produce("orders", b"c", version=ADDING, sequence=2).error_code != 0
        assert other.produce("ends", b"y", version=ADDING).error_code == 0
        assert other.end(True, 5).error_code == 0
        eventually(lambda: stable_end(raw, "ends") == 4, "the marker")


def test_a_transaction_that_takes_too_long_is_aborted(start_broker: StartBroker) -> None:
    broker = start_broker(transaction_abort_timed_out_transaction_cleanup_interval_ms="100")
    with connect(broker.bootstrap_servers) as raw:
        create(raw, "orders")
        producer = Transactional(raw, "slow")
        find_coordinator(raw, "slow")
        producer.init(timeout_ms=300)
        assert producer.produce("orders", b"a", version=ADDING).error_code == 0
        state = producer.until("CompleteAbort")
        assert (state.producer_epoch, state.topics) == (1, [])
        eventually(lambda: stable_end(raw, "orders") == 2, "the marker")
        assert aborted_in(fetch(raw, "orders", committed=True)) == [(producer.producer_id, 0)]
        assert producer.produce("orders", b"b", version=ADDING).error_code == error_codes.INVALID_PRODUCER_EPOCH
        assert producer.end(True, 5).error_code == error_codes.INVALID_TXN_STATE


@pytest.mark.slow
def test_killed_in_the_middle_of_many(start_broker: StartBroker) -> None:
    """Every transaction is whole or not there, whatever it was doing when the broker died."""
    broker = start_broker()
    with connect(broker.bootstrap_servers) as raw:
        create(raw, "left")
        create(raw, "right")
    for round_number in range(3):
        with connect(broker.bootstrap_servers) as raw:
            producer = Transactional(raw, "many")
            find_coordinator(raw, "many")
            producer.init()
            for number in range(50):
                value = f"{round_number}-{number}".encode()
                assert producer.produce("left", value, version=ADDING).error_code == 0
                assert producer.produce("right", value, version=ADDING).error_code == 0
                if number < 49:
                    assert producer.end(number % 5 != 0, 5).error_code == 0
            producer.raw.send(_ending(producer), 5)
        broker.kill()
        broker.start()
    with connect(broker.bootstrap_servers) as raw:
        last = Transactional(raw, "many")
        find_coordinator(raw, "many")
        last.init()
        sides = [committed_values(raw, topic) for topic in ("left", "right")]
    assert sides[0] == sides[1]
    assert set(sides[0]) >= {f"{turn}-{n}".encode() for turn in range(3) for n in range(49) if n % 5}


def _ending(producer: Transactional) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=producer.id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
