"""Share groups on a whole node: members acquire and acknowledge, and what they leave goes to others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_node import RunningNode, start
from test_node import create

from kpywire import api, error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from kpywire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest as Alteration
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from support import raw_requests
from support.raw_client import RawClient, connect
from support.raw_transactions import Transactional, find_coordinator
from support.share_group_requests import acknowledging, acquiring, describing, sharing
from support.waiting import eventually

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP_RESOURCE = 32
SETTINGS = {
    "share_coordinator_state_topic_num_partitions": "1",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "group_share_min_record_lock_duration_ms": "1000",
    "group_share_max_size": "3",
    "group_share_max_share_sessions": "3",
}


class Group:
    """Members of the group "g" at partition 0 of the topic "t"."""

    def __init__(self, client: RawClient, **configs: str) -> None:
        self.client = client
        create(client, "t")
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        self.topic_id = client.call(asked, 12).topics[0].topic_id
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        self.configure(share_auto_offset_reset="earliest", **configs)
        eventually(lambda: self.beat(0, ["t"]).error_code == 0, "the coordinator")
        eventually(lambda: self.beat(0, ["t"]).assignment.topic_partitions, "an assignment")

    def configure(self, **configs: str) -> None:
        named = [
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in configs.items()
        ]
        group = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name="g", configs=named)
        (answer,) = self.client.call(Alteration(resources=[group], validate_only=False), 1).responses
        assert answer.error_code == error_codes.NONE, answer.error_message

    def beat(self, epoch: int, topics: list[str] | None = None) -> Any:
        return self.client.call(sharing("g", "m", epoch, topics), 1)

    def produce(self, *values: str) -> None:
        batch = build_batch([Record(timestamp=1, value=value.encode()) for value in values])
        topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
        answer = self.client.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
        assert answer.responses[0].partition_responses[0].error_code == error_codes.NONE

    def lag(self) -> int:
        (group,) = self.client.call(describing("g", "t"), 1).groups
        return int(group.topics[0].partitions[0].lag)


class Member:
    """One member with its session."""

    def __init__(self, client: RawClient, topic_id: bytes, name: str) -> None:
        self.client = client
        self.topic_id = topic_id
        self.name = name
        self.epoch = -1

    def fetch(self, *batches: Any, version: int = 2, **fields: Any) -> Any:
        """The error code, or the answer of the partition; None if it has no news."""
        self.epoch += 1
        named = [self.topic_id] if batches or self.epoch == 0 else []
        request = acquiring("g", self.name, self.epoch, *named, batches=batches, **fields)
        answer = self.client.call(request, version)
        if answer.error_code:
            return answer.error_code
        return answer.responses[0].partitions[0] if answer.responses else None

    def got(self, *batches: Any, **fields: Any) -> list[tuple[int, int, int]]:
        """The acquired records: first and last offset, and the number of deliveries."""
        answer = self.fetch(*batches, **fields)
        if answer is None:
            return []
        assert answer.error_code == error_codes.NONE
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in answer.acquired_records]

    def acknowledge(self, *batches: Any, **fields: Any) -> int:
        self.epoch += 1
        request = acknowledging("g", self.name, self.epoch, self.topic_id, *batches, **fields)
        answer = self.client.call(request, 2)
        return int(answer.error_code or answer.responses[0].partitions[0].error_code)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start(tmp_path, **SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with connect(f"127.0.0.1:{node.port}") as connected:
        yield connected


@pytest.fixture
def other(node: RunningNode) -> Iterator[RawClient]:
    with connect(f"127.0.0.1:{node.port}") as connected:
        yield connected


def test_records_are_acquired_once_and_acknowledged_one_by_one(client: RawClient, other: RawClient) -> None:
    group = Group(client)
    group.produce("a", "b", "c", "d")
    one, two = (Member(each, group.topic_id, name) for each, name in ((client, "one"), (other, "two")))
    found = one.fetch()
    assert [record.value for record in read_records(bytes(found.records))] == [b"a", b"b", b"c", b"d"]
    assert two.got() == []
    assert two.acknowledge((0, 0, [ACCEPT])) == error_codes.INVALID_RECORD_STATE
    assert one.acknowledge((0, 3, [ACCEPT, RELEASE, REJECT, ACCEPT])) == error_codes.NONE
    assert one.acknowledge((2, 2, [ACCEPT])) == error_codes.INVALID_RECORD_STATE
    assert group.lag() == 1
    assert two.got() == [(1, 1, 2)]
    assert two.got((1, 1, [ACCEPT])) == []
    assert group.lag() == 0


def test_a_waiting_member_is_woken_by_an_append_and_by_a_release(client: RawClient, other: RawClient) -> None:
    group = Group(client)
    one, two = (Member(each, group.topic_id, name) for each, name in ((client, "one"), (other, "two")))
    assert two.got() == []
    two.epoch += 1
    two.client.send(acquiring("g", "two", two.epoch, max_wait_ms=60_000), 2)
    group.produce("a")
    (partition,) = two.client.receive(api.SHARE_FETCH, 2).responses[0].partitions
    assert [each.first_offset for each in partition.acquired_records] == [0]
    assert one.got() == []
    one.epoch += 1
    one.client.send(acquiring("g", "one", one.epoch, max_wait_ms=60_000), 2)
    assert two.acknowledge((0, 0, [RELEASE])) == error_codes.NONE
    (partition,) = one.client.receive(api.SHARE_FETCH, 2).responses[0].partitions
    assert [each.delivery_count for each in partition.acquired_records] == [2]


def test_a_waiting_member_reads_at_the_isolation_level_that_is_set_meanwhile(
    client: RawClient, other: RawClient
) -> None:
    group = Group(client, share_isolation_level="read_uncommitted")
    member = Member(other, group.topic_id, "one")
    assert member.got() == []
    member.epoch += 1
    other.send(acquiring("g", "one", member.epoch, max_wait_ms=60_000), 2)
    group.configure(share_isolation_level="read_committed")
    producer = Transactional(client, "p")
    find_coordinator(client, "p")
    assert producer.init().error_code == error_codes.NONE
    assert producer.add(("t", 0)) == {error_codes.NONE}
    assert producer.produce("t", b"aborted").error_code == error_codes.NONE
    assert producer.end(commit=False).error_code == error_codes.NONE
    (partition,) = other.receive(api.SHARE_FETCH, 2).responses[0].partitions
    # The marker at offset 1 is given, as by Kafka; the aborted record at offset 0 is not.
    assert [(each.first_offset, each.last_offset) for each in partition.acquired_records] == [(1, 1)]


def test_records_of_a_lost_connection_and_of_an_ended_session_come_again(node: RunningNode, client: RawClient) -> None:
    group = Group(client)
    group.produce("a")
    with connect(f"127.0.0.1:{node.port}") as lost:
        assert Member(lost, group.topic_id, "lost").got() == [(0, 0, 1)]
    leaving = Member(client, group.topic_id, "leaving")
    eventually(lambda: leaving.got() == [(0, 0, 2)], "the record of the lost member")
    assert client.call(acquiring("g", "leaving", -1), 2).error_code == error_codes.NONE
    assert Member(client, group.topic_id, "next").got() == [(0, 0, 3)]


def test_a_lock_ends_unless_it_is_renewed(client: RawClient, other: RawClient) -> None:
    group = Group(client, share_record_lock_duration_ms="1000", share_delivery_count_limit="2")
    group.produce("a")
    group.produce("b")
    one, two = (Member(each, group.topic_id, name) for each, name in ((client, "one"), (other, "two")))
    assert one.got(max_records=1) == [(0, 0, 1)]
    assert one.got(max_records=1) == [(1, 1, 1)]
    renewed = []

    def others() -> bool:
        renewed.append(one.acknowledge((0, 0, [RENEW]), is_renew_ack=True))
        return two.got() == [(1, 1, 2)]

    eventually(others, "the end of the other lock", every_s=0.2)
    assert set(renewed) == {error_codes.NONE}
    assert one.acknowledge((0, 0, [ACCEPT])) == error_codes.NONE
    eventually(lambda: group.lag() == 0, "the last delivery to be counted out", every_s=0.2)


def test_sessions_have_epochs_and_a_limit(client: RawClient) -> None:
    group = Group(client)
    member = Member(client, group.topic_id, "m")
    assert member.got() == []
    for epoch, expected in ((5, error_codes.INVALID_SHARE_SESSION_EPOCH), (-1, error_codes.NONE)):
        assert client.call(acquiring("g", "m", epoch), 2).error_code == expected
    assert client.call(acquiring("g", "m", 1), 2).error_code == error_codes.SHARE_SESSION_NOT_FOUND
    codes = [client.call(acquiring("g", f"m{number}", 0, max_wait_ms=0), 2).error_code for number in range(4)]
    assert codes == [0, 0, 0, error_codes.SHARE_SESSION_LIMIT_REACHED]


def test_states_survive_a_restart(tmp_path: Path) -> None:
    running = start(tmp_path, **SETTINGS)
    with connect(f"127.0.0.1:{running.port}") as client:
        group = Group(client)
        group.produce("a", "b", "c")
        member = Member(client, group.topic_id, "m")
        assert member.got() == [(0, 2, 1)]
        assert member.acknowledge((0, 2, [ACCEPT, RELEASE, REJECT])) == error_codes.NONE
    running.stop()
    running = start(tmp_path, **SETTINGS)
    try:
        with connect(f"127.0.0.1:{running.port}") as client:
            again = Member(client, group.topic_id, "again")
            assert again.got(max_wait_ms=5_000) == [(1, 1, 2)]
    finally:
        running.stop()


@pytest.mark.parametrize(("most", "codes"), [(0, []), (1, [-1]), (-1, [-1])])
def test_a_group_without_states_cannot_read_but_for_no_records_at_all(
    client: RawClient, most: int, codes: list[int]
) -> None:
    topic_id = raw_requests.create(client, "t")
    answer = client.call(acquiring("unknown", "m", 0, topic_id, max_records=most), 2)
    assert [part.error_code for topic in answer.responses for part in topic.partitions] == codes
