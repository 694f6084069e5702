"""Groups of the consumer protocol (KIP-848) with real clients: live upgrades, regular expressions, failover, features.

Members that come and go are in `test_groups_under_load` and `test_groups_java`, for every protocol alike.
"""

import secrets
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as Creation

from conftest import NewTopic, StartBroker
from groups.test_groups_java import rows
from groups.test_groups_under_load import committed, read_to_the_end
from kpywire import error_codes
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from support.clusters import PROGRAMS, Cluster
from support.crowds import Crowd
from support.group_members import CooperativeMember, Ledger, Load, Member, NextProtocolMember
from support.group_requests import beating, coordinator_ready
from support.java_tools import Finished, JavaTools
from support.raw_client import RawClient, connect
from support.topics import create_topic
from support.waiting import eventually

PARTITIONS = 6
UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture
def group() -> str:
    return f"next-{secrets.token_hex(4)}"


def described(raw: RawClient, group: str) -> DescribedGroup:
    (answer,) = raw.call(ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1).groups
    assert isinstance(answer, DescribedGroup)
    return answer


def type_of(raw: RawClient, group: str) -> str:
    listed = {each.group_id: each.group_type for each in raw.call(ListGroupsRequest(), 5).groups}
    return str(listed[group])


def test_a_live_group_is_upgraded_and_downgraded_and_every_record_is_read_once(
    raw: RawClient, bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(PARTITIONS)
    ledger = Ledger()
    with ExitStack() as running:
        load = running.enter_context(Load(bootstrap_servers, topic, PARTITIONS))

        def join(kind: type[Member], name: str, *others: Member) -> Member:
            member = running.enter_context(kind(name, ledger, bootstrap_servers, topic, group))
            for each in (member, *others):
                each.wait_for(PARTITIONS // (1 + len(others)))
            return member

        old = join(CooperativeMember, "old")
        assert type_of(raw, group) == "classic"
        new = join(NextProtocolMember, "new", old)
        assert type_of(raw, group) == "consumer"
        assert sorted(each.member_type for each in described(raw, group).members) == [0, 1]
        old.leave()
        new.wait_for(PARTITIONS)
        again = join(CooperativeMember, "again", new)
        assert type_of(raw, group) == "consumer"
        new.leave()
        again.wait_for(PARTITIONS)
        assert type_of(raw, group) == "classic"
        ends = load.finish()
        read_to_the_end(ledger, ends, again)
        again.leave()
    assert ledger.lost(ends) == []
    assert ledger.repeated() == []
    assert committed(bootstrap_servers, group, topic) == ends


@pytest.mark.slow
def test_the_topics_of_a_regular_expression_are_read_also_those_that_come_later(
    raw: RawClient, bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    first = new_topic()
    config = {"bootstrap.servers": bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 500})
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    later = f"{first}-later"
    read: set[str] = set()

    def reads(topic: str) -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.add(message.topic())
        return topic in read

    try:
        consumer.subscribe([f"^{first}.*"])
        producer.produce(first, b"1")
        producer.flush(30)
        eventually(lambda: reads(first), "a record of the first topic")
        (member,) = described(raw, group).members
        assert member.subscribed_topic_regex
        create_topic(AdminClient({"bootstrap.servers": bootstrap_servers}), later, 1)
        producer.produce(later, b"2")
        producer.flush(30)
        eventually(lambda: reads(later), "a record of the later topic", within_s=60)
    finally:
        consumer.close()


def reads_on(servers: str, group: str, disturb: Callable[[], None]) -> None:
    """Two members read a topic that is written. After the disturbance they go on, and nothing is lost."""
    ledger = Ledger()
    with ExitStack() as running:
        load = running.enter_context(Load(servers, "t", PARTITIONS))
        members = [
            running.enter_context(NextProtocolMember(name, ledger, servers, "t", group)) for name in ("one", "two")
        ]
        for member in members:
            member.wait_for(3)
        eventually(lambda: ledger.count() > 500, "records to be read")
        disturb()
        known = ledger.count()
        eventually(lambda: ledger.count() > known + 500, "reading to go on", within_s=60)
        ends = load.finish()
        read_to_the_end(ledger, ends, *members)
        for member in members:
            member.leave()
    assert ledger.lost(ends) == []
    assert committed(servers, group, "t") == ends


@pytest.mark.own_process
def test_a_group_outlives_its_broker(start_broker: StartBroker, group: str) -> None:
    broker = start_broker(offsets_topic_num_partitions="5")
    create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "t", PARTITIONS)
    reads_on(broker.bootstrap_servers, group, lambda: broker.restart(kill=True))


@pytest.mark.own_process
def test_members_go_on_with_the_next_coordinator(tmp_path: Path, group: str) -> None:
    with Cluster(PROGRAMS["kpybroker"], tmp_path, properties={"broker.session.timeout.ms": "3000"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([Creation("t", PARTITIONS, 3)])["t"].result(30)

        def kill_the_coordinator() -> None:
            cluster.nodes[admin.describe_consumer_groups([group])[group].result(30).coordinator.id].kill()

        reads_on(cluster.bootstrap_servers, group, kill_the_coordinator)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_java_members_share_evenly_while_their_coordinators_are_killed(tmp_path: Path) -> None:
    members, partitions = 20, 100
    with Cluster(PROGRAMS["kpybroker"], tmp_path, properties={"broker.session.timeout.ms": "3000"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([Creation("t", partitions, 3)])["t"].result(30)

        coordinators: list[int] = []

        def find_the_coordinator() -> bool:
            for node in cluster.nodes.values():
                with suppress(OSError), RawClient(node.port) as client:
                    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["crowd"])
                    (found,) = client.call(request, 4).coordinators
                    coordinators.append(found.node_id)
                    return bool(found.error_code == error_codes.NONE)
            return False

        def restart_the_coordinator() -> None:
            eventually(find_the_coordinator, "a coordinator")
            node = cluster.nodes[coordinators[-1]]
            node.kill()
            node.launch()

        with Crowd(cluster.bootstrap_servers, "t", partitions, tmp_path / "crowd.log") as crowd:
            crowd.join(members // 2)
            crowd.join(members // 2, disturb=restart_the_coordinator)
            assert crowd.leave(members // 2, disturb=restart_the_coordinator).owned_twice == 0


def test_the_protocol_is_served_while_its_feature_is_finalised(start_broker: StartBroker) -> None:
    broker = start_broker()
    with connect(broker.bootstrap_servers) as raw:
        coordinator_ready(raw)

        def set_level(level: int, how: int) -> int:
            change = FeatureUpdateKey(feature="group.version", max_version_level=level, upgrade_type=how)
            answer = raw.call(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[change]), 2)
            return int(answer.error_code)

        def joins() -> int:
            return int(raw.call(beating("g", "m", 0, topics=["t"]), 1).error_code)

        assert joins() == error_codes.NONE
        assert set_level(0, UPGRADE) == error_codes.INVALID_UPDATE_VERSION
        assert set_level(2, UPGRADE) == error_codes.INVALID_UPDATE_VERSION
        assert set_level(0, SAFE_DOWNGRADE) == error_codes.NONE
        eventually(lambda: joins() == error_codes.UNSUPPORTED_VERSION, "the protocol to be off")
        assert described(raw, "g").error_code == error_codes.UNSUPPORTED_VERSION
        assert set_level(1, UPGRADE) == error_codes.NONE
        eventually(lambda: joins() == error_codes.NONE, "the protocol to be on")
        assert [each.member_id for each in described(raw, "g").members] == ["m"]


@pytest.mark.java
def test_kafkas_tools_show_and_configure_reset_and_delete_a_group(
    java_tools: JavaTools, raw: RawClient, bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(2)

    def run(tool: str, *words: str) -> Finished:
        finished = java_tools.run(tool, *words, "--bootstrap-server", bootstrap_servers)
        assert finished.exit_code == 0, finished.text
        return finished

    def alter(*words: str) -> Finished:
        name = ("--entity-type", "groups", "--entity-name", group, "--alter")
        return java_tools.run("kafka-configs", *name, *words, "--bootstrap-server", bootstrap_servers)

    groups = ("kafka-consumer-groups", "--group", group)
    with ExitStack() as running:
        member = running.enter_context(NextProtocolMember("member", Ledger(), bootstrap_servers, topic, group))
        member.wait_for(2)
        (state,) = rows(run(*groups, "--describe", "--state", "--verbose").out)
        assert (state["STATE"], state["ASSIGNMENT-STRATEGY"], state["#MEMBERS"]) == ("Stable", "uniform", "1")
        assert state["GROUP-EPOCH"] == state["TARGET-ASSIGNMENT-EPOCH"] == "2"
        (row,) = rows(run(*groups, "--describe", "--members", "--verbose").out)
        assert (row["#PARTITIONS"], row["CURRENT-EPOCH"], row["TARGET-EPOCH"]) == ("2", "2", "2")
        listed = run("kafka-consumer-groups", "--list", "--type", "consumer").out
        assert group in listed
        assert "not empty" in run(*groups, "--delete").text
        longer = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"
        assert alter("--add-config", longer).exit_code == 0
        refused = alter("--add-config", "consumer.session.timeout.ms=1000")
        assert "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive." in refused.text
        member.leave()
    run(*groups, "--topic", topic, "--reset-offsets", "--to-offset", "0", "--execute")
    assert committed(bootstrap_servers, group, topic, 2) == {0: 0, 1: 0}
    assert "successful" in run(*groups, "--delete").text
    assert raw.call(ListGroupsRequest(), 5).error_code == error_codes.NONE
    assert described(raw, group).error_code == error_codes.GROUP_ID_NOT_FOUND
