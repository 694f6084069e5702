"""Thousands of damaged requests a second: several connections, several requests on each before the first answer.

Behind every request goes a question that every broker answers, numbered, so that what was answered is known when the
broker closes: the first request without such an answer is the offender, and the others are sent again. A frame that
lies about its size goes alone, and the connection is shut behind it.
"""

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator

from damage import Damaged
from watched import PATIENCE_S

from kpywire import api

LANES = 16
PIPELINED = 8
PARKED_S = 0.3
"""A damaged request may ask to wait for days: nobody waits longer for its answer."""
MAY_WAIT = frozenset({api.FETCH, api.JOIN_GROUP, api.SYNC_GROUP, api.CONSUMER_GROUP_HEARTBEAT})
BLIND_S = 0.2
LARGEST_ANSWER_BYTES = 1 << 30
_FENCE = struct.Struct(">ihhih")
FENCE_BYTES = 10
FIRST_FENCE = 0x7EACE000


class Unanswered(AssertionError):
    """Neither an answer nor the end of the connection. ``suspects``: what may be the cause, the likeliest first."""

    def __init__(self, suspects: list[Damaged]) -> None:
        super().__init__(f"neither an answer nor the end of the connection: {suspects[0]}")
        self.suspects = suspects


class _Lane:
    """One connection at a time, with the requests that are under way on it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sent: deque[Damaged] = deque()
        self.first_number = 0
        self.heard_s = 0.0
        self.received = bytearray()
        self.sock: socket.socket | None = None
        self.is_over = False

    def send(self, requests: list[Damaged]) -> socket.socket:
        sock = self.sock
        if sock is None:
            sock = self.sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent.extend(requests)
        self.first_number = 0
        parts = []
        for number, request in enumerate(requests):
            parts.append(request.frame)
            if request.frame_size is None:
                parts.append(_FENCE.pack(FENCE_BYTES, api.API_VERSIONS, 0, FIRST_FENCE + number, -1))
        self.heard_s = time.monotonic()
        try:
            sock.sendall(b"".join(parts))
            if requests[0].frame_size is not None:
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the broker has closed, which is read
        return sock

    def read(self) -> bool:
        """Take in what came; False when the broker has closed."""
        assert self.sock is not None
        try:
            chunk = self.sock.recv(1 << 18)
        except OSError:
            chunk = b""
        if not chunk:
            return False
        self.heard_s = time.monotonic()
        received = self.received
        received += chunk
        position = 0
        while len(received) - position >= 8:
            size, correlation_id = struct.unpack_from(">ii", received, position)
            assert 4 <= size <= LARGEST_ANSWER_BYTES, f"an answer of {size} bytes to one of {list(map(str, self.sent))}"
            if len(received) - position < 4 + size:
                break
            position += 4 + size
            self._answered(correlation_id - FIRST_FENCE)
        del received[:position]
        return True

    @property
    def deadline_s(self) -> float:
        """Until when the first request is waited for."""
        return self.heard_s + (PARKED_S if self.sent[0].specimen.key in MAY_WAIT else PATIENCE_S)

    def _answered(self, number: int) -> None:
        if self.first_number <= number < self.first_number + len(self.sent):
            while self.first_number <= number:
                self.sent.popleft()
                self.first_number += 1

    def end(self) -> None:
        """Leave the connection, with a reset: nothing lingers."""
        if self.sock is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()
        self.sock = None
        self.is_over = False
        self.received.clear()


class Volley:
    """``sent`` and ``closed`` count requests and those that the broker answered by closing."""

    def __init__(self, port: int, lanes: int = LANES, pipelined: int = PIPELINED) -> None:
        self.lanes = [_Lane(port) for _ in range(lanes)]
        self.pipelined = pipelined
        self.sent = self.closed = self.parked = 0
        self._looked_s = time.monotonic()

    def fire(self, requests: Iterator[Damaged], every: Callable[[list[Damaged]], object] | None = None) -> None:
        """Send them all. ``every`` is called now and then with what was sent since. Raises `Unanswered`."""
        again: deque[Damaged] = deque()
        recent: list[Damaged] = []
        busy: dict[int, _Lane] = {}
        idle = list(self.lanes)
        poll = select.epoll()
        try:
            while True:
                while idle:
                    group = self._group(requests, again)
                    if not group:
                        break
                    recent += group
                    lane = idle.pop()
                    sock = lane.send(group)
                    poll.register(sock.fileno(), select.EPOLLIN)
                    busy[sock.fileno()] = lane
                if not busy:
                    break
                for descriptor in self._turn(poll, busy, again):
                    poll.unregister(descriptor)
                    lane = busy.pop(descriptor)
                    if lane.is_over:
                        lane.end()
                    idle.append(lane)
                if every is not None and len(recent) >= 1000:
                    every(recent)
                    recent = []
        finally:
            poll.close()
            for lane in self.lanes:
                lane.end()
                lane.sent.clear()
        if every is not None:
            every(recent)

    def _group(self, requests: Iterator[Damaged], again: deque[Damaged]) -> list[Damaged]:
        """The requests that go out together: those that are likely to end their connection go alone."""
        group: list[Damaged] = []
        while len(group) < self.pipelined:
            request = again.popleft() if again else next(requests, None)
            if request is None:
                break
            alone = request.frame_size is not None or request.kind == "cut off"
            if alone and group:
                again.appendleft(request)
                break
            group.append(request)
            if alone:
                break
        self.sent += len(group)
        return group

    def _turn(self, poll: select.epoll, busy: dict[int, _Lane], again: deque[Damaged]) -> list[int]:
        """Read what came; the descriptors of lanes that are done."""
        done = []
        for descriptor, _ in poll.poll(0.05):
            lane = busy[descriptor]
            if not lane.read():
                self._closed(lane, again)
                done.append(descriptor)
            elif not lane.sent:
                done.append(descriptor)
        now = time.monotonic()
        blind_s, self._looked_s = now - self._looked_s, now
        for descriptor, lane in busy.items():
            if blind_s > BLIND_S:  # this process was not running: what came meanwhile is yet to be read
                lane.heard_s += blind_s
            if lane.sent and lane.deadline_s < now and descriptor not in done:
                self._late(lane, again)
                done.append(descriptor)
        return done

    def _closed(self, lane: _Lane, again: deque[Damaged]) -> None:
        self.closed += 1
        if lane.sent:
            lane.sent.popleft()
        self._repeat(lane, again)

    def _late(self, lane: _Lane, again: deque[Damaged]) -> None:
        first = lane.sent[0]
        if first.specimen.key not in MAY_WAIT:
            raise Unanswered(list(lane.sent))
        self.parked += 1
        lane.sent.popleft()
        self._repeat(lane, again)

    def _repeat(self, lane: _Lane, again: deque[Damaged]) -> None:
        self.sent -= len(lane.sent)
        again.extend(lane.sent)
        lane.sent.clear()
        lane.is_over = True
