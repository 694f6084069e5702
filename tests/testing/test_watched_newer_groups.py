"""Share groups and streams groups as a test waits for them, looks at them and asserts what became of records."""

from collections.abc import Iterator

import pytest

from kpybroker.client.client import Client
from kpybroker.client.connection import BrokerConnection
from kpybroker.client.share_member import ACKNOWLEDGEMENTS, ShareGroupReader
from kpybroker.testing import Broker, assert_shared, wait_for_group_stable
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology

TOPIC = "letters"
GROUP_RESOURCE = 32
ACCEPT, RELEASE, REJECT = (ACKNOWLEDGEMENTS[each] for each in ("accept", "release", "reject"))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic(TOPIC)
        yield broker


@pytest.fixture
def connection(broker: Broker) -> Iterator[BrokerConnection]:
    connection = BrokerConnection(broker.host, broker.port, 20.0)
    yield connection
    connection.close()


@pytest.fixture
def member(broker: Broker, connection: BrokerConnection) -> Iterator[ShareGroupReader]:
    """A member that reads group "mail" from the beginning, and has its partition."""
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name="mail", configs=[config])
    assert connection.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code == 0
    client = Client(f"{broker.host}:{broker.port}", 20.0)
    member = ShareGroupReader(client, "mail", [TOPIC], ACCEPT)
    while not member.assigned:
        member.keep_up()
    yield member
    member.leave()
    client.close()


def take(member: ShareGroupReader, answers: dict[int, int]) -> None:
    """Read until these offsets have come, and acknowledge each as it says."""
    missing = set(answers)
    while missing:
        member.keep_up()
        for found in member.poll():
            offset = found.record.offset
            member.answer = answers.get(offset, ACCEPT)
            member.finish(found.spot, offset + 1)
            missing.discard(offset)
    list(member.poll())


def test_acknowledgements_are_shown_record_by_record(broker: Broker, member: ShareGroupReader) -> None:
    broker.produce(TOPIC, "a", "b", "c", "d")
    group = wait_for_group_stable(broker, "mail", members=1, topics=[TOPIC])
    assert (group.type, group.owners) == ("share", {(TOPIC, 0): member.client.settings.client_id})
    assert broker.shared("mail").accepted == {}
    take(member, {0: ACCEPT, 1: REJECT, 2: ACCEPT, 3: ACCEPT})
    place = (TOPIC, 0)
    shared = assert_shared(broker, "mail", accepted={place: [0, 2, 3]}, archived={place: [1]}, released={}, lag=0)
    assert shared.lag == broker.lag("mail") == {place: 0}
    broker.produce(TOPIC, "e")
    assert broker.lag("mail") == {place: 1}
    with pytest.raises(AssertionError, match=r"- letters-0 accepted: \[0\]\n\+ letters-0 accepted: \[0, 2, 3\]"):
        broker.assert_shared("mail", accepted={place: [0]}, timeout_s=0.0)


def test_records_that_were_released_are_shown_with_their_deliveries(broker: Broker, member: ShareGroupReader) -> None:
    broker.produce(TOPIC, "a", "b")
    member.keep_up()
    read = [found.record.offset for found in member.poll(1)]
    assert read == [0]
    member.answer = RELEASE
    (found,) = member.poll(1)
    member.finish(found.spot, found.record.offset + 1)
    member.leave()
    broker.assert_shared("mail", released={(TOPIC, 0): [0, 1]}, accepted={}, lag=2)
    assert set(broker.shared("mail").released[TOPIC, 0].values()) == {1}


def test_a_lock_that_ends_without_waiting_gives_its_record_back(broker: Broker, member: ShareGroupReader) -> None:
    broker.produce(TOPIC, "a")
    member.keep_up()
    assert [found.record.offset for found in member.poll()] == [0]
    assert broker.shared("mail").released == {}
    broker.clock.advance(seconds=31)
    broker.assert_shared("mail", released={(TOPIC, 0): [0]})


def test_a_streams_group_is_waited_for_with_its_tasks(broker: Broker, connection: BrokerConnection) -> None:
    broker.create_topic("words", partitions=2)
    reading = Subtopology(
        subtopology_id="0",
        source_topics=["words"],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    beat = StreamsGroupHeartbeatRequest(
        group_id="count",
        member_id="one",
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=10_000,
        topology=Topology(epoch=0, subtopologies=[reading]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    connection.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["count"]))
    answer = connection.call(beat)
    epoch = answer.member_epoch
    broker.clock.advance(seconds=4)
    while not answer.active_tasks:
        assert answer.error_code == error_codes.NONE
        answer = connection.call(
            StreamsGroupHeartbeatRequest(
                group_id="count", member_id="one", member_epoch=epoch, endpoint_information_epoch=0
            )
        )
        epoch = answer.member_epoch
    group = broker.wait_for_group_stable("count", members=1, topics=["words"])
    assert (group.type, group.protocol, group.members[0].tasks) == ("streams", "sticky", ("0_0", "0_1"))
    assert group.members[0].epoch == group.epoch
    assert "with tasks 0_0 0_1" in str(group)
