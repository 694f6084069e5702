"""A journal over a small machine that counts, with a log in a list."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.machines.journal import (
    AppendRefused,
    BatchTooLarge,
    DecisionFailed,
    Effects,
    EventTooLarge,
    Journal,
    OutgoingRequest,
    ProducerEpoch,
)
from kpywire import error_codes

LOADING = error_codes.COORDINATOR_LOAD_IN_PROGRESS
LOST = error_codes.NOT_COORDINATOR


class Put(NamedTuple):
    """Write a value; the reply is how often the key was written, this time included."""

    ticket: "Slip"
    key: str
    size: int = 1


class Get(NamedTuple):
    """Read how often a key was written."""

    ticket: "Slip"
    key: str


class Park(NamedTuple):
    """Answered by the next Release."""

    ticket: "Slip"


class Release(NamedTuple):
    """Answer all that is parked, after writing down that it was."""

    key: str


class Notify(NamedTuple):
    """Send a request to another node, and count it once that was committed."""

    key: str


class Notified(NamedTuple):
    key: str


class Follow(NamedTuple):
    """Write, and only note later that the write was committed."""

    key: str


class Stubborn(NamedTuple):
    """Write more than the log takes, and answer the refusal with records again."""

    key: str


class Bug(NamedTuple):
    ticket: "Slip"


class Slip:
    """A ticket that remembers what came back, and what was committed at that moment."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.answers: list[Any] = []
        self.errors: list[int] = []
        self.committed_at_answer = -1

    @property
    def is_closed(self) -> bool:
        return bool(self.answers or self.errors)

    def answer(self, message: Any) -> None:
        assert not self.is_closed
        self.answers.append(message)
        self.committed_at_answer = self.world.committed

    def fail(self, error_code: int) -> None:
        assert not self.is_closed
        self.errors.append(error_code)


class Counter:
    """A machine: how often each key was written, where last, and which tickets are parked."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        self.producers: list[ProducerEpoch | None] = []
        self.parked: list[Slip] = []
        self.notified: list[str] = []
        self.markers: list[tuple[ProducerEpoch, bool, int]] = []

    def decide(self, event: Any, _now_ms: int) -> Effects:
        match event:
            case Put(ticket, key, size):
                count = self.count.get(key, 0) + size
                return Effects(records=[key] * size, replies=[(ticket, (key, count))])
            case Get(ticket, key):
                return Effects(replies=[(ticket, (key, self.count.get(key, 0)))])
            case Park(ticket):
                self.parked.append(ticket)
                return Effects()
            case Release(key):
                parked, self.parked = self.parked, []
                return Effects(records=[key], replies=[(ticket, "released") for ticket in parked])
            case Notify(key):
                return Effects(
                    records=[key], sends=[OutgoingRequest(7, key)], then=Notified(key), producer=ProducerEpoch(5, 1)
                )
            case Follow(key):
                return Effects(records=[key], then=Notified(key))
            case Stubborn(key) | EventTooLarge(Stubborn(key)):
                return Effects(records=[key] * (World.MAX_BATCH + 1))
            case Notified(key):
                self.notified.append(key)
                return Effects()
            case EventTooLarge(Put(ticket, key, _)):
                return Effects(replies=[(ticket, (key, "too large"))])
            case _:
                raise ZeroDivisionError

    def apply(self, record: str, offset: int, producer: ProducerEpoch | None) -> None:
        self.count[record] = self.count.get(record, 0) + 1
        self.offsets[record] = offset
        self.producers.append(producer)

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:
        self.markers.append((producer, commit, offset))

    def state(self) -> object:
        return self.count, self.offsets


class World:
    """A journal with a log in a list."""

    MAX_BATCH = 5

    def __init__(self) -> None:
        self.log: list[str] = []
        self.committed = 0
        self.refusal = error_codes.NONE
        self.broken = error_codes.NONE
        self.sent: list[tuple[OutgoingRequest, int]] = []
        self.defects: list[DecisionFailed] = []
        self.machine = Counter()
        self.journal = Journal(
            self.machine,
            self.append,
            closed_error=LOADING,
            admit=lambda: self.refusal,
            send=lambda send: self.sent.append((send, self.committed)),
            report=self.defects.append,
        )

    def append(self, records: Sequence[Any], _producer: ProducerEpoch | None, _now_ms: int) -> tuple[int, int]:
        if self.broken:
            raise AppendRefused(self.broken)
        if len(records) > self.MAX_BATCH:
            raise BatchTooLarge
        first = len(self.log)
        self.log += records
        return first, len(self.log)

    def commit(self, offset: int | None = None) -> None:
        self.committed = max(self.committed, len(self.log) if offset is None else offset)
        self.journal.committed(self.committed, 0)

    def open(self) -> "World":
        self.journal.open(0, 0)
        return self

    def submit(self, event: Any, key: str | None = None, **options: Any) -> Slip | None:
        slip = getattr(event, "ticket", None)
        self.journal.submit(event, 0, ticket=slip, key=key, **options)
        return slip

    def put(self, key: str, size: int = 1) -> Slip:
        slip = Slip(self)
        self.submit(Put(slip, key, size), key)
        return slip

    def get(self, key: str) -> Slip:
        slip = Slip(self)
        self.submit(Get(slip, key), key)
        return slip
