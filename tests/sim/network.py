"""A simulated TCP: streams in order between hosts, with latency, lost packets, resets, partitions and silence.

What is sent arrives in order or not at all, in pieces of any size. A lost packet is a delay, as it is sent again. Where
the way is cut, everything waits for it, both of connections that are there and of those that are being made; a host
without power is silent, one whose process has died refuses. Sockets look to a server as the system's own.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from random import Random

    from .loop import SimulatedLoop
    from .world import World

READABLE = 1
WRITABLE = 4
GONE = 8 | 16
FIRST_DESCRIPTOR = 100
SYN_RETRY_MS = 1_000.0
RETRANSMIT_MS = 200.0
LONGEST_STRAGGLE_MS = 3_000.0
MOST_READ_BYTES = 256 * 1024


class Conditions(NamedTuple):
    """How the network is. Probabilities are of each piece of data, or each attempt to connect."""

    latency_ms: float = 0.3
    jitter_ms: float = 0.2
    loss: float = 0.0
    reset: float = 0.0
    tear: float = 0.05
    """The chance that a piece arrives in two."""
    window_bytes: int = 1 << 18
    straggle: float = 0.0
    """The chance that a piece is under way for seconds: what its sender says meanwhile over another connection arrives
    before."""


class Host:
    """A machine of the network: its name, its clocks, and who runs on it."""

    def __init__(self, world: "World", name: str, failed_with: Callable[[str, Any], None]) -> None:
        self.world = world
        self.name = name
        self.failed_with = failed_with
        self.is_powered = True
        self.rate = 1.0
        """How fast its clocks run."""
        self.wall_ms = 1_790_000_000_000.0
        """The wall clock at the beginning, with all its jumps since."""
        self._rate_from_ms = 0.0
        self._monotonic_ms = 0.0

    def monotonic_ms(self) -> float:
        """Its clock that never goes back."""
        return self._monotonic_ms + (self.world.now_ms - self._rate_from_ms) * self.rate

    def now_ms(self) -> int:
        """Its wall clock."""
        return int(self.wall_ms + self.monotonic_ms())

    def drift(self, rate: float) -> None:
        """Run its clocks at another speed from now on."""
        self._monotonic_ms, self._rate_from_ms = self.monotonic_ms(), self.world.now_ms
        self.rate = rate


class Descriptor:
    """Something that can be watched."""

    def __init__(self, network: "Network") -> None:
        self.network = network
        self.number = network.new_descriptor(self)
        self.watcher: SimulatedLoop | None = None

    def fileno(self) -> int:
        return self.number

    def is_ready(self) -> bool:
        """Whether its watcher has something to do."""
        return False

    def changed(self) -> None:
        """Its watcher may have something to do."""
        if self.watcher is not None and self.is_ready():
            self.watcher.wake()


class Epoll(Descriptor):
    """The simulation's ``select.epoll``, level-triggered."""

    def __init__(self, network: "Network") -> None:
        super().__init__(network)
        self._watched: dict[int, tuple[Socket, int]] = {}
        self._maybe: dict[int, None] = {}
        """The sockets that may be ready: nothing changed about the others since they were not."""

    def is_ready(self) -> bool:
        while self._maybe:
            number = next(iter(self._maybe))
            sock, wanted = self._watched[number]
            if sock.events(wanted):
                return True
            del self._maybe[number]
        return False

    def look_at(self, number: int) -> None:
        """Something changed about one of the sockets."""
        self._maybe[number] = None
        self.changed()

    def register(self, descriptor: int, events: int) -> None:
        sock = self.network.descriptors[descriptor]
        assert isinstance(sock, Socket)
        sock.epoll = self
        self._watched[descriptor] = sock, events
        self.look_at(descriptor)

    def modify(self, descriptor: int, events: int) -> None:
        self._watched[descriptor] = self._watched[descriptor][0], events
        self.look_at(descriptor)

    def unregister(self, descriptor: int) -> None:
        self._watched.pop(descriptor)[0].epoll = None
        self._maybe.pop(descriptor, None)

    def poll(self, _timeout: float, most: int) -> list[tuple[int, int]]:
        found = []
        for number in list(self._maybe):
            sock, wanted = self._watched[number]
            events = sock.events(wanted)
            if events:
                found.append((number, events))
            else:
                del self._maybe[number]
        return found[:most]

    def close(self) -> None:
        self._watched.clear()
        self._maybe.clear()


class End:
    """One end of a connection."""

    def __init__(self, network: "Network", host: Host, name: str) -> None:
        self.network = network
        self.host = host
        self.name = name
        self.other: End
        self.inbox = bytearray()
        self.is_ended = False
        """The other side will send no more."""
        self.error: OSError | None = None
        self.is_closed = False
        self.on_change: Callable[[], object] = _nothing
        self.last_arrival_ms = 0.0
        self.in_flight_bytes = 0
        self.held: deque[Callable[[], None]] = deque()
        """The packets that would arrive here if the way were not cut."""

    @property
    def room_bytes(self) -> int:
        """The bytes that may be sent now."""
        return max(self.network.conditions.window_bytes - self.in_flight_bytes - len(self.other.inbox), 0)

    def send(self, data: bytes) -> None:
        """Send bytes on their way."""
        self.network.carry(self, data)

    def close(self, *, is_reset: bool = False) -> None:
        """End it from this side."""
        if not self.is_closed:
            self.is_closed = True
            self.on_change = _nothing
            is_reset = is_reset or bool(self.inbox) or self.error is not None
            self.inbox.clear()
            self.network.carry(self, ConnectionResetError(104, "Connection reset by peer") if is_reset else None)

    def arrived(self, sender: "End", what: bytes | OSError | None) -> None:
        """Bytes, a reset, or the end of the stream."""
        if isinstance(what, bytes):
            sender.in_flight_bytes -= len(what)
        if self.is_closed or self.error is not None:
            if isinstance(what, bytes) and not sender.is_closed:
                self.network.carry(self, ConnectionResetError(104, "Connection reset by peer"))
            return
        if what is None:
            self.is_ended = True
        elif isinstance(what, bytes):
            self.inbox += what
        else:
            self.error = what
            self.inbox.clear()
        self.on_change()

    def take(self, most: int) -> bytes:
        """Read what has arrived."""
        data = bytes(self.inbox[:most])
        del self.inbox[:most]
        if data:
            self.other.on_change()
        return data


class Socket(Descriptor):
    """The end of a connection as a server has it."""

    def __init__(self, network: "Network", end: End) -> None:
        super().__init__(network)
        self.end = end
        self.epoll: Epoll | None = None
        end.on_change = self._changed

    def is_ready(self) -> bool:
        return bool(self.events(READABLE))

    def _changed(self) -> None:
        if self.epoll is not None:
            self.epoll.look_at(self.number)

    def events(self, wanted: int) -> int:
        """The part of ``wanted`` that is there, and events that come unasked."""
        end = self.end
        if end.error is not None:
            return READABLE & wanted | GONE
        found = READABLE if end.inbox or end.is_ended else 0
        if end.room_bytes > 0:
            found |= WRITABLE
        return found & wanted

    def recv_into(self, buffer: Any, count: int = 0, flags: int = 0) -> int:
        self._check()
        most = min(count or len(buffer), len(buffer), MOST_READ_BYTES)
        data = bytes(self.end.inbox[:most]) if flags & socket.MSG_PEEK else self.end.take(most)
        if not data and not self.end.is_ended:
            raise BlockingIOError
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: Any, _flags: int = 0) -> int:
        self._check()
        room = self.end.room_bytes
        if not room:
            raise BlockingIOError
        sent = bytes(data[:room])
        self.end.send(sent)
        return len(sent)

    def _check(self) -> None:
        if self.end.error is not None:
            raise self.end.error
        if self.end.is_closed:
            raise OSError(9, "Bad file descriptor")

    def setblocking(self, _flag: bool) -> None: ...

    def setsockopt(self, *_option: Any) -> None: ...

    def close(self) -> None:
        self.end.close()
        self.network.forget_descriptor(self)


class Listening(Descriptor):
    """A socket that has a port, and listens after `listen`."""

    def __init__(self, network: "Network", host: Host, port: int) -> None:
        super().__init__(network)
        self.host = host
        self.port = port
        self.backlog: deque[End] = deque()

    def is_ready(self) -> bool:
        return bool(self.backlog)

    def getsockname(self) -> tuple[str, int]:
        return self.host.name, self.port

    def setsockopt(self, *_option: Any) -> None: ...

    def listen(self, _backlog: int) -> None:
        self.network.take_port(self)

    def accept(self) -> tuple[Any, tuple[str, int]]:
        if not self.backlog:
            raise BlockingIOError
        end = self.backlog.popleft()
        return Socket(self.network, end), (end.other.host.name, end.other.host.world.events % 60_000)

    def close(self) -> None:
        if self.network.listening.get((self.host.name, self.port)) is self:
            del self.network.listening[self.host.name, self.port]
        for end in self.backlog:
            end.close(is_reset=True)
        self.backlog.clear()
        self.network.forget_descriptor(self)


class Transport(asyncio.Transport):
    """The end of a connection as a protocol has it."""

    def __init__(self, end: End, protocol: Any, loop: "SimulatedLoop") -> None:
        super().__init__()
        self._end = end
        self._protocol = protocol
        self._loop = loop
        self._is_due = False
        self._unsent = bytearray()
        end.on_change = self._changed
        if end.inbox or end.is_ended or end.error is not None:
            self._changed()

    def write(self, data: Any) -> None:
        self._unsent += data
        self._send()

    def _send(self) -> None:
        if self._end.error is None and not self._end.is_closed:
            room = self._end.room_bytes
            if self._unsent and room:
                self._end.send(bytes(self._unsent[:room]))
                del self._unsent[:room]

    def _changed(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_due = False
        end = self._end
        if end.is_closed:
            return
        self._send()
        if end.error is not None:
            self._lose(end.error)
        elif end.inbox:
            self._protocol.data_received(end.take(MOST_READ_BYTES))
            if end.inbox or end.is_ended:
                self._changed()
        elif end.is_ended:
            self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        self._end.close()
        self._protocol.connection_lost(error)

    def abort(self) -> None:
        self._end.close(is_reset=True)

    def close(self) -> None:
        self._end.close()

    def is_closing(self) -> bool:
        return self._end.is_closed


class Network:
    """All hosts and what is between them."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.conditions = Conditions()
        self.hosts: dict[str, Host] = {}
        self.descriptors: dict[int, Descriptor] = {}
        self.listening: dict[tuple[str, int], Listening] = {}
        self.cut: set[tuple[str, str]] = set()
        """(from, to): ways on which nothing arrives."""
        self.ends: dict[End, None] = {}
        self._rng: Random = world.stream("network")
        self._numbers = FIRST_DESCRIPTOR

    def new_descriptor(self, descriptor: Descriptor) -> int:
        self._numbers += 1
        self.descriptors[self._numbers] = descriptor
        return self._numbers

    def forget_descriptor(self, descriptor: Descriptor) -> None:
        self.descriptors.pop(descriptor.number, None)

    # What a process asks for

    def bind(self, host: Host, port: int) -> Listening:
        """A socket of a host that may listen on a port on which nobody does."""
        self._check_free(host, port)
        return Listening(self, host, port)

    def take_port(self, listening: Listening) -> None:
        """Let a socket have what comes to its port."""
        self._check_free(listening.host, listening.port)
        self.listening[listening.host.name, listening.port] = listening

    def _check_free(self, host: Host, port: int) -> None:
        if (host.name, port) in self.listening:
            raise OSError(98, "Address already in use")

    def connect(self, source: Host, loop: "SimulatedLoop", name: str, port: int, made: "asyncio.Future[Any]") -> None:
        """Make a connection; the future gets its end, or an OSError."""
        self.world.later(self._delay_ms(), self._syn, source, loop, name, port, made, SYN_RETRY_MS)

    def transport(self, end: End, protocol: Any, loop: "SimulatedLoop") -> Transport:
        """The transport that asyncio gives a protocol for its end of a connection."""
        return Transport(end, protocol, loop)

    def _syn(
        self,
        source: Host,
        loop: "SimulatedLoop",
        name: str,
        port: int,
        made: "asyncio.Future[Any]",
        retry_ms: float,
    ) -> None:
        if made.done() or not loop.is_alive:
            return
        target = self.hosts[name]
        is_open = not self.is_cut(source, target) and not self.is_cut(target, source) and target.is_powered
        if not is_open or self._rng.random() < self.conditions.loss:
            self.world.later(retry_ms, self._syn, source, loop, name, port, made, 2 * retry_ms)
            return
        listening = self.listening.get((name, port))
        if listening is None:
            refused = ConnectionRefusedError(111, "Connection refused")
            self.world.later(self._delay_ms(), self._refuse, loop, made, refused)
            return
        here, there = End(self, source, f"{source.name}>{name}"), End(self, target, f"{name}<{source.name}")
        here.other, there.other = there, here
        self.ends[here] = self.ends[there] = None
        listening.backlog.append(there)
        listening.changed()
        self.world.later(self._delay_ms(), self._connected, loop, made, here)

    def _refuse(self, loop: "SimulatedLoop", made: "asyncio.Future[Any]", error: OSError) -> None:
        if loop.is_alive and not made.done():
            made.set_exception(error)

    def _connected(self, loop: "SimulatedLoop", made: "asyncio.Future[Any]", end: End) -> None:
        if not loop.is_alive:
            return
        if made.done():
            end.close(is_reset=True)
        else:
            made.set_result(end)

    # Packets

    def is_cut(self, source: Host, target: Host) -> bool:
        """Whether nothing goes this way."""
        return (source.name, target.name) in self.cut

    def _delay_ms(self) -> float:
        conditions = self.conditions
        return conditions.latency_ms + self._rng.random() * conditions.jitter_ms

    def carry(self, sender: End, what: bytes | OSError | None) -> None:
        """Bring something to the other end, behind what was sent before."""
        rng, conditions = self._rng, self.conditions
        if isinstance(what, bytes):
            sender.in_flight_bytes += len(what)
            if rng.random() < conditions.reset:
                self.world.tell(f"{sender.name} is reset")
                broken = ConnectionResetError(104, "Connection reset by peer")
                sender.other.arrived(sender, broken)
                sender.arrived(sender.other, broken)
                return
            if len(what) > 1 and rng.random() < conditions.tear:
                at = rng.randrange(1, len(what))
                self._carry(sender, what[:at])
                what = what[at:]
        self._carry(sender, what)

    def _carry(self, sender: End, what: bytes | OSError | None) -> None:
        receiver = sender.other
        arrival_ms = max(receiver.last_arrival_ms, self.world.now_ms + self._delay_ms())
        if self._rng.random() < self.conditions.loss:
            arrival_ms += RETRANSMIT_MS
        if self.conditions.straggle and self._rng.random() < self.conditions.straggle:
            arrival_ms += self._rng.random() * LONGEST_STRAGGLE_MS
        receiver.last_arrival_ms = arrival_ms
        self.world.later(arrival_ms - self.world.now_ms, self._arrive, sender, what)

    def _arrive(self, sender: End, what: bytes | OSError | None) -> None:
        receiver = sender.other
        if receiver.held or self.is_cut(sender.host, receiver.host):
            receiver.held.append(lambda: receiver.arrived(sender, what))
        elif receiver.host.is_powered:
            if isinstance(what, bytes):
                self.world.note(what, sender.name)
            receiver.arrived(sender, what)
        if what is None or isinstance(what, OSError):
            self._forget_closed(sender)

    def _forget_closed(self, end: End) -> None:
        if end.is_closed and end.other.is_closed:
            self.ends.pop(end, None)
            self.ends.pop(end.other, None)

    # What happens to it

    def isolate(self, source: str, target: str) -> None:
        """Let nothing arrive that goes this way."""
        self.cut.add((source, target))

    def heal(self) -> None:
        """All ways are open; what waited arrives soon."""
        self.cut.clear()
        for end in list(self.ends):
            if end.held:
                self.world.later(RETRANSMIT_MS * self._rng.random(), self._release, end)

    def _release(self, end: End) -> None:
        while end.held and not self.is_cut(end.other.host, end.host):
            if end.host.is_powered:
                end.held.popleft()()
            else:
                end.held.clear()

    def process_died(self, host: Host) -> None:
        """Its sockets are closed by the system."""
        for listening in [each for each in self.listening.values() if each.host is host]:
            listening.close()
        for end in [each for each in self.ends if each.host is host]:
            end.close()

    def power_failed(self, host: Host) -> None:
        """It falls silent: nobody hears of it."""
        host.is_powered = False
        for listening in [each for each in self.listening.values() if each.host is host]:
            del self.listening[host.name, listening.port]
            listening.backlog.clear()
        for end in [each for each in self.ends if each.host is host]:
            end.is_closed = True
            end.on_change = _nothing
            end.inbox.clear()

    def power_back(self, host: Host) -> None:
        """It is there again, and knows of no connection."""
        host.is_powered = True
        for end in [each for each in self.ends if each.host is host]:
            self._carry(end, ConnectionResetError(104, "Connection reset by peer"))


def _nothing() -> None:
    """Nobody wants to know."""


class SimulatedSockets:
    """The calls of a server of a host to its system."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network = network
        self._host = host

    def bind(self, _host: str, port: int, _receive_buffer_bytes: int) -> Any:
        """A socket that has a port."""
        return self._network.bind(self._host, port)

    def epoll(self) -> Epoll:
        """A new one."""
        return Epoll(self._network)
