"""The stage [throttle]: client quotas (KIP-13, KIP-55, KIP-124, KIP-219).

It is around the handlers only while a client quota is set; without one a request costs nothing more. What a request
uses is recorded when it is answered. The answer leaves at once and says how long the client has to wait; its
connection is muted for that time. If two quotas are violated, the longer time counts.

- Produce: the size of the request, also with acks=0, where no time is charged.
- Fetch: the size of the answer; a client that has to wait gets an empty one, whose bytes are not recorded. Followers
  are exempt.
- All requests of clients: the time that they use on the loop, 100 percent being the whole loop, and the CPU time of
  the process for long work. Decoding and encoding of large requests in steps is not counted. Requests between nodes are
  exempt.
- Requests that the controller has throttled: its time counts too (KIP-599).
"""

from collections.abc import Callable, Generator
from copy import copy
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpybroker.machines.apis import APIS
from kpybroker.machines.quotas.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    Entity,
)
from kpybroker.machines.quotas.rate import DEFAULT_WINDOWS, QuotaWindows
from kpybroker.machines.quotas.throttle import NANOSECONDS_TO_PERCENT, QuotaThrottle
from kpybroker.requests.dispatching.served import ServedVersion
from kpybroker.runtime.calls.call import Call, Handle
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from kpywire import api
from kpywire.fetch import REPLICA_STATE_FROM
from kpywire.produce_hints import HintedAnswers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kpybroker.runtime.io.scheduler import Scheduler

EXEMPT: Final = frozenset(
    key for key in api.API_KEYS if key not in APIS or APIS[key].is_exempt or APIS[key].at_broker is None
)
"""The requests between nodes (``ApiKeys.clusterAction``)."""
Answer = Callable[[Call, Any, Any, int, int], Any]
"""(call, request, response, size of the frame, time that was used) -> the response that is sent."""
DecodeInSteps = Callable[[memoryview, int], Generator[None, None, tuple[Any, int]]]
NO_LIMIT_BYTES: Final = float(2**31 - 1)


class Staged(Protocol):
    """A dispatcher, as its stage sees it."""

    stage: "Throttling | None"
    served: "dict[tuple[int, int], ServedVersion]"


class Throttling:
    """The stage of one dispatcher."""

    def __init__(self, dispatcher: Staged, scheduler: "Scheduler", windows: QuotaWindows = DEFAULT_WINDOWS) -> None:
        self.quotas = quotas = ClientQuotas()
        self.produce = QuotaThrottle(PRODUCER_BYTE_RATE, quotas, windows)
        self.fetch = QuotaThrottle(CONSUMER_BYTE_RATE, quotas, windows)
        self.request = QuotaThrottle(REQUEST_PERCENTAGE, quotas, windows, most_ms=windows.size_ms)
        self._dispatcher = dispatcher
        self._scheduler = scheduler
        self._plain: dict[ServedVersion, tuple[Any, ...]] = {}
        """The decoders, handlers and encoders around which the stage is put."""
        self._frame_bytes = 0
        self._call: Call | None = None
        """The call that is being handled."""
        self._began_ns = 0
        self._answered: tuple[Call, Any] | None = None
        """The response that is encoded next."""

    @property
    def is_on(self) -> bool:
        """Whether any client quota is set."""
        return self._dispatcher.stage is not None

    def now_ms(self) -> int:
        """The clock of the quotas. It never goes back."""
        return int(self._scheduler.monotonic_ms())

    def changed(
        self, entities: "list[Entity]", quotas: "Mapping[Entity, Mapping[str, float]]"
    ) -> None:  # fmt: skip
        """Take over the quotas of some entities. The stage comes with the first quota, and goes with the last."""
        self.quotas.changed(entities, quotas)
        dispatcher = self._dispatcher
        if self.quotas.kinds and not self.is_on:
            dispatcher.stage = self
            for (api_key, _), served in dispatcher.served.items():
                self.put_around(api_key, served)
        elif self.is_on and not self.quotas.kinds:
            dispatcher.stage = None
            for served, plain in self._plain.items():
                served.decode, served.decode_in_steps, served.handle, served.encode, served.work = plain
            self._plain.clear()

    def put_around(self, api_key: int, served: ServedVersion) -> None:
        """Put the stage around the handler of an API key in one version."""
        if api_key in EXEMPT:
            return
        self._plain[served] = served.decode, served.decode_in_steps, served.handle, served.encode, served.work
        if api_key == api.PRODUCE:
            served.decode = self._measured(served.decode)
            if served.decode_in_steps is not None:
                served.decode_in_steps = self._measured_in_steps(served.decode_in_steps)
            served.handle = self._handle(served.handle, self._produced)
            if served.work is not None:
                served.work = self._work(served.work, self._produced)
        elif api_key == api.FETCH:
            served.handle = self._handle(served.handle, self._fetched)
        elif served.work is None:
            served.handle = self._handle(served.handle, self._answer)
        else:
            served.work = work = self._work(served.work, self._answer)
            if served.shares:
                served.handle = lambda broker, request, call: call.peer.share(work(broker, request, call))
            else:
                served.handle = self._handle(served.handle, self._answer)
        served.encode = self._encode(served.encode)

    # Around a request

    def _measured(self, decode: Callable[[memoryview, int], tuple[Any, int]]) -> Callable[..., tuple[Any, int]]:
        def decode_and_measure(frame: memoryview, position: int) -> tuple[Any, int]:
            self._frame_bytes = len(frame)
            return decode(frame, position)

        return decode_and_measure

    def _measured_in_steps(self, decode: DecodeInSteps) -> DecodeInSteps:
        def decode_and_measure(frame: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
            found = yield from decode(frame, position)
            self._frame_bytes = len(frame)
            return found

        return decode_and_measure

    def _handle(self, handle: Handle, answer: Answer) -> Handle:
        def throttled(broker: Any, request: Any, call: Call) -> Any:
            frame_bytes = self._frame_bytes
            call.throttle = self
            self._call, self._began_ns = call, perf_counter_ns()
            try:
                response = handle(broker, request, call)
                used_ns = perf_counter_ns() - self._began_ns
            finally:
                self._call = None
            if not isinstance(response, Pending):
                response = answer(call, request, response, frame_bytes, used_ns)
                self._answered = call, response
                return response
            if response.resolved:
                return answer(call, request, response.response, frame_bytes, used_ns)
            if answer != self._fetched or not _is_follower(request, call):
                self._note_time(call, used_ns)
            late = Pending(overlaps=response.overlaps)
            late.when_cancelled(response.cancel)

            def resolved(arrived: Any) -> None:
                arrived = answer(call, request, arrived, frame_bytes, 0)
                self._answered = call, arrived
                late.resolve(arrived)

            response.when_resolved(resolved)
            return late

        return throttled

    def _work(self, work: Callable[..., Work], answer: Answer) -> Callable[..., Work]:
        def throttled(broker: Any, request: Any, call: Call) -> Work:
            call.throttle = self
            steps, used_ns, sent = work(broker, request, call), 0, None
            frame_bytes = self._frame_bytes  # it was decoded in this step
            while True:
                began_ns = perf_counter_ns()
                try:
                    step = steps.send(sent)
                except StopIteration as end:
                    response = end.value
                    used_ns += perf_counter_ns() - began_ns
                    break
                used_ns += perf_counter_ns() - began_ns
                sent = yield step
            if isinstance(response, Pending):
                response = yield response
            response = answer(call, request, response, frame_bytes, used_ns)
            self._answered = call, response
            return response

        return throttled

    def _encode(self, encode: Callable[[Any, list[Any]], None]) -> Callable[[Any, list[Any]], None]:
        def encode_and_note(response: Any, parts: list[Any]) -> None:
            began_ns = perf_counter_ns()
            encode(response, parts)
            answered, self._answered = self._answered, None
            if answered is not None and answered[1] is response:
                self._note_time(answered[0], perf_counter_ns() - began_ns)

        return encode_and_note

    # The answers

    def _answer(self, call: Call, _request: Any, response: Any, _frame_bytes: int, used_ns: int) -> Any:
        now_ms = self.now_ms()
        throttle_ms = self._time_throttle_ms(call, used_ns, now_ms)
        controllers_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.request.waits(call.principal.name, call.client_id or "", throttle_ms, now_ms)
        if throttle_ms > controllers_ms and hasattr(response, "throttle_time_ms"):
            response = copy(response)  # the handler may answer with it again
            response.throttle_time_ms = throttle_ms
        self._mute(call, max(throttle_ms, controllers_ms))
        return response

    def _produced(self, call: Call, request: Any, response: Any, frame_bytes: int, used_ns: int) -> Any:
        user, client_id, now_ms = call.principal.name, call.client_id or "", self.now_ms()
        bandwidth_ms = self.produce.record(user, client_id, frame_bytes, now_ms)
        time_ms = 0 if request.acks == 0 else self._time_throttle_ms(call, used_ns, now_ms)
        throttle_ms = max(bandwidth_ms, time_ms)
        if throttle_ms <= 0:
            return response
        (self.produce if bandwidth_ms > time_ms else self.request).waits(user, client_id, throttle_ms, now_ms)
        self._mute(call, throttle_ms)
        if response is None:
            return None
        nodes = response.node_endpoints if isinstance(response, HintedAnswers) else []
        answers = HintedAnswers(response, nodes)
        answers.throttle_time_ms = throttle_ms
        return answers

    def _fetched(self, call: Call, request: Any, response: Any, _frame_bytes: int, used_ns: int) -> Any:
        if not _is_follower(request, call):
            self._note_time(call, used_ns)
            self._mute(call, response.throttle_time_ms)
        return response

    def most_fetched_bytes(self, call: Call) -> float:
        """The most bytes that fit the quota of a client that fetches."""
        most = self.fetch.most_in_windows(call.principal.name, call.client_id or "")
        return NO_LIMIT_BYTES if most is None else most

    def worked_elsewhere(self, call: Call, worked_ns: int) -> None:
        """Charge the CPU time of another process: what a client asks for counts wherever it is done."""
        if self.is_on:
            self._note_time(call, worked_ns)

    def fetched(self, call: Call, answer_bytes: int) -> int:
        """An answer of this size is ready. Return the time for which the client has to wait; if it is not 0, the answer
        must be empty."""
        user, client_id, now_ms = call.principal.name, call.client_id or "", self.now_ms()
        now_ns = perf_counter_ns()
        used_ns = now_ns - self._began_ns if self._call is call else 0
        if used_ns:
            self._began_ns = now_ns  # what comes after this is charged when the handler returns
        time_ms = self._time_throttle_ms(call, used_ns, now_ms)
        bandwidth_ms = self.fetch.record(user, client_id, answer_bytes, now_ms)
        throttle_ms = max(time_ms, bandwidth_ms)
        if throttle_ms > 0:
            self.fetch.note(user, client_id, -answer_bytes, now_ms)
            (self.fetch if bandwidth_ms > time_ms else self.request).waits(user, client_id, throttle_ms, now_ms)
        return throttle_ms

    def _time_throttle_ms(self, call: Call, used_ns: int, now_ms: int) -> int:
        percent = used_ns * NANOSECONDS_TO_PERCENT
        return self.request.record(call.principal.name, call.client_id or "", percent, now_ms)

    def _note_time(self, call: Call, used_ns: int) -> None:
        """Charge time without consequences for the present answer."""
        percent = used_ns * NANOSECONDS_TO_PERCENT
        self.request.note(call.principal.name, call.client_id or "", percent, self.now_ms())

    @staticmethod
    def _mute(call: Call, throttle_ms: int) -> None:
        if throttle_ms > 0:
            call.peer.mute(throttle_ms)


def _is_follower(request: Any, call: Call) -> bool:
    """Whether a Fetch is that of a follower."""
    with_state = call.api_version >= REPLICA_STATE_FROM
    return bool((request.replica_state.replica_id if with_state else request.replica_id) >= 0)
