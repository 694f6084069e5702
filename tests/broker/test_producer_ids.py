"""Producer ids: never the same twice, asked for a block at a time."""

from typing import Any

from kpybroker.hosts.producer_ids import UNREGISTERED, ProducerIds
from kpywire import error_codes
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsResponse


class FakeController:
    """Hands out blocks of ten, when told to."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.next_block = 1000

    def send(self, request: Any, reply: Any) -> None:
        assert request.broker_id == 1
        assert request.broker_epoch == 7
        self.replies.append(reply)

    def answer(self, code: int = error_codes.NONE) -> None:
        start, self.next_block = self.next_block, self.next_block + 10
        self.replies.pop(0)(AllocateProducerIdsResponse(error_code=code, producer_id_start=start, producer_id_len=10))


def make() -> tuple[FakeController, ProducerIds, list[int | None]]:
    controller = FakeController()
    return controller, ProducerIds(controller.send, 1, lambda: 7), []


def test_ids_wait_for_the_first_block_and_then_come_at_once() -> None:
    controller, ids, got = make()
    for _ in range(3):
        ids.next(got.append)
    assert got == []
    assert len(controller.replies) == 1
    controller.answer()
    assert got == [1000, 1001, 1002]
    ids.next(got.append)
    assert got[-1] == 1003


def test_the_next_block_is_asked_for_before_the_last_is_used_up() -> None:
    controller, ids, got = make()
    ids.next(got.append)
    controller.answer()
    for _ in range(8):
        ids.next(got.append)
    assert len(controller.replies) == 1
    controller.answer()
    for _ in range(20):
        ids.next(got.append)
        while controller.replies:
            controller.answer()
    assert got == list(range(1000, 1029))


def test_a_refused_block_of_producer_ids_fails_all_waiting_requests() -> None:
    controller, ids, got = make()
    ids.next(got.append)
    ids.next(got.append)
    controller.answer(error_codes.NOT_CONTROLLER)
    assert got == [None, None]
    ids.next(got.append)
    controller.answer()
    assert got[2] is not None


def test_a_request_that_cannot_wait_gets_a_producer_id_at_once_or_an_error() -> None:
    controller, ids, _ = make()
    assert ids.at_once() == -1
    assert ids.at_once() == -1
    assert len(controller.replies) == 1
    controller.answer()
    assert [ids.at_once() for _ in range(10)] == list(range(1000, 1010))
    controller.answer()
    assert ids.at_once() == 1010


def test_before_its_registration_a_broker_has_no_ids_and_asks_for_none() -> None:
    controller, got = FakeController(), list[int | None]()
    epoch = UNREGISTERED
    ids = ProducerIds(controller.send, 1, lambda: epoch)
    assert ids.at_once() == -1
    ids.next(got.append)
    assert got == [None]
    assert controller.replies == []
    epoch = 7
    assert ids.at_once() == -1
    controller.answer()
    assert ids.at_once() == 1000
