"""The queue of requests to the controller, decided one after the other. Long ones are decided in steps, and all others
wait.

So the state does not change during a decision, until its outcome is applied: it is as if the decision had been a single
step, while the loop goes on. Requests of brokers go before those of clients, which may be many.

Invariant: from the first step of a decision until its records are in the state, nothing else is decided.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kpybroker.machines.controller.controller import Controller
from kpybroker.machines.controller.deciders import decides_in_steps
from kpybroker.machines.controller.state import ControllerRequest
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler

OF_NODES = frozenset(
    (
        "AllocateProducerIdsRequest", "AlterPartitionRequest", "AssignReplicasToDirsRequest", "BrokerHeartbeatRequest",
        "BrokerRegistrationRequest", "ControllerRegistrationRequest", "ReportingHeartbeatRequest",
    )
)  # fmt: skip
"""The classes of requests that only nodes of the cluster send. A controller that keeps heartbeats waiting takes the
broker for dead."""


class Submit(Protocol):
    """Feeds the journal with an event to decide, or with the outcome of a decision in steps."""

    def __call__(self, event: Any, now_ms: int, *, ticket: Any, deadline_ms: int | None) -> None: ...


class _QueuedRequest(NamedTuple):
    request: ControllerRequest
    deadline_ms: int | None


class Decisions:
    """The queue of one reign, and the decision in progress."""

    def __init__(
        self, scheduler: "Scheduler", controller: Controller, submit: Submit, failed: Callable[[Exception], object]
    ) -> None:
        """``failed`` is called with an error that interrupts a decision after its records were written: an invariant is
        broken."""
        self._scheduler = scheduler
        self._controller = controller
        self._submit = submit
        self._failed = failed
        self._of_nodes: deque[_QueuedRequest] = deque()
        self._of_clients: deque[_QueuedRequest] = deque()
        self._current: ControllerRequest | None = None
        self._is_working = self._is_closed = False

    def ask(self, request: ControllerRequest) -> None:
        """Queue a request. It is decided at once if no other one is waiting."""
        if self._is_closed:
            request.ticket.fail(error_codes.NOT_CONTROLLER)
            return
        timeout_ms = getattr(request.message, "timeout_ms", 0)
        deadline_ms = int(self._scheduler.monotonic_ms()) + timeout_ms if timeout_ms > 0 else None
        queue = self._of_nodes if type(request.message).__name__ in OF_NODES else self._of_clients
        queue.append(_QueuedRequest(request, deadline_ms))
        if not self._is_working:
            self._begin()

    def close(self) -> None:
        """Fail all requests that wait and all that come later: the controller is not active here any more."""
        self._is_closed = True
        if self._current is not None:
            self._current.ticket.fail(error_codes.NOT_CONTROLLER)
            self._current = None
        for queue in (self._of_nodes, self._of_clients):
            while queue:
                queue.popleft().request.ticket.fail(error_codes.NOT_CONTROLLER)

    def _begin(self) -> None:
        self._is_working = True
        self._scheduler.in_pieces(self._work())

    def _work(self) -> Generator[None, None, None]:
        try:
            while not self._is_closed and (queue := self._of_nodes or self._of_clients):
                yield from self._decide(queue.popleft())
                yield
        finally:
            self._is_working = False
            if (self._of_nodes or self._of_clients) and not self._is_closed:
                self._scheduler.call_soon(self._begin)  # the receiver of the last answer failed: no reason to stop

    def _decide(self, asked: _QueuedRequest) -> Generator[None, None, None]:
        # The time of day is that of the decision: a token may expire while its request waits.
        request, deadline_ms = asked.request._replace(wall_clock_ms=self._scheduler.now_ms()), asked.deadline_ms
        now_ms = int(self._scheduler.monotonic_ms())
        if deadline_ms is not None and deadline_ms <= now_ms:
            request.ticket.fail(error_codes.REQUEST_TIMED_OUT)
            return
        if not decides_in_steps(request.message):
            self._submit(request, now_ms, ticket=request.ticket, deadline_ms=deadline_ms)
            return
        self._current = request
        decided = yield from self._controller.deliberate(request, now_ms)
        if self._is_closed:
            return
        self._current = None
        self._submit(decided, now_ms, ticket=request.ticket, deadline_ms=deadline_ms)
        try:
            yield from self._controller.settle()
        except Exception as error:
            self._failed(error)
