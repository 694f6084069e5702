"""Brokers that read and write ``__remote_log_metadata``: what was reported as written is known everywhere."""

import logging

import pytest
from metadata_world import PARTITIONS, USER_TOPIC, MetadataWorld, copy_of
from remote_log_histories import update

from kpybroker.hosts.remote_log.metadata_values import read_value, written_value
from kpybroker.hosts.remote_log.metadata_view import MetadataView, ViewWatch
from kpybroker.machines.remote_log.segments import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)
from kpystorage import scan
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.fetch import FetchRequest
from kpywire.messages.produce import ProduceRequest
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.record import Record, build_batch, read_records
from kpywire.remote_log_record import partition_of
from tests.replication.replica_world import TOPIC_ID

SOON_MS = 1_500


def ready(nodes: int = 3, *, topic: dict[str, str] | None = None) -> MetadataWorld:
    """A world in which every node knows what there is."""
    world = MetadataWorld(nodes, topic=topic)
    world.need()
    world.run(SOON_MS)
    return world


def deletion(state: int) -> RemotePartitionDelete:
    return RemotePartitionDelete(USER_TOPIC, "u", 0, RemotePartitionDeleteState(state), 0, 1)


def produced(world: MetadataWorld) -> list[tuple[int, int]]:
    return [(asks, asked) for asks, asked, request in world.requests if isinstance(request, ProduceRequest)]


# Writing and reading


@pytest.mark.parametrize("writer", [1, 2])
def test_a_reported_record_is_known_to_its_writer_at_once_and_to_all_soon(writer: int) -> None:
    world = ready()
    made = copy_of(1)
    seen: list[object] = []
    node = world.nodes[writer]
    assert node.metadata is not None
    node.metadata.write(made, lambda reason: seen.append((reason, node.state(made))))
    world.run(SOON_MS)
    assert seen == [(None, STARTED)]
    assert [each.state(made) for each in world.nodes.values()] == [STARTED] * 3
    assert produced(world) == ([] if writer == 1 else [(2, 1)])


@pytest.mark.parametrize("writer", [1, 2])
def test_records_that_are_written_together_are_in_one_batch(writer: int) -> None:
    world = ready()
    node, old, new = world.nodes[writer], copy_of(1), copy_of(2)
    for record in (old, update(old, FINISHED), new):
        node.write(record)
    world.run(SOON_MS)
    results: list[str | None] = []
    assert node.metadata is not None
    node.metadata.write_together((update(new, FINISHED), update(old, DELETING)), results.append)
    node.write(update(old, DELETED), results)
    assert results == []
    world.run(SOON_MS)
    assert results == [None, None]
    active = world.nodes[1].replica().led().log.active
    counts = [header.record_count for _, header in scan.headers(active.log, 0, active.size)]
    assert counts[-2:] == [2, 1]
    assert [(each.state(new), each.state(old)) for each in world.nodes.values()] == [(FINISHED, None)] * 3


def test_of_records_that_are_written_together_none_is_written_if_one_would_change_nothing() -> None:
    world = ready()
    node, old, new = world.nodes[1], copy_of(1), copy_of(2)
    node.write(new)
    world.run(SOON_MS)
    results: list[str | None] = []
    assert node.metadata is not None
    node.metadata.write_together((update(new, FINISHED), update(old, DELETING)), results.append)
    world.run(SOON_MS)
    assert results == ["no segment has its id"]
    assert [each.state(new) for each in world.nodes.values()] == [STARTED] * 3


def test_records_that_are_written_together_are_sent_again_together() -> None:
    world = ready()
    node, old, new = world.nodes[2], copy_of(1), copy_of(2)
    for record in (old, update(old, FINISHED), new):
        node.write(record)
    world.run(SOON_MS)
    world.cut = {(1, 2), (2, 1)}
    results: list[str | None] = []
    assert node.metadata is not None
    node.metadata.write_together((update(new, FINISHED), update(old, DELETING)), results.append)
    world.run(SOON_MS)
    assert results == []
    world.cut = set()
    world.run(60_000)
    assert results == [None]
    assert [(each.state(new), each.state(old)) for each in world.nodes.values()] == [(FINISHED, DELETING)] * 3


def test_nothing_is_known_before_the_partition_was_read_to_the_end_it_had() -> None:
    world = ready()
    world.nodes[1].write(copy_of(1))
    world.run(SOON_MS)
    world.nodes[3].stop()
    world.nodes[3].start()
    world.cut = {(1, 3)}
    world.need()
    world.run(SOON_MS)
    assert world.nodes[3].state(copy_of(1)) is False
    world.cut = set()
    world.run(5_000)
    assert world.nodes[3].state(copy_of(1)) is STARTED


def test_a_partition_without_records_is_known_to_have_none() -> None:
    world = ready()
    metadata = world.nodes[2].metadata
    assert metadata is not None
    segments = metadata.segments_of(USER_TOPIC, 0)
    assert segments is not None
    assert len(segments) == 0
    assert metadata.deletion_of(USER_TOPIC, 0) is None


def test_writes_of_one_moment_go_into_one_batch_and_keep_their_order() -> None:
    world = ready()
    results = [world.nodes[2].write(copy_of(number)) for number in range(1, 41)]
    world.run(SOON_MS)
    assert results == [[None]] * 40
    assert len(produced(world)) == 1
    stored = [read_value(each.value or b"") for each in read_records(world.contents(1))]
    assert stored == [copy_of(number) for number in range(1, 41)]


def test_a_record_that_depends_on_another_one_follows_it_in_the_next_batch() -> None:
    world = ready()
    made = copy_of(1)
    steps = [made, update(made, FINISHED), update(made, DELETING), update(made, DELETED), deletion(0), deletion(1)]
    results = [world.nodes[2].write(each) for each in steps]
    world.run(4 * SOON_MS)
    assert results == [[None]] * 6
    stored = [read_value(each.value or b"") for each in read_records(world.contents(1))]
    assert [each.state for each in stored if not isinstance(each, RemotePartitionDelete)] == [0, 1, 2, 3]
    metadata = world.nodes[3].metadata
    assert metadata is not None
    assert metadata.deletion_of(USER_TOPIC, 0) is RemotePartitionDeleteState.DELETE_PARTITION_STARTED


def test_a_record_that_would_change_nothing_is_refused_with_the_reason() -> None:
    world = ready()
    result = world.nodes[2].write(update(copy_of(1), FINISHED))
    world.run(SOON_MS)
    assert result == ["no segment has its id"]
    assert world.contents(1) == b""


def test_records_without_keys_are_written_as_kafka_writes_them() -> None:
    world = ready()
    world.nodes[1].write(copy_of(1))
    world.run(SOON_MS)
    (stored,) = read_records(world.contents(1))
    assert stored.key is None
    assert stored.value == written_value(copy_of(1))


def test_a_record_that_is_too_large_is_reported_and_those_beside_it_are_written() -> None:
    world = ready(topic={"max.message.bytes": "1000"})
    large = copy_of(2)._replace(custom_metadata=bytes(2_000))
    results = [world.nodes[2].write(each) for each in (copy_of(1), large, copy_of(3))]
    world.run(4 * SOON_MS)
    assert results == [[None], ["its record is larger than the topic allows"], [None]]


# Leaders that change


def test_a_write_survives_the_death_of_the_leader_that_took_it() -> None:
    world = ready()
    world.cut = {(1, 2), (1, 3)}
    result = world.nodes[2].write(copy_of(1))
    world.run(100)
    world.nodes[1].kill()
    world.cut = set()
    world.lead(3, isr=[2, 3])
    world.run(10_000)
    assert result == [None]
    assert [world.nodes[each].state(copy_of(1)) for each in (2, 3)] == [STARTED] * 2


def test_a_write_whose_answer_was_lost_is_reported_once_and_changes_nothing_twice() -> None:
    world = ready()
    world.cut = {(1, 2)}
    result = world.nodes[2].write(copy_of(1))
    world.run(2_000)
    assert result == []
    world.cut = set()
    world.run(10_000)
    assert result == [None]
    assert all(node.state(copy_of(1)) is STARTED for node in world.nodes.values())


def test_a_write_waits_for_enough_replicas_in_sync() -> None:
    world = ready(topic={"min.insync.replicas": "2"})
    world.nodes[2].kill()
    world.nodes[3].kill()
    world.lead(1, isr=[1])
    result = world.nodes[1].write(copy_of(1))
    world.run(5_000)
    assert result == []
    world.nodes[2].start()
    world.run(20_000)
    assert result == [None]


def test_a_leader_reads_its_own_log_and_others_poll_it_once_for_all_partitions() -> None:
    world = MetadataWorld(2, partitions=20)
    world.need(*range(60))
    world.run(2_000)
    world.requests.clear()
    world.run(10_000)
    polls = [
        request
        for asks, asked, request in world.requests
        if isinstance(request, FetchRequest) and request.replica_state.replica_id == -1 and (asks, asked) == (2, 1)
    ]
    assert 18 <= len(polls) <= 22
    used = {partition_of(USER_TOPIC, index, 20) for index in range(60)}
    assert all({each.partition for each in poll.topics[0].partitions} == used for poll in polls)
    assert not [asks for asks, _, request in world.requests if asks == 1 and isinstance(request, FetchRequest)]


def test_a_view_is_read_again_when_an_unclean_election_cut_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = ready(topic={"min.insync.replicas": "1"})
    world.nodes[1].write(copy_of(1))
    world.run(SOON_MS)
    world.nodes[3].kill()
    world.lead(1, isr=[1, 2])
    world.nodes[1].write(copy_of(2))
    world.run(SOON_MS)
    assert world.nodes[2].state(copy_of(2)) is STARTED
    world.nodes[1].kill()
    world.nodes[3].start()
    world.need()
    world.lead(3, isr=[3])
    world.nodes[3].write(copy_of(3))
    world.run(10_000)
    assert [world.nodes[2].state(copy_of(number)) for number in (1, 2, 3)] == [STARTED, None, STARTED]
    assert "is read again from the start" in caplog.text


def test_records_that_were_deleted_from_the_start_of_the_log_are_skipped() -> None:
    world = ready(2)
    for number in range(1, 5):
        world.nodes[1].write(copy_of(number))
        world.run(SOON_MS)
    world.nodes[2].stop()
    leader = world.nodes[1].replica().led()
    leader.log.advance_log_start(2)
    world.nodes[2].start()
    world.need()
    world.run(5_000)
    assert [world.nodes[2].state(copy_of(number)) for number in (1, 2, 3, 4)] == [None, None, STARTED, STARTED]


def test_a_node_that_catches_up_knows_what_was_reported_elsewhere_before() -> None:
    world = ready()
    made, reached = copy_of(1), []

    def catch_up(_reason: str | None) -> None:
        for node in world.nodes.values():
            assert node.metadata is not None
            node.metadata.catch_up(USER_TOPIC, 0, lambda node=node: reached.append(node.state(made)))

    world.cut = {(1, 3), (3, 1)}
    world.lead(1, isr=[1, 2])
    assert world.nodes[2].metadata is not None
    world.nodes[2].metadata.write(made, catch_up)
    world.run(SOON_MS)
    assert reached == [STARTED] * 2
    world.cut = set()
    world.run(5_000)
    assert reached == [STARTED] * 3


# Damage


def test_records_that_cannot_be_read_are_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = ready(2)
    replica = world.nodes[1].replica()
    values = [b"", None, b"\x01\x09\x00", b"\x01\x00\x05", written_value(copy_of(1))]
    batch = build_batch([Record(timestamp=0, key=None, value=value) for value in values])
    replica.led().append(batch, replica.topic.validation, world.scheduler.now_ms())
    replica.changed()
    world.run(SOON_MS)
    assert [node.state(copy_of(1)) for node in world.nodes.values()] == [STARTED] * 2
    errors = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 2
    assert all("records that cannot be read are left out" in each for each in errors)


@pytest.mark.parametrize("codec", [0, 1, 3])
def test_batches_of_other_producers_are_read_compressed_or_not(codec: int) -> None:
    world = ready(2)
    replica = world.nodes[1].replica()
    records = [Record(timestamp=0, key=b"k", value=written_value(copy_of(number))) for number in range(200)]
    batch = build_batch(records, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
    replica.led().append(memoryview(bytearray(batch)), replica.topic.validation, world.scheduler.now_ms())
    replica.changed()
    world.run(SOON_MS)
    metadata = world.nodes[2].metadata
    assert metadata is not None
    segments = metadata.segments_of(USER_TOPIC, 0)
    assert segments is not None
    assert len(segments) == 200


@pytest.mark.parametrize("records", [1, 400])
def test_records_are_applied_in_steps_however_small_or_large_their_batches_are(records: int) -> None:
    view = MetadataView(0, ViewWatch(lambda *_: None, lambda _: None))
    values = [Record(timestamp=0, key=None, value=written_value(copy_of(number))) for number in range(400)]
    data = b"".join(build_batch(values[at : at + records], base_offset=at) for at in range(0, 400, records))
    assert sum(1 for _ in view.steps(data)) >= 400 // 32
    assert view.next_offset == 400


# Which partitions, and the callbacks


def test_a_change_is_reported_when_it_is_known_and_so_is_the_end_of_the_reading() -> None:
    world = MetadataWorld(2)
    node = world.nodes[2]
    world.nodes[1].write(copy_of(1))
    world.run(SOON_MS)
    assert node.changes == []
    world.need()
    world.run(SOON_MS)
    assert node.changes == [(USER_TOPIC, 0)]
    world.nodes[1].write(copy_of(2, partition=1))
    world.run(SOON_MS)
    assert node.changes == [(USER_TOPIC, 0), (USER_TOPIC, 1)]


def test_a_partition_that_is_not_needed_any_more_is_forgotten() -> None:
    world = ready(2)
    metadata = world.nodes[2].metadata
    assert metadata is not None
    metadata.release(USER_TOPIC, 0)
    world.run(SOON_MS)
    assert metadata.segments_of(USER_TOPIC, 0) is None


def test_the_leader_of_the_metadata_knows_all_that_is_in_its_partitions() -> None:
    world = MetadataWorld(2)
    made = copy_of(1)
    for each in (made, deletion(0)):
        world.nodes[2].write(each)
    world.run(2 * SOON_MS)
    leading, other = world.nodes[1].metadata, world.nodes[2].metadata
    assert leading is not None
    assert other is not None
    assert [each.topic_id for each in leading.led()] == [USER_TOPIC]
    assert list(leading.led_deletions()) == [deletion(0)]
    assert (leading.is_led_here(USER_TOPIC, 0), other.is_led_here(USER_TOPIC, 0)) == (True, False)
    assert list(other.led()) == []


# The topic itself


def asked_topics(world: MetadataWorld, node_id: int) -> list[CreateTopicsRequest]:
    return [request for request, _ in world.nodes[node_id].asked]


def without_topic(nodes: int = 2, **overrides: str) -> MetadataWorld:
    world = MetadataWorld(nodes)
    for node in world.nodes.values():
        node.stop()
    world.overrides = {"remote.log.metadata.manager.impl.prefix": "rlmm.config.", **overrides}
    world.records.append(RemoveTopicRecord(topic_id=TOPIC_ID))
    for node in world.nodes.values():
        node.start()
    return world


def test_the_topic_is_made_when_the_first_partition_needs_it() -> None:
    world = without_topic()
    world.run(SOON_MS)
    assert asked_topics(world, 1) == []
    world.need()
    world.run(10_000)
    (request,) = asked_topics(world, 1)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__remote_log_metadata", 50, 2)
    assert {each.name: each.value for each in topic.configs} == {
        "cleanup.policy": "delete",
        "min.insync.replicas": "2",
        "remote.storage.enable": "false",
        "retention.ms": "-1",
    }


def test_a_configured_replication_factor_is_not_lowered() -> None:
    world = without_topic(**{"rlmm.config.remote.log.metadata.topic.replication.factor": "5", PARTITIONS: "7"})
    world.need()
    world.run(100)
    (request,) = asked_topics(world, 1)
    assert (request.topics[0].replication_factor, request.topics[0].num_partitions) == (5, 7)


def test_a_topic_that_was_deleted_and_made_again_is_read_and_gets_the_writes_that_wait() -> None:
    world = MetadataWorld(1)
    world.need()
    world.nodes[1].write(copy_of(1))
    world.run(SOON_MS)
    assert world.nodes[1].state(copy_of(1)) is STARTED
    world.tell(RemoveTopicRecord(topic_id=TOPIC_ID))
    result = world.nodes[1].write(copy_of(2))
    world.run(SOON_MS)
    assert world.nodes[1].state(copy_of(1)) is False
    assert len(asked_topics(world, 1)) == 1
    again = world.partition(0, [1])
    again.topic_id = bytes(reversed(TOPIC_ID))
    world.tell(TopicRecord(name="__remote_log_metadata", topic_id=again.topic_id), again)
    world.run(SOON_MS)
    assert result == [None]
    assert [world.nodes[1].state(copy_of(number)) for number in (1, 2)] == [None, STARTED]


def test_partitions_that_are_added_to_the_topic_are_not_used(caplog: pytest.LogCaptureFixture) -> None:
    world = ready(1)
    world.tell(world.partition(1, [1]))
    results = [world.nodes[1].write(copy_of(number, partition=number)) for number in range(20)]
    world.run(SOON_MS)
    assert results == [[None]] * 20
    assert "__remote_log_metadata-1 is not used: the topic has to keep its 1 partitions" in caplog.text


def test_a_topic_with_another_number_of_partitions_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    world = MetadataWorld(1, partitions=2)
    world.nodes[1].stop()
    world.overrides = {PARTITIONS: "3"}
    world.nodes[1].start()
    world.need()
    world.run(SOON_MS)
    assert world.nodes[1].state(copy_of(1)) is False
    assert f"has 2 partitions, not 3, so it is not used: set {PARTITIONS}=2" in caplog.text
