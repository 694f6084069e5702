"""The shell around the quorum never falls silent: what fails ends one answer, or the node with one line."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from host_world import PATH, HostWorld

from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy
from kpybroker.machines.raft.messages import Fetch, FetchResponse, Known, OffsetAndEpoch, ReplicaKey
from kpybroker.machines.raft.wire_form import response_from_wire, to_wire
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.errors import OffsetOutOfRange
from kpywire import error_codes
from kpywire.batch import batch_headers

OBSERVER = ReplicaKey(9, b"o" * 16)
LISTENER = "CONTROLLER"


class BusyScheduler(ManualScheduler):
    """Its ordinary threads have something to do already."""

    def submit_urgent(self, work: Callable[[], Any], done: Callable[..., object]) -> None:
        super().submit_blocking(work, done)

    def submit_blocking(self, work: Callable[[], Any], done: Callable[..., object]) -> None:
        pass


def fetch_message(world: HostWorld, offset: int) -> Any:
    return to_wire(Fetch(1, OBSERVER, offset, 1, -1), world.identity.cluster_id, ())


def answer_from(world: HostWorld, offset: int) -> FetchResponse:
    """The answer to a replica when the quorum has decided to send it records from ``offset`` on."""
    answers: list[Any] = []
    ticket = fetch_message(world, offset), answers.append, LISTENER
    world.host._quorum._talks.answer(ticket, FetchResponse(Known(1, 1)), offset)
    world.create("orders")
    (answer,) = answers
    response, records = response_from_wire(answer)
    assert isinstance(response, FetchResponse)
    assert not records
    return response


@pytest.mark.parametrize(("max_bytes", "batches"), [(0, 1), (-1, 1), (1 << 20, 4)])
def test_a_replica_gets_as_much_as_it_asks_for_and_one_batch_in_any_case(max_bytes: int, batches: int) -> None:
    world = HostWorld().start().with_broker()
    start = world.metadata_log.next_offset
    for name in ("a", "b", "c", "d"):
        world.create(name)
    fetch = Fetch(1, OBSERVER, start, 1, -1, max_bytes=max_bytes)
    answers: list[Any] = []
    world.host.asked(to_wire(fetch, world.identity.cluster_id, ()), answers.append, LISTENER)
    world.scheduler.run()
    _, records = response_from_wire(answers[0])
    assert len(list(batch_headers(records))) == batches


def test_an_answer_that_cannot_be_given_is_the_end_of_nothing_else() -> None:
    world = HostWorld().start().with_broker()
    answers: list[Any] = []

    def fail(_response: object) -> None:
        raise ZeroDivisionError("defect")

    for reply in (fail, answers.append):
        world.host.asked(fetch_message(world, 1), reply, LISTENER)
    world.scheduler.run()
    assert len(answers) == 1
    assert world.create("orders").topics[0].error_code == error_codes.NONE
    assert world.failures == []


def test_a_fetch_below_the_log_start_gets_the_snapshot_id() -> None:
    policy = SnapshotPolicy(max_new_record_bytes=2_000, delay_ms=0, retention_bytes=3_000)
    world = HostWorld(policy=policy, segment_bytes=4_000).start().with_broker()
    for number in range(60):
        world.create(f"topic-{number}", configs={"retention.ms": str(number)})
    newest = world.metadata_log.snapshots()[-1]
    response = answer_from(world, world.metadata_log.start_offset - 1)
    assert response.known.error_code == error_codes.NONE
    assert response.snapshot == OffsetAndEpoch(*newest)
    assert world.failures == []


def test_a_replica_that_diverged_in_an_older_epoch_gets_the_divergence_after_a_restart() -> None:
    """The segment still has what the snapshot stands for, whose epochs were forgotten (found by simulation)."""
    policy = SnapshotPolicy(max_new_record_bytes=2_000, delay_ms=0, retention_bytes=3_000)
    world = HostWorld(policy=policy).start().with_broker()
    world = world.again().start().with_broker()
    second_epoch_offset = dict(world.metadata_log.epochs().entries())[2]
    for number in range(60):
        world.create(f"topic-{number}", configs={"retention.ms": str(number)})
    world.stop()
    world = world.again().start()
    fetch = Fetch(3, OBSERVER, second_epoch_offset + 1, 1, -1)
    answers: list[Any] = []
    world.host.asked(to_wire(fetch, world.identity.cluster_id, ()), answers.append, LISTENER)
    world.scheduler.run()
    response, records = response_from_wire(answers[0])
    assert isinstance(response, FetchResponse)
    assert response.diverging == OffsetAndEpoch(second_epoch_offset, 1)
    assert not records


def test_records_that_are_nowhere_are_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    world = HostWorld().start().with_broker()

    def read(_offset: int, _max_bytes: int) -> bytes:
        raise OffsetOutOfRange("there are none")

    monkeypatch.setattr(world.metadata_log, "read", read)
    assert answer_from(world, 1).known.error_code == error_codes.OFFSET_OUT_OF_RANGE


def test_a_leader_that_does_not_find_what_it_wrote_stops_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A disk may drop what an fsync could not write, and a follower may read before the fsync returns."""
    world = HostWorld().start().with_broker()
    world.create("orders")
    segment = world.disk.file(f"{PATH}/__cluster_metadata-0/{0:020}.log")
    segment.pwrite(bytes(segment.size()), 0)
    world.host.asked(fetch_message(world, 1), world.answers.append, LISTENER)
    world.scheduler.run()
    (line,) = world.failures
    assert re.fullmatch(r"The metadata log cannot be read: \S+, offset 1: .*`kpybroker check` says what else.*", line)
    assert not [record for record in caplog.records if record.exc_info]


def test_a_batch_that_the_log_refuses_ends_the_node() -> None:
    world = HostWorld(segment_bytes=4_000).start().with_broker()
    response = world.create(*[f"topic-{number}" for number in range(100)])
    assert {topic.error_code for topic in response.topics} == {error_codes.NOT_CONTROLLER}
    (line,) = [line for line in world.failures if line.startswith("The metadata cannot be applied")]
    assert "more than a segment" in line


def test_a_failure_after_a_saved_election_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    world = HostWorld()

    def append(_batches: object, _now_ms: int) -> None:
        raise ZeroDivisionError("defect")

    monkeypatch.setattr(world.metadata_log, "append", append)
    world.start()
    assert "The metadata cannot be applied: defect" in world.failures


def test_writes_of_the_quorum_wait_for_no_other_writes() -> None:
    world = HostWorld(scheduler=BusyScheduler()).start().with_broker()
    assert world.create("orders").topics[0].error_code == error_codes.NONE
