"""Virtual time: what is due when, one event after the other; what happened, for people and as one number.

All that is random comes from streams that follow from the seed and a name. A violation of what must hold ends the
simulation where it is found.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

from .processor import PROCESSOR

if TYPE_CHECKING:
    from .network import Host

NS_PER_MS = 1_000_000
LAST_EVENTS = 400
MOST_EVENTS = 3_000_000


class Violation(AssertionError):
    """Something does not hold that must."""


class Timer:
    """Something that is due, and may be called off."""

    __slots__ = ("arguments", "call")

    def __init__(self, call: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
        self.call = call
        self.arguments = arguments

    def cancel(self) -> None:
        self.call = None
        self.arguments = ()


class World:
    """The one of a seed."""

    def __init__(self, seed: int, *, records_everything: bool = False) -> None:
        self.seed = seed
        self.records_everything = records_everything
        self.now_ms = 0.0
        self.events = 0
        self.digest = 0
        """The digest of everything that happened until now."""
        self.violation: Violation | None = None
        self.after_event: tuple[Callable[[], None], ...] = ()
        self.acted: Host | None = None
        """The host whose process did something in this event: one at most."""
        self.when_acting: Callable[[Host], None] = lambda _host: None
        """Told of a host before its process does something."""
        self.is_ending: Callable[[int], None] = lambda _node_id: None
        """Told of every node that is about to be asked to end a transaction."""
        self.is_proposed: Callable[[], None] = lambda: None
        """Told when a leader proposes an in-sync set."""
        self.is_decided: Callable[[], None] = lambda: None
        """Told when a record is acknowledged, or a log is cut."""
        self.reported: deque[str] = deque(maxlen=None if records_everything else LAST_EVENTS)
        self._due: list[tuple[float, int, Timer]] = []
        self._numbers = 0
        self._streams: dict[str, Random] = {}
        PROCESSOR.reset(self.stream("processor").choice((100, 2_000, 20_000, 60_000)))

    def stream(self, name: str) -> Random:
        """The random numbers of one purpose."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(f"{self.seed}/{name}")
        return found

    # Time

    def later(self, delay_ms: float, call: Callable[..., object], *arguments: Any) -> Timer:
        """Have something done after ``delay_ms``."""
        timer = Timer(call, arguments)
        self._numbers += 1
        heappush(self._due, (self.now_ms + delay_ms, self._numbers, timer))
        return timer

    def run(self, duration_ms: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; whether ``until`` came true. Raises Violation."""
        end_ms = self.now_ms + duration_ms
        due, set_time = self._due, PROCESSOR.set_time
        while due and due[0][0] <= end_ms:
            self.now_ms, _, timer = heappop(due)
            call = timer.call
            if call is None:
                continue
            set_time(int(self.now_ms * NS_PER_MS))
            self.events += 1
            call(*timer.arguments)
            for look in self.after_event:
                look()
            if self.violation is not None:
                raise self.violation
            if self.events > MOST_EVENTS:
                raise Violation("it does not come to rest")
            if until is not None and until():
                return True
        self.now_ms = max(self.now_ms, end_ms)
        return until is not None and until()

    def acts(self, host: "Host") -> None:
        """The process of a host does something now."""
        self.acted = host
        self.when_acting(host)

    # What happened

    def tell(self, line: str) -> None:
        """Something happened that a reader of the trace wants to see; all of it is part of the digest."""
        line = f"{self.now_ms:12.3f} {line}"
        self.digest = crc32(line.encode(), self.digest)
        self.reported.append(line)

    def note(self, data: bytes, what: str) -> None:
        """Something happened that only the digest knows, and who wants to see everything."""
        self.digest = crc32(data, self.digest)
        if self.records_everything:
            self.reported.append(
                f"{self.now_ms:12.3f}     {what} {len(data)} bytes {self.digest:08x} {data[:12].hex()}"
            )

    def violated(self, what: str) -> None:
        """Something does not hold: the simulation ends after this event."""
        self.tell(f"VIOLATION {what}")
        if self.violation is None:
            self.violation = Violation(what)
