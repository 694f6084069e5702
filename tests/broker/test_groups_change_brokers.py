"""One data directory, two programs: groups and offsets stay what they are when the other broker takes over.

kpybroker makes the directory, Apache Kafka goes on with it, then kpybroker again. Each finds what the one before left:
offsets, also those of transactions, static members that are still in their session, and groups that were deleted.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from kpywire import error_codes
from oracle import ApacheKafka, BrokerProcess
from support.group_requests import (
    Found,
    Member,
    commit,
    coordinator_ready,
    delete_groups,
    delete_offsets,
    describe,
    listed,
    offsets,
    stable_member,
)
from support.raw_client import RawClient, connect
from support.raw_requests import create
from support.targets import KpyBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]

GROUPS = [f"group-{number}" for number in range(20)]
SESSION_MS = 300_000


class Seen(NamedTuple):
    """The groups as clients see them."""

    offsets: dict[str, Found]
    states: dict[str, tuple[str, str]]
    assignments: dict[str, bytes]

    @classmethod
    def on(cls, raw: RawClient) -> "Seen":
        found = listed(raw)
        return cls(
            {each.group_id: offsets(raw, each.group_id) for each in found},
            {each.group_id: (each.group_state, each.protocol_type) for each in found},
            {
                f"{each.group_id} {member.group_instance_id}": member.member_assignment
                for each in found
                for member in describe(raw, each.group_id).members
            },
        )


def brokers_on(directory: Path) -> tuple[BrokerProcess, BrokerProcess]:
    """kpybroker and Apache Kafka with the same configuration and data."""
    settings = {"offsets.topic.num.partitions": "5", "log.dirs": str(directory / "data")}
    kafka = ApacheKafka(settings, directory=directory / "kafka")
    shared = {key: value for key, value in kafka.properties.items() if key != "controller.quorum.bootstrap.servers"}
    ours = KpyBroker(shared, directory=directory / "kpybroker")
    ours.port = kafka.port
    return ours, kafka


def live(raw: RawClient, round_number: int, topic: str) -> None:
    """A part of a week: commits, deletions, members."""
    for number, group in enumerate(GROUPS):
        if number % 4 != round_number:
            assert commit(raw, group, topic, (number % 3, 100 * round_number + number, f"by {round_number}")) == {
                number % 3: error_codes.NONE
            }
    delete_groups(raw, GROUPS[round_number])
    delete_offsets(raw, GROUPS[5 + round_number], {topic: [0, 1, 2]})
    member = stable_member(raw, f"left-{round_number}")
    member.leave()


def commit_in_transactions(bootstrap_servers: str, topic: str) -> None:
    """One that is committed, and one that is not."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "transactional"})
    settings: Mapping[str, Any] = {"bootstrap.servers": bootstrap_servers, "transactional.id": secrets.token_hex(4)}
    producer = confluent_kafka.Producer(dict(settings))
    producer.init_transactions(30)
    for offset, end in ((77, producer.commit_transaction), (99, producer.abort_transaction)):
        producer.begin_transaction()
        position = confluent_kafka.TopicPartition(topic, 0, offset)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), 30)
        end(30)
    consumer.close()


def test_groups_stay_what_they_are_on_the_other_broker(tmp_path: Path) -> None:
    ours, kafka = brokers_on(tmp_path)
    left: Seen | None = None
    member: Member | None = None
    for round_number, broker in enumerate((ours, kafka, ours)):
        with broker, connect(broker.bootstrap_servers) as raw:
            coordinator_ready(raw)
            if left is None:
                create(raw, "t", 3)
                member = stable_member(raw, "static", b"mine", instance_id="i", session_ms=SESSION_MS)
            else:
                assert Seen.on(raw) == left
                assert member is not None
                member.raw = raw
                assert member.heartbeat() == error_codes.NONE
                before, member = member, Member(raw, "static", "i", session_ms=SESSION_MS)
                assert member.join().generation_id == 1
                assert member.sync().assignment == b"mine"
                assert before.heartbeat() == error_codes.FENCED_INSTANCE_ID
            assert member.commit("t", (2, round_number, "static")) == {2: error_codes.NONE}
            live(raw, round_number, "t")
            if broker is kafka:
                commit_in_transactions(broker.bootstrap_servers, "t")
                assert offsets(raw, "transactional") == {"t": {0: (77, -1, "", 0)}}
            left = Seen.on(raw)
    assert left is not None
    assert left.offsets["transactional"] == {"t": {0: (77, -1, "", 0)}}
    assert left.states["static"] == ("Stable", "consumer")
