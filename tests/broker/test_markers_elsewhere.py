"""Markers for partitions that other nodes lead: many in a request, one request to a node at a time."""

from typing import Any

from kpybroker.hosts.coordinators.markers_elsewhere import MarkersElsewhere
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.partition.leader import Marker
from kpybroker.machines.transactions.events import Partition
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

COMMIT, ABORT = Marker(7, 1, True, 5, 2), Marker(8, 3, False, 6, 2)
A, B = ("a", 0), ("b", 1)


class World:
    """The markers that nodes are sent, and what becomes of them."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.sent: list[tuple[int, WriteTxnMarkersRequest, Any]] = []
        self.codes: list[tuple[int, Partition, int]] = []
        self.elsewhere = MarkersElsewhere(self.scheduler, self)  # type: ignore[arg-type]

    def send(self, node_id: int, request: Any, done: Any) -> None:
        self.sent.append((node_id, request, done))

    def write(self, partition: Partition, marker: Marker, node_id: int = 2) -> None:
        def done(code: int) -> None:
            self.codes.append((marker.producer_id, partition, code))

        self.elsewhere.write(node_id, partition, marker, done)

    def answer(self, *results: tuple[int, Partition, int]) -> None:
        markers = [
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)],
                    )
                ],
            )
            for producer_id, (name, index), code in results
        ]
        self.sent[-1][2](WriteTxnMarkersResponse(markers=markers))
        self.scheduler.run()


def test_markers_of_one_turn_are_one_request() -> None:
    world = World()
    for partition, marker in ((A, COMMIT), (B, COMMIT), (A, ABORT)):
        world.write(partition, marker)
    assert world.sent == []
    world.scheduler.run()
    ((node_id, request, _),) = world.sent
    assert node_id == 2
    found = [
        (
            each.producer_id,
            each.producer_epoch,
            each.transaction_result,
            each.coordinator_epoch,
            each.transaction_version,
            [(topic.name, topic.partition_indexes) for topic in each.topics],
        )
        for each in request.markers
    ]
    assert found == [(7, 1, True, 5, 2, [("a", [0]), ("b", [1])]), (8, 3, False, 6, 2, [("a", [0])])]
    outcome = [(7, A, 0), (7, B, error_codes.NOT_LEADER_OR_FOLLOWER), (8, A, error_codes.INVALID_PRODUCER_EPOCH)]
    world.answer(*outcome)
    assert world.codes == outcome


def test_markers_that_arrive_meanwhile_go_with_the_next_request_of_their_node() -> None:
    world = World()
    world.write(A, COMMIT)
    world.scheduler.run()
    world.write(B, COMMIT)
    world.write(B, ABORT, node_id=3)
    world.scheduler.run()
    assert [node_id for node_id, _, _ in world.sent] == [2, 3]
    world.sent.append(world.sent[0])
    world.answer((7, A, 0))
    assert [len(request.markers) for _, request, _ in world.sent[3:]] == [1]
    world.answer((7, B, 0))
    assert world.codes == [(7, A, 0), (7, B, 0)]
    world.write(A, ABORT)
    world.scheduler.run()
    assert world.sent[-1][0] == 2


def test_an_unanswered_request_gets_a_retriable_error() -> None:
    world = World()
    world.write(A, COMMIT)
    world.write(B, COMMIT)
    world.scheduler.run()
    world.answer((7, A, 0))
    assert world.codes == [(7, A, 0), (7, B, error_codes.UNKNOWN_SERVER_ERROR)]
    world.write(A, ABORT)
    world.scheduler.run()
    world.sent[-1][2](NoResponse("the connection was lost"))
    assert world.codes[2:] == [(8, A, error_codes.NETWORK_EXCEPTION)]


def test_a_node_that_stops_sends_nothing_any_more() -> None:
    world = World()
    world.write(A, COMMIT)
    world.scheduler.run()
    world.write(B, COMMIT)
    world.elsewhere.stop()
    world.sent[0][2](NoResponse("the connection was closed here"))
    world.scheduler.run()
    assert len(world.sent) == 1


def test_a_callback_that_raises_stops_neither_other_answers_nor_the_next_request() -> None:
    world = World()

    def breaks(_code: int) -> None:
        raise RuntimeError("something nobody thought of")

    world.elsewhere.write(2, A, COMMIT, breaks)
    world.write(B, COMMIT)
    world.scheduler.run()
    world.answer((7, A, 0), (7, B, 0))
    assert world.codes == [(7, B, 0)]
    world.write(A, ABORT)
    world.scheduler.run()
    assert len(world.sent) == 2
