"""Every partition of a transaction that ends gets its marker, and the coordinator hears of it once."""

from types import SimpleNamespace
from typing import Any

from kpybroker.hosts.coordinators.marker_writer import RETRY_MS, MarkerWriter, ServerTurns
from kpybroker.machines.journal import OutgoingRequest
from kpybroker.machines.partition.leader import Marker
from kpybroker.machines.transactions.events import TO_LEADERS, MarkersWritten, Partition, WriteMarkers
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes

A, B, C = ("a", 0), ("a", 1), ("b", 0)


HERE, ELSEWHERE, ANOTHER = 1, 2, 3


def topic_of(*leaders: int) -> SimpleNamespace:
    """A topic whose partitions have these leaders."""
    return SimpleNamespace(partitions={index: SimpleNamespace(leader=leader) for index, leader in enumerate(leaders)})


class RecordedTurn:
    """Says whether what was appended in it is written."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_written = True

    def begin(self, _now_ns: int) -> None:
        self.is_on = True

    def settle(self) -> bool:
        return self.is_written

    def end(self) -> None:
        self.is_on = False


class World:
    """The writer with partitions that answer as the test says, and one coordinator's shard."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.codes: dict[Partition, int] = {}
        """The errors of partitions that do not take their marker."""
        self.held: list[Any] = []
        """Answers that are not given yet, of partitions whose code is None."""
        self.holding: set[Partition] = set()
        self.written: list[tuple[Partition, Marker]] = []
        self.notified: list[MarkersWritten] = []
        self.asked: list[tuple[int, Partition, Any]] = []
        """The markers that other nodes are to write: the node, the partition, and the callback."""
        self.topics = {"a": topic_of(HERE, HERE), "b": topic_of(HERE)}
        self.shard: Any = SimpleNamespace(epoch=7, is_over=False, has_enough_in_sync=True, submit=self._submit)
        image: Any = SimpleNamespace(topics=self.topics)
        self.turn = RecordedTurn()
        turn: Any = self.turn
        elsewhere: Any = SimpleNamespace(
            write=lambda node_id, partition, _marker, done: self.asked.append((node_id, partition, done)),
            stop=self.asked.clear,
        )
        self.writer = MarkerWriter(
            self.scheduler,
            self,  # type: ignore[arg-type]
            lambda: image,
            lambda: 30_000,
            ServerTurns(lambda: turn),
            node_id=HERE,
            elsewhere=elsewhere,
        )

    def write(self, topic: str, index: int, marker: Marker) -> Any:
        partition = (topic, index)
        code = self.codes.get(partition, error_codes.NONE)
        if partition in self.holding:
            return SimpleNamespace(wait=lambda _timeout_ms, done: self.held.append(done))
        if code == error_codes.NONE:
            assert self.turn.is_on
            self.written.append((partition, marker))
        return code

    def _submit(self, event: MarkersWritten, ticket: object, key: str) -> None:
        assert (ticket, key) == (None, event.transactional_id)
        self.notified.append(event)

    def end(self, *partitions: Partition, epoch: int = 1, transactional_id: str = "t", commit: bool = True) -> None:
        message = WriteMarkers(transactional_id, 9, epoch, commit, partitions, 2)
        self.writer.send(self.shard, OutgoingRequest(TO_LEADERS, message))
        self.scheduler.run()

    def where(self) -> list[Partition]:
        return [partition for partition, _ in self.written]

    def reported(self) -> list[set[Partition]]:
        return [set(event.partitions) for event in self.notified]


def test_all_markers_are_reported_at_once() -> None:
    world = World()
    world.end(A, B, C)
    assert set(world.where()) == {A, B, C}
    assert {marker for _, marker in world.written} == {Marker(9, 1, True, 7, 2)}
    assert world.reported() == [{A, B, C}]
    assert (world.notified[0].producer_id, world.notified[0].producer_epoch) == (9, 1)
    world.writer.look_again()
    world.scheduler.run()
    assert len(world.written) == 3


def test_a_coordinator_learns_of_a_marker_only_after_it_is_written() -> None:
    world = World()
    world.turn.is_written = False
    world.end(A, B)
    assert world.where() == [A, B]
    assert world.notified == []
    world.turn.is_written = True
    world.scheduler.advance(RETRY_MS)
    assert world.where() == [A, B, A, B]
    assert world.reported() == [{A, B}]
    assert not world.turn.is_on


def test_no_marker_is_written_before_the_coordinator_has_answered() -> None:
    world = World()
    world.writer.send(world.shard, OutgoingRequest(TO_LEADERS, WriteMarkers("t", 9, 1, True, [A], 2)))
    assert world.written == []


def test_markers_that_cannot_be_written_are_tried_again() -> None:
    world = World()
    world.codes[B] = error_codes.NOT_LEADER_OR_FOLLOWER
    world.end(A, B)
    assert world.reported() == [{A}]
    world.scheduler.advance(RETRY_MS)
    assert world.where() == [A]
    del world.codes[B]
    world.scheduler.advance(RETRY_MS)
    assert world.reported() == [{A}, {B}]
    world.scheduler.advance(10 * RETRY_MS)
    assert world.where() == [A, B]


def test_a_change_of_the_metadata_is_a_reason_to_try() -> None:
    world = World()
    world.codes[A] = error_codes.KAFKA_STORAGE_ERROR
    world.end(A)
    del world.codes[A]
    world.writer.look_again()
    world.scheduler.run()
    assert world.reported() == [{A}]


def test_a_deleted_partition_needs_no_marker() -> None:
    world = World()
    world.codes[C] = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    world.end(A, C, ("gone", 0))
    assert world.reported() == [{A, ("gone", 0)}]
    del world.topics["b"]
    world.writer.look_again()
    world.scheduler.run()
    assert world.reported() == [{A, ("gone", 0)}, {C}]


def test_an_answer_that_comes_late_is_reported_then_and_not_asked_for_twice() -> None:
    world = World()
    world.holding.add(B)
    world.end(A, B)
    world.writer.look_again()
    world.scheduler.run()
    assert (world.reported(), len(world.held)) == ([{A}], 1)
    world.held[0](error_codes.NONE)
    world.scheduler.run()
    assert world.reported() == [{A}, {B}]


def test_a_fenced_marker_is_given_up() -> None:
    world = World()
    world.codes[A] = error_codes.INVALID_PRODUCER_EPOCH
    world.end(A)
    del world.codes[A]
    world.writer.look_again()
    world.scheduler.advance(10 * RETRY_MS)
    assert (world.written, world.notified) == ([], [])


def test_the_next_end_replaces_the_last() -> None:
    world = World()
    world.holding.add(A)
    world.end(A, epoch=1)
    world.holding.clear()
    world.end(A, epoch=2, commit=False)
    assert [event.producer_epoch for event in world.notified] == [2]
    world.held[0](error_codes.NONE)
    world.scheduler.run()
    assert [event.producer_epoch for event in world.notified] == [2]


def test_a_resigned_coordinator_gets_no_notice_of_markers() -> None:
    world = World()
    world.codes[A] = error_codes.NOT_LEADER_OR_FOLLOWER
    world.end(A)
    world.shard.is_over = True
    del world.codes[A]
    world.scheduler.advance(RETRY_MS)
    assert (world.written, world.notified) == ([], [])


def test_a_coordinator_that_cannot_write_hears_of_it_when_it_can() -> None:
    world = World()
    world.shard.has_enough_in_sync = False
    world.end(A)
    assert (world.where(), world.notified) == ([A], [])
    world.shard.has_enough_in_sync = True
    world.scheduler.advance(RETRY_MS)
    assert (world.where(), world.reported()) == ([A], [{A}])


def test_after_the_stop_nothing_is_tried() -> None:
    world = World()
    world.codes[A] = error_codes.NOT_LEADER_OR_FOLLOWER
    world.end(A)
    world.writer.stop()
    del world.codes[A]
    world.scheduler.advance(10 * RETRY_MS)
    assert world.written == []


def test_a_marker_goes_to_the_node_that_leads() -> None:
    world = World()
    world.topics["a"] = topic_of(HERE, ELSEWHERE)
    world.end(A, B)
    assert world.where() == [A]
    assert [(node, partition) for node, partition, _ in world.asked] == [(ELSEWHERE, B)]
    assert world.reported() == [{A}]
    world.asked[0][2](error_codes.NONE)
    world.scheduler.run()
    assert world.reported() == [{A}, {B}]


def test_markers_are_sent_again_to_silent_or_former_leaders_but_never_twice_at_once() -> None:
    world = World()
    world.topics["a"] = topic_of(HERE, ELSEWHERE)
    world.end(B)
    world.writer.look_again()
    world.scheduler.run()
    assert len(world.asked) == 1
    world.asked[0][2](error_codes.NETWORK_EXCEPTION)
    world.scheduler.advance(RETRY_MS)
    assert [node for node, _, _ in world.asked] == [ELSEWHERE, ELSEWHERE]
    world.asked[1][2](error_codes.NONE)
    world.scheduler.run()
    assert world.reported() == [{B}]


def test_a_new_leader_is_asked_at_once_and_the_old_ones_refusal_does_not_count() -> None:
    world = World()
    world.topics["a"] = topic_of(HERE, ELSEWHERE)
    world.end(B)
    world.topics["a"] = topic_of(HERE, ANOTHER)
    world.writer.look_again()
    world.scheduler.run()
    assert [node for node, _, _ in world.asked] == [ELSEWHERE, ANOTHER]
    world.asked[0][2](error_codes.NOT_LEADER_OR_FOLLOWER)
    world.scheduler.advance(RETRY_MS)
    assert len(world.asked) == 2
    world.asked[1][2](error_codes.NONE)
    world.scheduler.run()
    assert world.reported() == [{B}]


def test_a_marker_that_two_leaders_wrote_is_reported_once() -> None:
    world = World()
    world.topics["a"] = topic_of(HERE, ELSEWHERE)
    world.end(B)
    world.topics["a"] = topic_of(HERE, ANOTHER)
    world.writer.look_again()
    world.scheduler.run()
    for _, _, done in world.asked:
        done(error_codes.NONE)
        world.scheduler.run()
    assert world.reported() == [{B}]


def test_without_a_leader_it_waits_for_one() -> None:
    world = World()
    world.topics["a"] = topic_of(HERE, -1)
    world.end(B)
    assert world.asked == []
    world.topics["a"] = topic_of(HERE, ELSEWHERE)
    world.scheduler.advance(RETRY_MS)
    assert [node for node, _, _ in world.asked] == [ELSEWHERE]
