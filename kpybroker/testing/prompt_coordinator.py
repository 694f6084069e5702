"""FindCoordinator in a test: the first question waits for the topic of groups, instead of being told to come again.

Kafka answers COORDINATOR_NOT_AVAILABLE until the topic is there, some milliseconds later; clients come again after
100 ms, librdkafka after a second, which for a broker of one test is most of its life.
"""

from typing import Any

from kpybroker.handlers.context import Call, Handle
from kpybroker.server.pending import Pending
from kpywire import error_codes

EVERY_MS = 1
PATIENCE_MS = 1000


def prompt(handle: Handle) -> Handle:
    """The handler of FindCoordinator, with patience."""

    def find(broker: Any, request: Any, call: Call) -> Any:
        answer = handle(broker, request, call)
        if isinstance(answer, Pending) or not _is_too_early(answer):
            return answer
        pending = Pending()
        end_ms = broker.scheduler.monotonic_ms() + PATIENCE_MS

        def again() -> None:
            later = handle(broker, request, call)
            is_late = broker.scheduler.monotonic_ms() >= end_ms
            if isinstance(later, Pending):
                later.when_resolved(pending.resolve)
            elif is_late or not _is_too_early(later):
                pending.resolve(later)
            else:
                wait()

        def wait() -> None:
            timer = broker.scheduler.call_later(EVERY_MS, again)
            pending.when_cancelled(timer.cancel)

        wait()
        return pending

    return find


def _is_too_early(answer: Any) -> bool:
    codes = [answer.error_code, *(one.error_code for one in answer.coordinators or ())]
    return error_codes.COORDINATOR_NOT_AVAILABLE in codes
