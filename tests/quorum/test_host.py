"""The shell around quorum and controller: writing before speaking, restarts, crashes, snapshots, failing disks."""

import errno
from collections.abc import Callable, Mapping
from random import Random

import pytest
from host_world import PATH, HostWorld, SlowScheduler, batches_of, create_request

from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.hosts.quorum.host import Timings
from kpybroker.hosts.quorum.metadata_log import metadata_log_path
from kpybroker.hosts.quorum.recovery import StartRefused, recover
from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy, is_due
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.raft.voters import Voter
from kpystorage import quorum_state
from kpystorage.recovery import Shutdown
from kpystorage.sim_disk import SimDisk, SimulatedCrash
from kpystorage.snapshot import SnapshotId
from kpywire import error_codes
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.topic_record import TopicRecord


def test_a_new_node_formats_leads_and_finalises_its_features() -> None:
    world = HostWorld()
    activated: list[bool] = []
    world.host.start(lambda: activated.append(world.host.is_active))
    world.scheduler.run()
    assert activated == [True]
    assert world.image.finalized_features == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert world.host.kraft_version == 1
    assert list(world.image.controllers) == [1]
    assert world.host.controller_id == 1
    state = quorum_state.read(world.disk, f"{metadata_log_path(PATH)}/quorum-state")
    assert state is not None
    assert (state.leader_id, state.leader_epoch, state.voted_id, state.version) == (1, 1, 1, 1)
    assert state.voted_directory_id == world.identity.voter.directory_id


def test_a_request_before_the_controller_is_ready_gets_an_error() -> None:
    world = HostWorld()
    (answer,) = world.send(world.registration())
    assert answer.error_code == error_codes.NOT_CONTROLLER
    assert world.start().ask(world.registration()).error_code == error_codes.NONE


def test_messages_are_sent_after_their_records_are_on_disk() -> None:
    scheduler = SlowScheduler()
    world = HostWorld(scheduler=scheduler)
    world.host.start()
    scheduler.run()
    assert not world.host.is_active
    for step in ("vote", "leader", "first batch"):
        assert len(scheduler.blocked) == 1, step
        assert not world.host.is_active
        scheduler.finish()
    assert world.host.is_active
    while scheduler.blocked:
        scheduler.finish()
    answers = world.send(world.registration())
    scheduler.run()
    while scheduler.blocked:
        assert not world.image.brokers
        assert answers == []
        before = len(world.news)
        scheduler.run()
        assert len(world.news) == before
        scheduler.finish()
    assert answers[0].error_code == 0
    assert list(world.image.brokers) == [1]


def test_subscribers_know_before_the_client_does() -> None:
    world = HostWorld().start().with_broker()
    seen: list[bool] = []
    world.host.send(create_request("orders"), lambda _response: seen.append("orders" in world.image.topics))
    world.scheduler.run()
    assert seen == [True]
    assert [created.name for created in world.news[-1].created_topics.values()] == ["orders"]


def test_requests_of_one_turn_share_one_flush() -> None:
    scheduler = SlowScheduler()
    world = HostWorld(scheduler=scheduler)
    world.host.start()
    scheduler.run()
    while scheduler.blocked:
        scheduler.finish()
    answers = [world.send(world.registration())]
    answers += [world.send(create_request(f"t{number}")) for number in range(50)]
    scheduler.run()
    assert len(scheduler.blocked) == 1
    scheduler.finish()
    assert not scheduler.blocked
    assert all(len(answer) == 1 for answer in answers)


def test_each_decision_is_a_batch_of_its_own() -> None:
    world = HostWorld().start().with_broker()
    before = len(batches_of(world))
    world.create("a", "b")
    batches = batches_of(world)[before:]
    assert [header.record_count for header in batches] == [4]


def test_a_restart_knows_everything_and_tells_the_first_subscribers_all_of_it() -> None:
    world = HostWorld().start().with_broker()
    world.create("orders", configs={"retention.ms": "5"})
    world.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch))
    state = world.image.state()
    again = world.again()
    assert again.image.state() == state
    assert not again.news
    again.start()
    first = again.news[0]
    assert [created.name for created in first.created_topics.values()] == ["orders"]
    assert first.features == {
        "metadata.version",
        "eligible.leader.replicas.version",
        "group.version",
        "share.version",
        "streams.version",
        "transaction.version",
    }
    assert (list(first.brokers), first.producer_ids) == ([1], True)
    assert again.image.next_offset > world.image.next_offset
    assert again.host.controller_id == 1
    assert batches_of(again)[-1].partition_leader_epoch == 2


def test_a_controller_that_is_gone_answers_not_controller() -> None:
    world = HostWorld().start().with_broker()
    open_request = world.send(create_request("late"))
    world.host.close()
    world.scheduler.run()
    (answer,) = open_request
    assert answer.topics[0].error_code == error_codes.NOT_CONTROLLER
    (after,) = world.send(create_request("later"))
    assert after.topics[0].error_code == error_codes.NOT_CONTROLLER
    assert world.failures == []


def test_a_request_that_commits_too_late_gets_an_error_and_stands() -> None:
    scheduler = SlowScheduler()
    world = HostWorld(scheduler=scheduler, timings=Timings(0, 100, 0, 0))
    world.host.start()
    scheduler.run()
    while scheduler.blocked:
        scheduler.finish()
    world.send(world.registration())
    scheduler.run()
    scheduler.finish()
    answers = world.send(DeleteTopicsRequest(topics=[], topic_names=["x"], timeout_ms=50))
    assert answers[0].responses[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    waiting = world.send(create_request("orders", timeout_ms=50))
    scheduler.run()
    scheduler.advance(200)
    assert waiting[0].topics[0].error_code in (error_codes.REQUEST_TIMED_OUT, error_codes.INVALID_REPLICATION_FACTOR)


def test_an_idle_controller_writes_a_no_op_and_a_busy_one_none() -> None:
    world = HostWorld(timings=Timings(500, 0, 0, 0)).start().with_broker()
    world.scheduler.advance(600)
    before = world.image.next_offset
    world.scheduler.advance(500)
    assert world.image.next_offset == before + 1
    for number in range(5):
        world.scheduler.advance(100)
        world.create(f"t{number}")
    assert world.image.next_offset == before + 1 + 5 * 2


def test_silent_brokers_are_fenced_by_the_clock() -> None:
    world = HostWorld(timings=Timings(0, 1_125, 0, 0)).start().with_broker()
    world.scheduler.advance(8_000)
    assert not world.image.brokers[1].fenced
    world.scheduler.advance(3_000)
    assert world.image.brokers[1].fenced


def test_a_controller_that_stood_still_reads_heartbeats_before_it_takes_a_broker_for_dead() -> None:
    world = HostWorld(timings=Timings(0, 1_125, 0, 0)).start().with_broker()
    world.scheduler.advance(8_000)
    world.scheduler._now_ms += 60_000  # the machine is suspended
    world.scheduler.advance(900)
    assert not world.image.brokers[1].fenced
    world.scheduler.advance(3_000)
    assert world.image.brokers[1].fenced, "it is as silent afterwards"


@pytest.mark.parametrize("lost", ["write", "flush"])
def test_a_failing_disk_ends_the_controller_with_one_line_and_without_lies(lost: str) -> None:
    world = HostWorld().start().with_broker()
    world.disk.failure = lambda: OSError(errno.EIO, "broken")
    world.disk.fail_at = world.disk.calls + (1 if lost == "write" else 2)
    answer = world.create("orders")
    assert answer.topics[0].error_code == error_codes.NOT_CONTROLLER
    assert "orders" not in world.image.topics
    assert len([line for line in world.failures if line.startswith("The metadata log")]) == 1
    assert world.create("more").topics[0].error_code == error_codes.NOT_CONTROLLER


def test_a_flush_that_fails_while_the_node_stops_leaves_no_clean_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error comes once: the flush of a clean stop would succeed without what was lost (found by simulation)."""
    world = HostWorld().start().with_broker()
    flushes: list[Callable[..., object]] = []
    monkeypatch.setattr(world.scheduler, "submit_urgent", lambda _flush, done: flushes.append(done))
    world.send(create_request("orders"))
    world.scheduler.run()
    world.host.close()
    (flushed,) = flushes
    flushed(None, OSError(errno.EIO, "broken"))
    world.directory.close()
    assert world.again().directory.shutdown is not Shutdown.CLEAN


def test_a_flush_that_somebody_else_began_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = HostWorld().start().with_broker()
    begin, attempts = world.metadata_log.begin_flush, []

    def under_way() -> object:
        attempts.append(len(attempts))
        return begin() if len(attempts) > 2 else None

    monkeypatch.setattr(world.metadata_log, "begin_flush", under_way)
    answers = world.send(create_request("orders"))
    world.scheduler.run()
    assert answers == []
    world.scheduler.advance(5)
    assert answers[0].topics[0].error_code == error_codes.NONE
    assert len(attempts) == 3


def test_a_decision_that_cannot_be_applied_stops_the_node_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    world = HostWorld().start().with_broker()
    twice = [TopicRecord(name="orders", topic_id=b"t" * 16)] * 2
    monkeypatch.setattr("kpybroker.machines.controller.controller.decider_of", lambda _name: lambda *_: (twice, None))
    answer = world.create("orders")
    assert answer.topics[0].error_code == error_codes.NOT_CONTROLLER
    (line,) = [line for line in world.failures if line.startswith("The metadata cannot be applied")]
    assert "A second TopicRecord" in line
    assert "orders" not in world.again().image.topics


def test_a_subscriber_that_fails_stops_the_node() -> None:
    world = HostWorld().start().with_broker()

    def fail(_image: object, _delta: object) -> None:
        raise ZeroDivisionError("defect")

    world.host.subscribe(fail)
    assert world.create("orders").topics[0].error_code == error_codes.NOT_CONTROLLER
    assert "The metadata cannot be applied: defect" in world.failures


def test_watchers_of_the_leader_are_called_apart_from_applying_metadata() -> None:
    world = HostWorld()

    def fail() -> None:
        raise ZeroDivisionError("defect")

    world.host.when_leader_changes(fail)
    world.host.start()
    while True:
        try:
            world.scheduler.run()
        except ZeroDivisionError:
            continue
        break
    assert world.host.is_active
    assert world.failures == []


def snapshot_world() -> HostWorld:
    return HostWorld(
        policy=SnapshotPolicy(max_new_record_bytes=2_000, delay_ms=0, retention_bytes=3_000), segment_bytes=4_000
    )


def test_snapshots_follow_the_log_and_let_it_go() -> None:
    world = snapshot_world().start().with_broker()
    for number in range(60):
        world.create(f"topic-{number}", configs={"retention.ms": str(number)})
    log = world.metadata_log
    snapshots = log.snapshots()
    assert snapshots
    assert snapshots[0].end_offset > 0
    assert log.start_offset >= snapshots[0].end_offset > batches_of(world)[0].base_offset - 1
    assert log.size_bytes < 20_000
    state = world.image.state()
    again = world.again()
    assert again.image.state() == state
    again.start().with_broker()
    again.create("after")
    assert "after" in again.image.topics
    assert again.host.kraft_version == 1
    assert not world.failures
    assert not again.failures


def test_a_snapshot_of_the_leader_that_has_just_come_takes_nothing_from_the_log() -> None:
    """It lies beyond the end of the log, which starts again behind it a moment later."""
    world = snapshot_world().start().with_broker()
    log, come = world.metadata_log, SnapshotId(1_000_000, 7)
    log.write_snapshot(come, [bytes(3_000)])
    for number in range(60):
        world.create(f"topic-{number}", configs={"retention.ms": str(number)})
    *older, newest = log.snapshots()
    assert newest == come
    assert 0 < older[0].end_offset <= log.start_offset < log.next_offset
    assert not world.failures


def test_a_snapshot_alone_is_the_whole_image() -> None:
    world = snapshot_world().start().with_broker()
    for number in range(20):
        world.create(f"topic-{number}")
    newest = world.metadata_log.snapshots()[-1]
    recovered = recover(world.metadata_log, world.identity.cluster_id, (), (), world.identity.voter, 0)
    assert recovered.loader.image.state() == world.image.state()
    assert recovered.history.voters == {1: world.identity.voter}
    assert newest.end_offset <= world.image.next_offset


def test_a_snapshot_is_due_by_time() -> None:
    world = HostWorld(policy=SnapshotPolicy(max_interval_ms=1_000, delay_ms=0)).start().with_broker()
    world.create("a")
    assert len(world.metadata_log.snapshots()) == 1
    world.scheduler.advance(1_500)
    world.create("b")
    assert len(world.metadata_log.snapshots()) == 2


def test_changes_that_come_together_are_all_in_the_snapshot_that_the_first_of_them_made_due() -> None:
    world = HostWorld(policy=SnapshotPolicy(max_new_record_bytes=900)).start().with_broker()
    for number in range(20):
        world.create(f"topic-{number}")
    first = len(world.metadata_log.snapshots())
    world.scheduler.advance(1_000)
    before = world.image.next_offset
    world.create("later")
    assert len(world.metadata_log.snapshots()) == first + 1
    assert world.metadata_log.snapshots()[-1].end_offset > before


def test_a_clean_stop_writes_the_snapshot_that_is_due_and_no_other() -> None:
    world = HostWorld(policy=SnapshotPolicy(max_new_record_bytes=900)).start().with_broker()
    for number in range(20):
        world.create(f"topic-{number}")
    first, state = len(world.metadata_log.snapshots()), world.image.state()
    for _ in range(2):
        world.host.close()
        world.host.write_due_snapshot()
        assert len(world.metadata_log.snapshots()) == first + 1
        assert world.metadata_log.snapshots()[-1].end_offset == world.image.next_offset
        world = world.again()
        assert world.image.state() == state


@pytest.mark.parametrize(
    ("new_bytes", "last_snapshot_bytes", "due"),
    [
        (127 << 10, 0, False),
        (128 << 10, 0, True),
        (199_000, 100_000, False),
        (200_000, 100_000, True),
        (20 << 20, 30 << 20, True),
    ],
)
def test_a_snapshot_is_due_where_replaying_would_cost_more(new_bytes: int, last_snapshot_bytes: int, due: bool) -> None:
    assert is_due(SnapshotPolicy(), new_bytes, 0, last_snapshot_bytes) is due


def test_a_directory_that_is_not_the_voters_lost_its_vote() -> None:
    world = HostWorld()
    path = f"{PATH}/meta.properties"
    properties = world.disk.read(path).decode().splitlines()
    other = [line if not line.startswith("directory.id") else "directory.id=" + "A" * 20 + "gA" for line in properties]
    world.disk.write(path, "\n".join(other).encode(), synchronize=True)
    with pytest.raises(StartRefused, match="lost its vote"):
        world.again()


def test_a_log_with_features_that_are_missing_here_is_refused_in_one_line() -> None:
    world = HostWorld().start()
    reign = world.host._reign
    assert reign is not None
    record = FeatureLevelRecord(name="later.version", feature_level=1)
    reign._append([record], None, 0)
    world.scheduler.run()
    with pytest.raises(StartRefused, match=r"^kpybroker does not have .*: later.version=1\. Lower them with "):
        world.again()


def formatted(levels: dict[str, int], voters: Mapping[int, Voter] | None) -> SimDisk:
    disk = SimDisk(Random(1))
    formatting = Formatting("c" * 22, 1, [PATH], PATH, levels, voters)
    format_directories(disk, formatting, Random(1), 1_700_000_000_000)
    return disk


def test_an_empty_log_that_will_begin_with_features_that_are_missing_here_is_refused() -> None:
    disk = formatted({"metadata.version": 30, "transaction.version": 2, "later.version": 1}, None)
    with pytest.raises(StartRefused, match=r"features: later.version=1\. Lower them with "):
        HostWorld(disk, overrides=STATIC)


STATIC = {
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
}


def test_a_voter_that_the_configuration_names_leads() -> None:
    world = HostWorld(formatted({"metadata.version": 30, "kraft.version": 0}, None), overrides=STATIC).start()
    world.with_broker().create("orders")
    assert world.host.kraft_version == 0
    state = quorum_state.read(world.disk, f"{metadata_log_path(PATH)}/quorum-state")
    assert state is not None
    assert (state.version, state.voters, state.leader_id) == (0, (1,), 1)
    assert "orders" in world.again().start().image.topics


def test_a_quorum_of_several_voters_is_refused() -> None:
    voters = {number: Voter(number, bytes([100 + number]) * 16) for number in (1, 2)}
    with pytest.raises(StartRefused, match=r"The voters of the metadata log are 1, 2; a node can only be the one"):
        HostWorld(formatted({"metadata.version": 30, "kraft.version": 1}, voters))


def test_a_log_that_was_removed_behind_its_snapshot_is_refused() -> None:
    world = snapshot_world().start().with_broker()
    for number in range(20):
        world.create(f"topic-{number}")
    world.host.close()
    world.directory.abandon()
    path = metadata_log_path(PATH)
    for name in world.disk.list_directory(path):
        if not name.endswith(".checkpoint"):
            world.disk.unlink(f"{path}/{name}")
    with pytest.raises(StartRefused, match=r"part of the log was removed"):
        HostWorld(world.disk)


def run_until_the_disk_dies(crash_at: int, seed: int) -> tuple[SimDisk, set[str], set[str]]:
    """A short life; the disk, the topics that were acknowledged, and those that were asked for."""
    disk = SimDisk(Random(seed))
    acknowledged: set[str] = set()
    asked: set[str] = set()

    def note(response: object) -> None:
        acknowledged.update(topic.name for topic in response.topics if topic.error_code == 0)  # type: ignore[attr-defined]

    disk.crash_at = crash_at
    try:
        world = HostWorld(
            disk, policy=SnapshotPolicy(max_new_record_bytes=900, delay_ms=0, retention_bytes=1_000), segment_bytes=700
        )
        world.start().with_broker()
        for number in range(12):
            name = f"t{number}"
            asked.add(name)
            world.host.send(create_request(name), note)
            if number % 3:
                world.scheduler.run()
        world.scheduler.run()
        disk.crash_at = disk.calls + 1
        disk.write("/dead", b"", synchronize=True)
    except SimulatedCrash:
        pass
    return disk, acknowledged, asked


def surviving_image(disk: SimDisk) -> MetadataImage:
    world = HostWorld(disk).start().with_broker()
    world.create("afterwards")
    assert "afterwards" in world.image.topics
    assert not [line for line in world.failures if line.startswith("The metadata log")]
    return world.image


def calls_of_a_whole_life() -> int:
    disk, acknowledged, _ = run_until_the_disk_dies(0, 1)
    assert len(acknowledged) == 12
    return disk.calls


@pytest.mark.slow
@pytest.mark.parametrize("power", [True, False], ids=["power failure", "process death"])
def test_acknowledged_records_survive_a_crash_at_every_call(power: bool) -> None:
    for crash_at in range(1, calls_of_a_whole_life() + 1):
        disk, acknowledged, asked = run_until_the_disk_dies(crash_at, crash_at)
        image = surviving_image(disk.after_power_failure() if power else disk.after_process_death())
        assert acknowledged <= set(image.topics) <= asked | {"afterwards"}, crash_at
