"""Nodes that follow one another: after whatever happened, their logs are the same bytes."""

import logging
from typing import Any

import pytest
from replica_world import TOPIC, TOPIC_ID, World

from kpybroker.machines.partition.follower import PartitionFollower
from kpybroker.machines.replica_fetcher import FetchState
from kpywire.messages.fetch import FetchRequest
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord

QUICK_MS = 20
SEGMENTS = {"segment.bytes": "1048576", "retention.ms": "-1"}


def fetches(world: World, asks: int) -> list[FetchRequest]:
    return [request for caller, _, request in world.requests if caller == asks and isinstance(request, FetchRequest)]


def state_of(world: World, node_id: int, index: int = 0) -> FetchState:
    (found,) = [
        following
        for feed in world.nodes[node_id].fetchers
        for key, following in feed.fetcher.followings.items()
        if key == (TOPIC_ID, index)
    ]
    return found.state


# Following.


def test_produced_records_reach_all_replicas_and_commit_with_the_next_fetch() -> None:
    world = World(3)
    leader = world.nodes[1]
    leader.produce(3)
    world.run(QUICK_MS)
    assert [node.log().end.offset for node in world.nodes.values()] == [3, 3, 3]
    assert leader.high_watermark() == 3
    world.settle()
    world.assert_equal()


def test_transactions_control_batches_and_producers_are_followed() -> None:
    world = World(2)
    leader = world.nodes[1]
    for sequence in range(3):
        leader.produce(2, producer_id=9, producer_epoch=0, base_sequence=sequence * 2, transactional=True)
        leader.produce(1)
    world.settle()
    held = world.nodes[2].replica().held()
    assert held.last_stable_offset().offset == 0
    leader.end_transaction(9, commit=False)
    leader.produce(1, producer_id=8, producer_epoch=0, base_sequence=0)
    world.settle()
    world.assert_equal()
    assert held.last_stable_offset().offset == 11
    assert [each.first_offset for each in held.log.aborted_transactions(0, 11)] == [0]


def test_one_fetch_is_in_flight_and_names_only_changed_partitions() -> None:
    world = World(2, partitions=40)
    world.run(1_000)
    world.requests.clear()
    for index in (3, 17, 39):
        world.nodes[1].produce(1, index)
    world.run(QUICK_MS)
    named = [p.partition for request in fetches(world, 2) for topic in request.topics for p in topic.partitions]
    assert sorted(named) == [3, 17, 39]
    world.run(1_000)
    world.requests.clear()
    world.run(5_000)
    feeds = len(list(world.nodes[2].fetchers))
    assert 9 * feeds <= len(fetches(world, 2)) <= 11 * feeds, "an idle leader lets a follower wait for half a second"
    assert all(not request.topics for request in fetches(world, 2))


def test_a_large_backlog_comes_in_answers_of_bounded_size_and_pieces() -> None:
    overrides = {"replica.fetch.max.bytes": "300000", "replica.fetch.response.max.bytes": "1000000"}
    world = World(2, partitions=5, overrides=overrides)
    world.nodes[2].stop()
    for _ in range(20):
        for index in range(5):
            world.nodes[1].produce(1, index, value_bytes=70_000)
    world.requests.clear()
    world.nodes[2].start()
    world.settle()
    for index in range(5):
        world.assert_equal(index)
    assert all(request.max_bytes == 1_000_000 for request in fetches(world, 2))


def test_requests_ask_for_what_is_configured() -> None:
    world = World(
        2,
        overrides={
            "replica.fetch.min.bytes": "17",
            "replica.fetch.wait.max.ms": "77",
            "replica.fetch.max.bytes": "1234",
            "replica.fetch.response.max.bytes": "5678",
        },
    )
    world.run(100)
    request = fetches(world, 2)[0]
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (17, 77, 5678)
    assert request.topics[0].partitions[0].partition_max_bytes == 1234
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 7)


def test_several_fetchers_share_the_partitions_and_their_number_may_change() -> None:
    world = World(2, partitions=30, overrides={"num.replica.fetchers": "3"})
    node = world.nodes[2]
    assert len(list(node.fetchers)) >= 3
    assert sum(len(feed.fetcher.followings) for feed in node.fetchers) == 30
    node.config = node.config.with_dynamic({"num.replica.fetchers": "1"}, {})
    node.fetchers.reconfigure()
    for index in range(30):
        world.nodes[1].produce(1, index)
    world.settle()
    for index in range(30):
        world.assert_equal(index)
    assert len(list(node.fetchers)) <= 2


def test_a_partition_that_is_new_is_asked_for_at_once_though_the_leader_keeps_another_request_waiting() -> None:
    world = World(2, partitions=1)
    world.run(2_050)
    for index in range(1, 6):
        world.tell(world.partition(index, [1, 2]))
        world.run(30)
        world.nodes[1].produce(1, index)
        world.run(70)
        assert world.nodes[1].high_watermark(index) == 1, "committed long before the request that waits is answered"
    assert len(list(world.nodes[2].fetchers)) == 2


# Leaders come and go.


def test_a_follower_becomes_the_leader_and_the_leader_follows_it() -> None:
    world = World(3)
    world.nodes[1].produce(5)
    world.settle()
    for turn, leader in enumerate((2, 3, 1, 2)):
        world.lead(leader)
        assert world.nodes[leader].high_watermark() >= 5 + turn, "it does not go back"
        world.nodes[leader].produce(1)
        world.settle()
        world.assert_equal()
    epochs = world.nodes[1].log().epochs.entries()
    assert epochs == [(0, 0), (1, 5), (2, 6), (3, 7), (4, 8)]


def test_a_follower_that_hears_of_an_epoch_before_its_leader_tries_again_soon() -> None:
    world = World(2)
    world.settle()
    world.lead(1, only=(2,))
    world.run(100)
    world.tell()
    world.nodes[1].produce(1)
    world.run(200)
    assert world.nodes[1].high_watermark() == 1


def test_a_fenced_follower_waits_for_the_metadata() -> None:
    world = World(2)
    world.settle()
    world.lead(1, only=(1,))
    world.run(600)
    assert state_of(world, 2) is FetchState.FAILED
    world.nodes[1].produce(1)
    world.tell()
    world.settle()
    world.assert_equal()


def test_no_fetch_is_sent_while_there_is_no_leader() -> None:
    world = World(2)
    world.settle()
    world.lead(-1)
    world.run(600)
    world.requests.clear()
    world.run(2_000)
    assert not fetches(world, 2)
    assert not list(world.nodes[2].fetchers)
    assert world.nodes[2].replica().followed().epoch == 1
    world.lead(2)
    world.nodes[2].produce(1)
    world.settle()
    world.assert_equal()


def test_a_lost_connection_is_made_again() -> None:
    world = World(2)
    world.nodes[1].produce(1)
    world.settle()
    for way in list(world.ways):
        way.lose()
    world.nodes[1].produce(1)
    world.run(100)
    assert world.nodes[2].log().end.offset == 2
    world.cut = {(1, 2), (2, 1)}
    for way in list(world.ways):
        way.lose()
    world.nodes[1].produce(1)
    world.run(5_000)
    world.cut = set()
    world.run(1_100)
    world.assert_equal()


def test_a_leader_that_listens_elsewhere_is_asked_there() -> None:
    world = World(2)
    world.settle()
    before = list(world.nodes[2].fetchers)
    world.tell(world.registration(1, port=9999))
    world.run(10)
    (feed,) = world.nodes[2].fetchers
    assert feed not in before
    assert feed.address == ("node1", 9999)
    world.nodes[1].produce(2)
    world.settle()
    world.assert_equal()


def test_a_connection_that_is_given_up_applies_nothing_more_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2, partitions=4, overrides={"num.replica.fetchers": "1"})
    world.settle()
    (before,) = {feed for feed in world.nodes[2].fetchers if feed.fetcher.followings}
    appended_ms: list[int] = []
    append = PartitionFollower.append

    def noted(self: PartitionFollower, *arguments: Any) -> int:
        if not appended_ms:
            world.tell(world.registration(1, port=9999), only=(2,))
        appended_ms.append(world.scheduler.now_ms())
        return append(self, *arguments)

    monkeypatch.setattr(PartitionFollower, "append", noted)
    for index in range(4):
        world.nodes[1].produce(index=index)
    world.settle()
    assert appended_ms.count(appended_ms[0]) == 1, "the others come over the new connection"
    assert not before.fetcher.followings
    for index in range(4):
        world.assert_equal(index)


def test_a_partition_that_cannot_be_followed_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin = PartitionFollower.begin

    def broken(self: PartitionFollower, now_ms: int) -> None:
        if self.log.partition == 1:
            raise RuntimeError("something nobody thought of")
        begin(self, now_ms)

    monkeypatch.setattr(PartitionFollower, "begin", broken)
    world = World(2, partitions=4)
    for index in range(4):
        world.nodes[1].produce(index=index)
    world.settle()
    assert [world.nodes[2].log(index).end.offset for index in range(4)] == [1, 0, 1, 1]
    assert f"{TOPIC}-1 is not fetched" in caplog.text
    monkeypatch.undo()
    world.lead(1, index=1)
    world.settle()
    world.assert_equal(1)


def test_a_partition_that_is_taken_from_a_node_or_deleted_is_not_asked_for_any_more() -> None:
    world = World(3, partitions=2)
    world.nodes[1].produce(1)
    world.settle()
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1, 2], isr=[1, 2]))
    world.run(600)
    (feed,) = world.nodes[3].fetchers
    assert list(feed.fetcher.followings) == [(TOPIC_ID, 1)]
    world.tell(RemoveTopicRecord(topic_id=TOPIC_ID))
    world.run(600)
    assert not list(world.nodes[3].fetchers)
    assert not list(world.nodes[2].fetchers)


def test_a_replica_that_is_added_becomes_what_the_others_are() -> None:
    world = World(3)
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1, 2], isr=[1, 2]))
    world.nodes[1].produce(7)
    world.settle()
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1, 2, 3]))
    world.settle()
    world.assert_equal()


# KIP-101, KIP-279.


def test_kip_101_a_restarted_follower_does_not_cut_what_its_high_watermark_has_not_reached() -> None:
    world = World(2)
    world.nodes[1].produce(1)
    world.settle()
    world.cut = {(2, 1)}  # the next fetch, which would tell it of the high watermark
    world.nodes[1].produce(1)
    world.run(5)
    follower = world.nodes[2]
    assert (follower.log().end.offset, follower.high_watermark()) == (2, 1)
    follower.kill()
    follower.start()
    assert follower.log().end.offset == 2
    world.nodes[1].kill()
    world.lead(2)
    follower.produce(1)
    world.cut = set()
    world.nodes[1].start()
    world.settle()
    world.assert_equal()
    assert follower.log().end.offset == 3


def test_kip_101_replicas_that_wrote_different_things_at_one_offset_become_the_same() -> None:
    world = World(2)
    world.nodes[1].produce(1)
    world.settle()
    world.cut = {(1, 2), (2, 1)}
    world.nodes[1].produce(2)  # which only it has
    world.nodes[1].kill(power_fails=False)
    world.lead(2)
    world.nodes[2].produce(1)  # at the same offset
    world.cut = set()
    world.nodes[1].start()
    world.settle()
    world.assert_equal()
    assert world.nodes[1].log().epochs.entries() == [(0, 0), (1, 1)]


def test_kip_279_leaders_that_follow_quickly_upon_one_another_leave_no_difference() -> None:
    world = World(3)
    world.nodes[1].produce(2)
    world.settle()
    world.cut = {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)}
    for leader in (1, 2, 1, 3, 2):
        world.lead(leader)
        world.nodes[leader].produce(1 + leader)
    world.lead(3)
    world.cut = set()
    world.settle(6_000)
    world.assert_equal()
    assert world.nodes[3].log().end.offset == 2 + 4


def test_kip_279_an_epoch_that_the_leader_never_saw_is_cut_step_by_step() -> None:
    world = World(2)
    world.nodes[1].produce(1)
    world.settle()
    world.cut = {(1, 2), (2, 1)}
    for leader, count in ((1, 3), (2, 1), (1, 3), (2, 1), (1, 3)):
        world.lead(leader)
        world.nodes[leader].produce(count)
    world.lead(2)
    world.nodes[2].produce(1)
    world.requests.clear()
    world.cut = set()
    world.settle(6_000)
    world.assert_equal()


def test_kip_320_a_leader_that_is_one_no_more_answers_nothing_that_is_kept() -> None:
    world = World(3)
    world.nodes[1].produce(1)
    world.settle()
    world.lead(2, only=(2, 3))  # node 1 does not know, and goes on
    world.nodes[1].produce(4)
    world.nodes[2].produce(1)
    world.run(2_000)
    assert world.nodes[3].log().end.offset == 2
    world.tell()
    world.settle()
    world.assert_equal()
    assert world.nodes[1].log().end.offset == 2


# Out of range.


def test_an_unclean_election_cuts_even_what_was_committed_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = World(2)
    world.nodes[1].produce(1)
    world.settle()
    world.nodes[2].stop()
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]))
    world.nodes[1].produce(9)
    world.settle(31_000)  # until then it might be on its way back into the in-sync set
    world.nodes[1].produce(1)
    assert world.nodes[1].high_watermark() == 11
    world.nodes[1].stop()
    world.nodes[2].start()
    world.lead(2, isr=[2])
    world.nodes[2].produce(2)
    world.nodes[1].start()
    world.settle()
    world.assert_equal()
    assert "below its high watermark 11" in caplog.text


def test_a_cut_below_the_high_watermark_holds_in_the_next_role_whatever_was_written_down_before() -> None:
    world = World(3)
    world.nodes[1].produce(1)
    world.settle()
    for node_id in (2, 3):
        world.nodes[node_id].stop()
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]))
    world.nodes[1].produce(9)
    world.settle(31_000)
    world.nodes[1].produce(1)
    assert world.nodes[1].high_watermark() == 11
    world.nodes[1].replicas.checkpoint_high_watermarks()
    world.cut = {(3, 2), (2, 3)}  # so what is written now is not committed
    for node_id in (2, 3):
        world.nodes[node_id].start()
    world.lead(2, isr=[2, 3])
    world.nodes[2].produce(20)
    world.run(1_500)
    assert (world.nodes[1].log().end.offset, world.nodes[1].high_watermark()) == (21, 1)
    world.cut = {(1, 2), (2, 1), (3, 2), (2, 3)}
    world.lead(2, isr=[2, 3])
    assert world.nodes[1].high_watermark() == 1


def test_a_leader_that_returns_forgets_what_it_knew_of_followers() -> None:
    """It reads of both epochs at once (found by simulation, seed 8022)."""
    world = World(3)
    world.nodes[1].produce(1)
    world.settle()
    world.cut = {(1, 2), (2, 1)}
    world.nodes[1].produce(9)
    world.run(100)
    assert [world.nodes[node_id].log().end.offset for node_id in (1, 2, 3)] == [10, 1, 10]
    world.lead(2, only=(2, 3))
    world.run(1_000)
    assert world.nodes[3].log().end.offset == 1
    world.cut = {(1, 2), (2, 1), (1, 3), (3, 1)}
    world.lead(1, isr=[1, 3])
    world.run(100)
    assert world.nodes[1].high_watermark() == 1
    world.cut = set()
    world.settle()
    world.assert_equal()
    assert world.nodes[1].high_watermark() == 10


@pytest.mark.parametrize("produced", [0, 2])
def test_a_follower_that_was_away_until_its_records_were_deleted_starts_over(produced: int) -> None:
    world = World(2, topic=SEGMENTS)
    world.nodes[1].produce(3)
    world.settle()
    world.nodes[2].stop()
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]))
    world.nodes[1].produce(20)
    log = world.nodes[1].log()
    log.advance_log_start(23)
    log.roll(world.scheduler.now_ms())
    assert log.delete_old_segments(world.scheduler.now_ms(), 23)
    if produced:
        world.nodes[1].produce(produced)
    world.nodes[2].start()
    world.settle()
    world.assert_equal()
    assert world.nodes[2].log().log_start_offset == 23


def test_a_log_start_within_a_batch_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(2, topic=SEGMENTS)
    world.nodes[2].stop()
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]))
    world.nodes[1].produce(10)
    world.nodes[1].produce(10)
    world.nodes[1].log().advance_log_start(13)
    world.nodes[2].start()
    world.settle()
    log = world.nodes[2].log()
    assert (log.log_start_offset, log.end.offset, log.segments[0].base_offset) == (13, 20, 10)
    assert "begins at offset 10, with the batch that offset 13 lies in" in caplog.text
    world.lead(2)
    world.nodes[2].produce(1)
    world.settle()
    assert world.nodes[1].log().end.offset == 21


def world_with_deleted_records() -> World:
    """Its leader's log begins at 7 of 10 now, and no follower has heard of that."""
    world = World(2, topic=SEGMENTS)
    for _ in range(5):
        world.nodes[1].produce(2)
    world.settle()
    replica = world.nodes[1].replica()
    replica.led().log.advance_log_start(7)
    replica.log_start_moved()
    return world


def test_deleted_records_are_deleted_everywhere_and_the_leader_hears_how_far() -> None:
    world = world_with_deleted_records()
    world.settle()
    assert world.nodes[2].log().log_start_offset == 7
    sent = [p for request in fetches(world, 2) for topic in request.topics for p in topic.partitions]
    assert sent[-1].log_start_offset == 7


def test_a_leader_hears_of_a_log_start_when_it_outlasts_the_power() -> None:
    world = world_with_deleted_records()
    while not any(
        asked.log_start_offset == 7
        for request in fetches(world, 2)
        for topic in request.topics
        for asked in topic.partitions
    ):
        assert world.nodes[2].log().log_start_offset in (0, 7)
        world.run(1)
    world.nodes[2].kill(power_fails=True)
    world.nodes[2].start()
    assert world.nodes[2].log().log_start_offset == 7


def test_no_log_start_beyond_the_end_of_a_truncated_log_is_saved() -> None:
    world = World(2, topic=SEGMENTS)
    world.nodes[1].produce(10)
    world.settle()
    found, key = world.nodes[2].log(), (TOPIC, 0)
    found.directory.promise_log_start(found, 7)
    found.directory.render_log_starts()
    assert found.directory.log_starts[key] == 7
    found.truncate_fully_and_start_at(5, world.scheduler.now_ms())
    found.directory.render_log_starts()
    assert found.directory.log_starts[key] == found.log_end_offset == 5


# The throttle.


def test_a_follower_that_catches_up_is_held_to_the_rate_and_one_in_sync_is_not() -> None:
    overrides = {"replica.fetch.max.bytes": "200000"}
    world = World(2, partitions=2, topic={"follower.replication.throttled.replicas": "0:2"}, overrides=overrides)
    node = world.nodes[2]
    node.stop()
    for index in range(2):
        world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, isr=[1]))
    world.run(31_000)
    for _ in range(100):
        world.nodes[1].produce(1, 0, value_bytes=10_000)
        world.nodes[1].produce(1, 1, value_bytes=10_000)
    node.start()
    node.config = node.config.with_dynamic({"follower.replication.throttled.rate": "100000"}, {})
    world.run(3_000)
    assert node.log(1).end.offset == 100, "the other one is not held up"
    ends = [0]
    while node.log(0).end.offset < 100:
        world.run(1_000)
        ends.append(node.log(0).end.offset)
    assert 7 <= len(ends) <= 12, "100 records of 10 kB, at 100 kB/s"
    world.settle()
    world.nodes[1].produce(1, 0)
    world.run(QUICK_MS)
    assert node.log(0).end.offset == 101, "it is in sync by now, and not throttled"
    world.settle()
    world.assert_equal()


def test_throttled_replicas_follow_the_topics_configuration() -> None:
    world = World(2)
    node = world.nodes[2]
    assert not node.fetchers._is_throttled(node.replica())
    world.tell(
        ConfigRecord(resource_type=2, resource_name="t", name="follower.replication.throttled.replicas", value="*")
    )
    assert node.fetchers._is_throttled(node.replica())
