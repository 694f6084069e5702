"""Groups of real clients share a topic that is being written: members come, go and restart, and so does the broker.

Nothing is lost, nothing is owned by two at a time, and while nobody is killed nothing is read twice.
"""

import secrets
import time
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from conftest import NewTopic, StartBroker
from support.group_members import (
    MEMBERS,
    AsyncMember,
    ConfluentMember,
    CooperativeMember,
    Ledger,
    Load,
    Member,
    NextProtocolMember,
    PythonMember,
)
from support.topics import create_topic
from support.waiting import eventually

PARTITIONS = 6
LONG_SESSION_MS = 30_000
"""Longer than any client takes to find a broker again: nobody is given up for dead meanwhile."""


@pytest.fixture
def group() -> str:
    return f"group-{secrets.token_hex(4)}"


def committed(bootstrap_servers: str, group: str, topic: str, partitions: int = PARTITIONS) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()


def read_to_the_end(ledger: Ledger, ends: dict[int, int], *members: Member) -> None:
    eventually(
        lambda: any(member.errors for member in members) or not ledger.lost(ends), "all records to be read", within_s=90
    )
    for member in members:
        assert not member.errors
    assert ledger.violations == []


@pytest.mark.parametrize("kind", sorted(MEMBERS))
def test_members_come_and_go_and_every_record_is_read_once(
    kind: str, bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(PARTITIONS)
    ledger = Ledger()
    with ExitStack() as running:
        load = running.enter_context(Load(bootstrap_servers, topic, PARTITIONS))

        def join(name: str) -> Member:
            return running.enter_context(MEMBERS[kind](name, ledger, bootstrap_servers, topic, group))

        first = join("first")
        first.wait_for(6)
        second = join("second")
        second.wait_for(3)
        first.wait_for(3)
        third = join("third")
        third.wait_for(2)
        second.wait_for(2)
        first.leave()
        second.wait_for(3)
        third.wait_for(3)
        again = join("first again")
        again.wait_for(2)
        time.sleep(0.5)
        ends = load.finish()
        read_to_the_end(ledger, ends, second, third, again)
        for member in (second, third, again):
            member.leave()
    assert ledger.lost(ends) == []
    assert ledger.repeated() == []
    assert ledger.violations == []
    assert committed(bootstrap_servers, group, topic) == ends


def test_different_clients_form_one_group(bootstrap_servers: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(PARTITIONS)
    ledger = Ledger()
    with ExitStack() as running:
        load = running.enter_context(Load(bootstrap_servers, topic, PARTITIONS))
        members = []
        kinds: list[type[Member]] = [ConfluentMember, PythonMember]
        for kind in kinds:
            members.append(running.enter_context(kind(kind.__name__, ledger, bootstrap_servers, topic, group)))
            for member in members:
                member.wait_for(PARTITIONS // len(members))
        ends = load.finish()
        read_to_the_end(ledger, ends, *members)
        for member in members:
            member.leave()
    assert ledger.repeated() == []
    assert committed(bootstrap_servers, group, topic) == ends


@pytest.mark.parametrize("kind", [PythonMember, ConfluentMember, CooperativeMember, AsyncMember, NextProtocolMember])
def test_a_restarted_static_member_keeps_its_partitions_without_a_rebalance(
    kind: type[Member], bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(PARTITIONS)
    ledger = Ledger()
    with ExitStack() as running:
        load = running.enter_context(Load(bootstrap_servers, topic, PARTITIONS))
        members = [
            running.enter_context(kind(name, ledger, bootstrap_servers, topic, group, instance_id=name))
            for name in ("one", "two")
        ]
        for member in members:
            member.wait_for(3)
        before, rounds = members[1].owned(), ledger.rounds["one"]
        members[1].leave()
        again = running.enter_context(kind("two", ledger, bootstrap_servers, topic, group, instance_id="two"))
        again.wait_for(3)
        ends = load.finish()
        read_to_the_end(ledger, ends, members[0], again)
        assert again.owned() == before
        assert ledger.rounds["one"] == rounds
        again.leave()
        members[0].leave()
    assert ledger.repeated() == []
    assert committed(bootstrap_servers, group, topic) == ends


@pytest.mark.own_process
@pytest.mark.parametrize("kill", [False, True], ids=["restarted", "killed"])
def test_a_group_outlives_its_broker(start_broker: StartBroker, group: str, kill: bool) -> None:
    broker = start_broker(offsets_topic_num_partitions="5")
    servers = broker.bootstrap_servers
    create_topic(AdminClient({"bootstrap.servers": servers}), "t", PARTITIONS)
    ledger = Ledger()
    with ExitStack() as running:
        load = running.enter_context(Load(servers, "t", PARTITIONS))
        members: list[Member] = [
            ConfluentMember("librdkafka", ledger, servers, "t", group),
            PythonMember("kafka-python", ledger, servers, "t", group),
        ]
        for member in members:
            member.session_ms = LONG_SESSION_MS
            running.enter_context(member)
        for member in members:
            member.wait_for(3)
        eventually(lambda: ledger.count() > 500, "records to be read")
        before = committed(servers, group, "t")
        broker.restart(kill=kill)
        known = ledger.count()
        eventually(lambda: ledger.count() > known + 500, "reading to go on", within_s=60)
        after = committed(servers, group, "t")
        assert all(after[partition] >= offset for partition, offset in before.items())
        ends = load.finish()
        read_to_the_end(ledger, ends, *members)
        for member in members:
            member.leave()
    assert ledger.lost(ends) == []
    assert committed(servers, group, "t") == ends


def test_offsets_are_reset_for_a_group_that_rests(bootstrap_servers: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(PARTITIONS)
    ledger = Ledger()
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    with Load(bootstrap_servers, topic, PARTITIONS) as load:
        time.sleep(0.3)
        ends = load.finish()
    with ConfluentMember("first", ledger, bootstrap_servers, topic, group) as member:
        read_to_the_end(ledger, ends, member)
        member.leave()
    back = [TopicPartition(topic, partition, ends[partition] // 2) for partition in range(PARTITIONS)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, back)])[group].result(30)
    assert committed(bootstrap_servers, group, topic) == {each.partition: each.offset for each in back}
    again = Ledger()
    with PythonMember("second", again, bootstrap_servers, topic, group) as member:
        eventually(lambda: again.count() == sum(ends[each.partition] - each.offset for each in back), "the rest")
        member.leave()
    assert {partition: min(read) for partition, read in again.read.items()} == {p.partition: p.offset for p in back}
