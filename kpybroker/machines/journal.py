"""A state machine on a log: decide, append and apply in one step; let out only results that the log cannot lose.

The machine decides (purely) what an input means, as :class:`Effects`. The journal appends the records of that decision,
applies them to the machine at once, and holds back replies, sends and follow-up events until the log has committed them
(its high watermark has passed their end). So the next decision sees what the last one wrote, and nobody outside sees
anything that could still be lost. An input that writes nothing waits for the last append of the key it read.

Nothing is ever undone. If the append raises, nothing was applied, and every request that the decision would have
answered gets the error, as in Kafka. When leadership or the disk is lost,
:meth:`Journal.drop` fails every open ticket and the machine is thrown away; the next leader replays the log.

Coordinators (on a partition's log) and the controller (on the raft log) use this one class. It knows no log, no clock
and no network: all three come in as arguments.

Invariant: the machine's state equals a replay of the log up to ``appended_offset``.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple, Protocol, final

from kpywire import error_codes

_ANSWERED_KEPT: Final = 64
"""The number of deadlines of answered tickets that are kept, in addition to two for each open ticket."""


class Ticket(Protocol):
    """A parked request. Answered or failed exactly once."""

    def answer(self, message: Any) -> None:
        """Send the response."""

    def fail(self, error_code: int) -> None:
        """Send a response that holds only this error."""


class ProducerEpoch(NamedTuple):
    """The transactional producer on whose behalf a batch is written."""

    producer_id: int
    producer_epoch: int


class OutgoingRequest(NamedTuple):
    """A request to another node."""

    node_id: int
    message: Any
    context: Any = None


@final
class Prepared:
    """One object in place of many records in `Effects`, given to `Machine.apply` as a whole with the offset of the
    first one. Most of the batch was made beforehand, in steps."""

    __slots__ = ("codec", "records", "section")

    def __init__(self, records: list[Any], section: bytes, codec: int = 0) -> None:
        """``section`` is the section of the batch in the log, compressed by ``codec``; its records all have one
        timestamp."""
        self.records = records
        self.section = section
        self.codec = codec


@final
class Effects:
    """The effects of a decision, none of them carried out yet."""

    __slots__ = ("producer", "records", "replies", "sends", "then")

    def __init__(
        self,
        records: Sequence[Any] = (),
        producer: ProducerEpoch | None = None,
        replies: Sequence[tuple[Ticket, Any]] = (),
        sends: Sequence[OutgoingRequest] = (),
        then: Any = None,
    ) -> None:
        self.records = records
        """One atomic batch for the log that stores this state."""
        self.producer = producer
        """Set when the batch belongs to a transaction."""
        self.replies = replies
        """None, one or many parked requests with their responses."""
        self.sends = sends
        """Requests to other nodes, held back like replies."""
        self.then = then
        """An event that is fed back as an input once the records are committed."""


NOTHING: Final = Effects()


class Machine(Protocol):
    """A pure state machine."""

    def decide(self, event: Any, now_ms: int) -> Effects:
        """Decide what an input means in the current state. May change soft state, never durable state."""

    def apply(self, record: Any, offset: int, producer: ProducerEpoch | None) -> None:
        """Apply one record to the durable state, or to the state that is pending until the producer's transaction
        ends."""

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:
        """A transaction ended: its pending changes become durable state, or are forgotten."""


class EventTooLarge(NamedTuple):
    """Fed to the machine in place of an event whose records did not fit in one batch; it may only reply."""

    event: Any


class BatchTooLarge(Exception):
    """Raised by an append function: the batch exceeds what the log takes. Nothing was appended."""


class AppendRefused(Exception):
    """Raised by an append function that cannot take any batch now. Nothing was appended."""

    def __init__(self, error_code: int) -> None:
        self.error_code = error_code


class DecisionFailed(Exception):
    """The machine could not decide, because of a defect. Nothing was appended, and only this input fails."""

    def __init__(self, event: Any, error: Exception) -> None:
        super().__init__(f"No decision on {type(event).__name__}")
        self.event = event
        self.error = error


Append = Callable[[Sequence[Any], ProducerEpoch | None, int], tuple[int, int]]
"""(records, producer, now_ms) -> (offset of the first record, offset after the last)."""


class _Gate:
    """The effects that wait for one append to be committed."""

    __slots__ = ("keys", "next_offset", "waiting")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.waiting: list[tuple[Effects, Hashable]] = []
        self.keys: list[Hashable] = []


class Journal:
    """One machine on one log; refuses all inputs until :meth:`open`."""

    def __init__(
        self,
        machine: Machine,
        append: Append,
        *,
        closed_error: int,
        admit: Callable[[], int] = lambda: error_codes.NONE,
        send: Callable[[OutgoingRequest], None] = lambda _send: None,
        report: Callable[["DecisionFailed"], None],
    ) -> None:
        """``closed_error`` answers inputs before :meth:`open`.

        ``admit`` returns before each decision whether the log takes writes now: an error code, or NONE. ``send`` takes
        requests that may leave for other nodes; ``report`` is called with defects.
        """
        self.machine = machine
        self.appended_offset = 0
        self.committed_offset = 0
        self._append = append
        self._error = closed_error
        self._admit = admit
        self._send = send
        self._report = report
        self._gates: deque[_Gate] = deque()
        self._gate_of_key: dict[Hashable, _Gate] = {}
        self._gate_of_all: _Gate | None = None
        self._open_tickets: dict[int, tuple[Ticket, int]] = {}
        self._ticket_numbers = count()
        self._deadlines: list[tuple[int, int, int]] = []

    @property
    def is_open(self) -> bool:
        """Whether the journal takes inputs."""
        return self._error == error_codes.NONE

    @property
    def waiting_gates(self) -> int:
        """How many appends are not committed yet."""
        return len(self._gates)

    def replay(self, record: Any, offset: int, producer: ProducerEpoch | None = None) -> None:
        """Apply a record that the log already holds. Only before :meth:`open`."""
        if self.is_open:
            raise RuntimeError("A journal that takes inputs replays nothing")
        self.machine.apply(record, offset, producer)
        self.appended_offset = offset + 1

    def mark(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:
        """Note a transaction marker at ``offset`` of the log, replayed or appended just now.

        The state it makes visible is held back: every read of an open journal waits until the marker is committed.
        """
        self.machine.apply_marker(producer, offset, commit=commit)
        self.appended_offset = offset + 1
        if self.is_open:
            self._gate_of_append(offset + 1, None)

    def open(self, committed_offset: int, appended_offset: int) -> None:
        """Take inputs from now on. Replayed records above ``committed_offset`` are not committed yet and stay behind a
        gate."""
        self._error = error_codes.NONE
        self.committed_offset = committed_offset
        self.appended_offset = appended_offset
        if appended_offset > committed_offset:
            self._gate_of_all = _Gate(appended_offset)
            self._gates.append(self._gate_of_all)

    def submit(
        self,
        event: Any,
        now_ms: int,
        *,
        ticket: Ticket | None = None,
        key: Hashable = None,
        deadline_ms: int | None = None,
    ) -> None:
        """Decide, append and apply one input; answer it now or when its append is committed.

        ``key`` names the part of the state that the input reads and writes; without one it is the whole state. After
        ``deadline_ms`` the ticket gets REQUEST_TIMED_OUT from :meth:`expire`; the decision stands.
        """
        error = self._error or self._admit()
        if error:
            if ticket is not None:
                ticket.fail(error)
            return
        if ticket is not None:
            number = next(self._ticket_numbers)
            self._open_tickets[id(ticket)] = (ticket, number)
        try:
            self._step(event, key, now_ms)
        except AppendRefused as refused:
            self._fail(ticket, refused.error_code)
        except DecisionFailed as failed:
            self._report(failed)
            self._fail(ticket, error_codes.UNKNOWN_SERVER_ERROR)
        if deadline_ms is not None and id(ticket) in self._open_tickets:
            heappush(self._deadlines, (deadline_ms, number, id(ticket)))
            if len(self._deadlines) > 2 * len(self._open_tickets) + _ANSWERED_KEPT:
                self._forget_answered()

    def committed_at_once(self, offset: int) -> None:
        """Called by the append function: the records it has just written, up to ``offset``, need no other node to be
        committed."""
        if not self._gates:
            self.committed_offset = offset

    def committed(self, offset: int, now_ms: int) -> None:
        """The log is committed up to ``offset``: let out the effects that waited for it."""
        if offset > self.committed_offset:
            self.committed_offset = offset
        while self._gates and self._gates[0].next_offset <= self.committed_offset:
            gate = self._gates.popleft()
            if gate is self._gate_of_all:
                self._gate_of_all = None
            for key in gate.keys:
                if self._gate_of_key.get(key) is gate:
                    del self._gate_of_key[key]
            for effects, key in gate.waiting:
                self._release(effects, key, now_ms)

    def _forget_answered(self) -> None:
        """Remove the deadlines of answered tickets. They would otherwise stay until they expire."""
        numbers = {number for _, number in self._open_tickets.values()}
        self._deadlines = [deadline for deadline in self._deadlines if deadline[1] in numbers]
        heapify(self._deadlines)

    def expire(self, now_ms: int) -> int | None:
        """Fail the tickets whose time is up. Return the next deadline, or None."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number, identity = heappop(self._deadlines)
            is_open = self._open_tickets.get(identity)
            if is_open is not None and is_open[1] == number:
                self._fail(is_open[0], error_codes.REQUEST_TIMED_OUT)
        return self._deadlines[0][0] if self._deadlines else None

    def drop(self, error_code: int) -> None:
        """Fail every open ticket and take no more inputs: leadership or the log is lost."""
        self._error = error_code
        self._gates.clear()
        self._gate_of_key.clear()
        self._deadlines.clear()
        tickets, self._open_tickets = list(self._open_tickets.values()), {}
        for ticket, _ in tickets:
            ticket.fail(error_code)

    def _fail(self, ticket: Ticket | None, error_code: int) -> None:
        if ticket is not None and self._open_tickets.pop(id(ticket), None) is not None:
            ticket.fail(error_code)

    def _decide(self, event: Any, now_ms: int) -> Effects:
        try:
            return self.machine.decide(event, now_ms)
        except Exception as error:
            raise DecisionFailed(event, error) from error

    def _step(self, event: Any, key: Hashable, now_ms: int) -> None:
        effects = self._decide(event, now_ms)
        if effects.records:
            try:
                first_offset, next_offset = self._append(effects.records, effects.producer, now_ms)
            except BatchTooLarge:
                effects = self._decide(EventTooLarge(event), now_ms)
                if effects.records:
                    raise RuntimeError("A machine answered a batch that was too large with another batch") from None
            except AppendRefused as refused:
                for ticket, _ in effects.replies:  # the machine may have let go of those that were parked
                    self._fail(ticket, refused.error_code)
                raise
            else:
                for offset, record in enumerate(effects.records, first_offset):
                    self.machine.apply(record, offset, effects.producer)
                self.appended_offset = next_offset
                self._wait(self._gate_of_append(next_offset, key), effects, key, now_ms)
                return
        self._wait(self._gate_of_read(key), effects, key, now_ms)

    def _gate_of_append(self, next_offset: int, key: Hashable) -> _Gate | None:
        if next_offset <= self.committed_offset:
            return None
        gate = _Gate(next_offset)
        self._gates.append(gate)
        if key is None:
            self._gate_of_all = gate
        else:
            gate.keys.append(key)
            self._gate_of_key[key] = gate
        return gate

    def _gate_of_read(self, key: Hashable) -> _Gate | None:
        if key is None:
            return self._gates[-1] if self._gates else None
        of_key, of_all = self._gate_of_key.get(key), self._gate_of_all
        if of_key is None or of_all is None:
            return of_key or of_all
        return of_key if of_key.next_offset > of_all.next_offset else of_all

    def _wait(self, gate: _Gate | None, effects: Effects, key: Hashable, now_ms: int) -> None:
        if gate is None:
            self._release(effects, key, now_ms)
        elif effects.replies or effects.sends or effects.then is not None:
            gate.waiting.append((effects, key))

    def _release(self, effects: Effects, key: Hashable, now_ms: int) -> None:
        if not self.is_open:
            return  # an answer that left a moment ago made the owner drop this journal
        for ticket, message in effects.replies:
            if self._open_tickets.pop(id(ticket), None) is not None:
                ticket.answer(message)
        for send in effects.sends:
            self._send(send)
        if effects.then is not None:
            self.submit(effects.then, now_ms, key=key)
