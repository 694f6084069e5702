"""Compacted topics as clients see them: the newest record of a key, deletions that go, internal topics that stay true.

One broker compacts without waiting for long. What its cleaner has done is read from its checkpoint, whose format is
Kafka's.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from kpywire.messages.describe_transactions import DescribeTransactionsRequest
from oracle import BrokerProcess
from support.clients import CLIENTS, Confluent, Record, Refused
from support.java_tools import JavaTools
from support.raw_client import connect
from support.targets import TARGETS
from support.topics import create_topic
from support.waiting import eventually

SEGMENT_BYTES = 1 << 20
PART_BYTES = 250_000
"""Four such values fill a segment."""
WITHIN_S = 60.0
PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
    "offset.metadata.max.bytes": "4096",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.segment.bytes": str(SEGMENT_BYTES),
}
GROUPS, COMMITS = 3, 1200
METADATA_BYTES = 4000
T = TypeVar("T")
IDS, ROUNDS = 4, 128
LONG = "t" * 240


@pytest.fixture(scope="module")
def broker(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    if startable_target == "container":
        pytest.skip("its files lie in the container")
    with TARGETS[startable_target](PROPERTIES, directory=tmp_path_factory.mktemp("compacting")) as running:
        yield running


@pytest.fixture(scope="module")
def here(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def compacted_to(broker: BrokerProcess, topic: str) -> int:
    """Up to where partition 0 has been compacted, -1 if nowhere."""
    for path in broker.directory.glob("**/cleaner-offset-checkpoint"):
        for line in path.read_text().splitlines():
            if line.startswith(f"{topic} 0 "):
                return int(line.split()[2])
    return -1


def fill(broker: BrokerProcess, topic: str) -> int:
    """Begin another segment by records of a key of their own; the offset of the last of them."""
    parts = [Record(bytes(PART_BYTES), key=b"filler")] * 5
    return Confluent(broker.bootstrap_servers).produce(topic, parts)[-1].offset


def compact(broker: BrokerProcess, topic: str) -> None:
    """Have everything written so far compacted."""
    end = Confluent(broker.bootstrap_servers).end_offsets(topic)[0]
    fill(broker, topic)
    eventually(lambda: compacted_to(broker, topic) >= end, f"{topic} to be compacted", WITHIN_S)


def newest(broker: BrokerProcess, client: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    found = CLIENTS[client](broker.bootstrap_servers).read(topic)
    return [(record.key, record.value) for record in found if record.key != b"filler"]


@pytest.fixture(scope="module")
def users(broker: BrokerProcess, here: AdminClient) -> str:
    """A topic with ten keys that were written fifty times each and compacted."""
    create_topic(here, "users", 1, {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)})
    client = Confluent(broker.bootstrap_servers)
    client.produce("users", [Record(b"%d" % number, key=b"user %d" % (number % 10)) for number in range(500)])
    compact(broker, "users")
    return "users"


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_python_clients_read_the_newest_record_of_every_key(broker: BrokerProcess, users: str, client: str) -> None:
    assert newest(broker, client, users) == [(b"user %d" % number, b"%d" % (490 + number)) for number in range(10)]


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_reading_begins_behind_a_gap_where_the_asked_offset_is_gone(
    broker: BrokerProcess, users: str, client: str
) -> None:
    found = CLIENTS[client](broker.bootstrap_servers).read(users, {0: 17})
    assert found[0].offset == 490


@pytest.mark.java
def test_kafkas_own_consumer_reads_the_newest_record_of_every_key(
    broker: BrokerProcess, users: str, java_tools: JavaTools
) -> None:
    arguments = ["--bootstrap-server", broker.bootstrap_servers, "--topic", users, "--from-beginning"]
    printed = java_tools.run(
        "kafka-console-consumer", *arguments, "--max-messages", "10", "--formatter-property", "print.key=true"
    )
    assert [line for line in printed.out.splitlines() if line.startswith("user")] == [
        f"user {number}\t{490 + number}" for number in range(10)
    ]


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_record_without_a_key_is_refused(broker: BrokerProcess, users: str, client: str) -> None:
    with pytest.raises(Refused) as refusal:
        CLIENTS[client](broker.bootstrap_servers).produce(users, [Record(b"no key")])
    assert refusal.value.code == 87


def test_deletions_go_when_their_time_is_over(broker: BrokerProcess, here: AdminClient) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "delete.retention.ms": "100"}
    create_topic(here, "deleting", 1, configs)
    client = Confluent(broker.bootstrap_servers)
    client.produce("deleting", [Record(b"v", key=b"gone"), Record(b"v", key=b"kept"), Record(None, key=b"gone")])

    def compact_again() -> bool:
        compact(broker, "deleting")
        return newest(broker, client.name, "deleting") == [(b"kept", b"v")]

    compact(broker, "deleting")
    assert dict(newest(broker, client.name, "deleting")).get(b"gone") is None
    eventually(compact_again, "the deletion to go", WITHIN_S, every_s=0.1)


def test_a_topic_may_become_compacted(broker: BrokerProcess, here: AdminClient) -> None:
    create_topic(here, "changing", 1, {"segment.bytes": str(SEGMENT_BYTES)})
    client = Confluent(broker.bootstrap_servers)
    client.produce("changing", [Record(b"no key")])
    client.produce("changing", [Record(b"%d" % number, key=b"%d" % (number % 3)) for number in range(30)])
    fill(broker, "changing")
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "changing", incremental_configs=[change])
    for future in here.incremental_alter_configs([resource]).values():
        future.result(WITHIN_S)
    eventually(lambda: compacted_to(broker, "changing") > 30, "the topic to be compacted", WITHIN_S)
    assert newest(broker, client.name, "changing") == [(b"0", b"27"), (b"1", b"28"), (b"2", b"29")]


def persist(action: Callable[[], T]) -> T:
    """Do it again until a coordinator is loaded, or a broker that was started again takes part."""
    results: list[T] = []

    def is_done() -> bool:
        try:
            results.append(action())
        except KafkaException:
            return False
        return True

    eventually(is_done, "the broker to be ready", WITHIN_S, every_s=0.2)
    return results[0]


def commit(broker: BrokerProcess, topic: str) -> dict[str, int]:
    """Commit much more than a segment holds; the last offset of each group."""
    last = {}
    for group in range(GROUPS):
        name = f"group-{group}"
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
        for number in range(1, COMMITS // GROUPS + 1):
            place = TopicPartition(topic, 0, number, metadata="m" * METADATA_BYTES)
            persist(partial(consumer.commit, offsets=[place], asynchronous=False))
        consumer.close()
        last[name] = COMMITS // GROUPS
    return last


def committed(broker: BrokerProcess, topic: str, groups: list[str]) -> dict[str, int]:
    found = {}
    for group in groups:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
        asked = partial(consumer.committed, [TopicPartition(topic, 0)], timeout=10)
        found[group] = persist(asked)[0].offset
        consumer.close()
    return found


def size_of(broker: BrokerProcess, partition: str) -> int:
    return sum(path.stat().st_size for path in broker.directory.glob(f"**/{partition}/*.log"))


def test_commits_are_compacted_while_they_are_made_and_hold_over_a_restart(broker: BrokerProcess, users: str) -> None:
    last = commit(broker, users)
    eventually(lambda: compacted_to(broker, "__consumer_offsets") > COMMITS // 2, "commits to be compacted", WITHIN_S)
    assert size_of(broker, "__consumer_offsets-0") < COMMITS * METADATA_BYTES // 2
    assert committed(broker, users, list(last)) == last
    broker.restart()
    assert committed(broker, users, list(last)) == last


def test_transactions_go_on_after_their_log_was_compacted_and_loaded_again(
    broker: BrokerProcess, here: AdminClient
) -> None:
    topics = [f"{LONG}-{number}" for number in range(20)]
    for topic in topics:
        persist(partial(create_topic, here, topic))
    producers = []
    for number in range(IDS):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"id-{number}", "log_level": 0}
        producers.append(Producer(settings))
        producers[-1].init_transactions(30)
    for _ in range(ROUNDS // IDS):
        for producer in producers:
            producer.begin_transaction()
            for topic in topics:
                producer.produce(topic, b"v", partition=0)
            producer.commit_transaction(30)
    eventually(lambda: compacted_to(broker, "__transaction_state") > 0, "the states to be compacted", WITHIN_S)
    eventually(lambda: {each[0] for each in states(broker).values()} == {"CompleteCommit"}, "their ends", WITHIN_S)
    before = states(broker)
    broker.restart()
    assert states(broker) == before
    for producer in producers:
        producer.begin_transaction()
        producer.produce(topics[0], b"after", partition=0)
        producer.commit_transaction(30)
    found = Confluent(broker.bootstrap_servers).read(topics[0])
    assert [record.value for record in found] == [b"v"] * ROUNDS + [b"after"] * IDS


def states(broker: BrokerProcess) -> dict[str, tuple[str, int, int]]:
    """State, producer id and epoch of each transactional id."""
    ids = [f"id-{number}" for number in range(IDS)]
    with connect(broker.bootstrap_servers) as raw:
        found: dict[str, tuple[str, int, int]] = {}

        def in_total() -> bool:
            answer = raw.call(DescribeTransactionsRequest(transactional_ids=ids), 0)
            for state in answer.transaction_states:
                found[state.transactional_id] = (
                    state.transaction_state, state.producer_id, state.producer_epoch,
                )  # fmt: skip
            return all(state.error_code == 0 for state in answer.transaction_states)

        eventually(in_total, "the coordinator", WITHIN_S)
    return found
