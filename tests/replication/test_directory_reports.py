"""The reports to the controller of the log directories that replicas are in."""

from collections.abc import Callable
from typing import Any

from kpybroker.hosts.replicas.assignments import RETRY_MS, Assignments
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse

TOPIC_ID = bytes(range(16))
ONE, TWO = bytes(15) + b"\x71", bytes(15) + b"\x72"


class Controller:
    """A controller that answers when the test wants."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Callable[[Any], object]]] = []

    def send(self, request: Any, reply: Callable[[Any], object]) -> None:
        self.asked.append((request, reply))

    def answer(self, code: int) -> bytes:
        """Answer the oldest request; the directory that it named."""
        request, reply = self.asked.pop(0)
        reply(AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=code, directories=[]))
        return bytes(request.directories[0].id)


def test_a_report_that_failed_does_not_replace_a_newer_one() -> None:
    scheduler, controller, noted = ManualScheduler(), Controller(), list[str]()
    assignments = Assignments(scheduler, controller.send, 1, lambda: 7)
    assignments.assign(TOPIC_ID, 0, ONE)
    scheduler.advance(RETRY_MS)
    assignments.assign(TOPIC_ID, 0, TWO, lambda: noted.append("moved"))
    scheduler.advance(RETRY_MS)
    assert len(controller.asked) == 1
    for _ in range(3):
        controller.answer(error_codes.REQUEST_TIMED_OUT)
        scheduler.advance(RETRY_MS)
    assert controller.answer(error_codes.NONE) == TWO
    scheduler.advance(RETRY_MS)
    assert (noted, controller.asked) == (["moved"], [])


def test_an_assignment_that_came_while_a_report_was_under_way_is_reported_after_it() -> None:
    scheduler, controller = ManualScheduler(), Controller()
    assignments = Assignments(scheduler, controller.send, 1, lambda: 7)
    assignments.assign(TOPIC_ID, 0, ONE)
    scheduler.advance(RETRY_MS)
    assignments.assign(TOPIC_ID, 1, TWO)
    scheduler.advance(RETRY_MS)
    assert controller.answer(error_codes.NONE) == ONE
    scheduler.advance(RETRY_MS)
    assert controller.answer(error_codes.NONE) == TWO
