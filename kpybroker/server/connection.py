"""One client connection: frames in, replies out, in the order of the requests.

It owns a non-blocking socket registered with the loop by ``add_reader``: no task, future or transport per connection,
and one receive buffer for all of them; only an incomplete frame is copied. As in Kafka one request of a connection is
served at a time, except that a Produce whose order is fixed by its append lets the next Produce start.
While a reply cannot be sent because the client does not read, no further request of it is served.
"""

import errno
import logging
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from kpybroker.counters import BRIEF_NS, UNCOUNTED, Due, count_sent
from kpybroker.server.backlog import Held
from kpybroker.server.frames import (
    END_TXN,
    LARGE_BYTES,
    PRODUCE,
    SIZE,
    SMALLEST_FRAME_BYTES,
    WHOLE,
    CloseConnection,
    Dispatch,
    api_key_at,
    checked_size,
)
from kpybroker.server.line import PIECE_NS, Debtor
from kpybroker.server.outbox import Outbox, Reply
from kpybroker.server.pending import Pending
from kpybroker.server.poller import GONE, READABLE, WRITABLE
from kpybroker.server.turn import UNWRITTEN

if TYPE_CHECKING:
    from kpybroker.server.listener import Server

log = logging.getLogger("kpybroker.server")

FIRST_BODY_BYTES = 64 * 1024
FLUSH_BYTES = 64 * 1024
"""Replies of pipelined requests are sent together up to this size."""
SHORT_READ_BYTES = 4096
LARGE_BODY_BYTES = 128 * 1024
"""Copying larger requests takes as long as serving dozens of small ones: with many others it waits in the line."""
FRAMES_PER_PIECE = 16
"""After so many frames of one connection the others get their turn, or after half the time of a piece."""
RESUME = 32
"""Beside the events of the poller: there is something to serve that was read before."""
_GONE = (errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTUNREACH, errno.EBADF)


class Connection(Debtor):
    """A socket, what is half read from it, what is half written to it, and the replies that are still due."""

    __slots__ = (
        "_body", "_body_filled", "_body_size", "_due_events", "_held_back", "_is_aside", "_is_in_line", "_is_watched",
        "_paused", "_reading", "_send_began_ns", "_unsent", "_wants_writable", "_writing", "answered_ns",
        "arrived_ns", "body_since_ms", "calls", "client_host", "client_port", "client_software", "closed",
        "counters", "dispatch", "in_transactions", "last_active_ms", "listener_name", "on_close", "outbox",
        "principal", "reading", "server", "sock", "waiting",
    )  # fmt: skip

    def __init__(
        self, server: "Server", sock: socket.socket, listener_name: str, peer: tuple[str, int], dispatch: Dispatch
    ) -> None:
        self.dispatch = dispatch
        self.server = server
        self.sock = sock
        self.listener_name = listener_name
        self.client_host, self.client_port = peer
        self.calls: dict[tuple[int, int], Any] = {}
        """Where the dispatcher keeps what it knows of this client's requests."""
        self.client_software: tuple[str, str] = ("unknown", "unknown")
        self.principal = "User:ANONYMOUS"
        self.reading: Any = None
        """What it fetched last outside of a fetch session, to be closed with it."""
        self.on_close: Callable[[], object] | None = None
        self.in_transactions = False
        """Whether something it asked belonged to a transaction: then others' EndTxn go first (`Aside`)."""
        self.outbox = Outbox(sock, server.read_in_thread, self._on_writable)
        self.waiting: deque[Pending] = deque()
        self.closed = False
        super().__init__(server.line)
        self._due_events = 0
        """What it waits in the line for."""
        self._is_in_line = False
        self.last_active_ms = server.scheduler.monotonic_ms()
        self._body: bytearray | None = None
        self._body_filled = self._body_size = self._send_began_ns = 0
        self.body_since_ms = 0.0
        """When the bytes that are kept began to come."""
        self.arrived_ns = 0
        """When the bytes that are being served were found to be readable."""
        self.answered_ns = 0
        """When the dispatcher was done with the request it has served last; ``counters`` are those of its kind."""
        self.counters = UNCOUNTED
        self._unsent: list[Due] = []
        """Of the replies in the outbox."""
        self._held_back = self._writing = self._wants_writable = self._paused = self._is_aside = False
        self._is_watched = self._reading = True
        server.poller.add(sock.fileno(), self._on_event)

    def __str__(self) -> str:
        return f"{self.client_host}:{self.client_port}"

    def _on_event(self, events: int) -> None:
        if events & GONE and self._paused:
            # Nobody is left to answer, and what was read before this is not waited for.
            self.close()
            return
        is_due_later = self.owed_ns or (self._body_size > LARGE_BODY_BYTES and self.server.turn.is_on)
        if is_due_later and not (self.in_transactions and self._goes_first(events)):
            self.server.line.lined_up += 1
            self._line_up(events)
            return
        if events & WRITABLE:
            self._on_writable()
        if events & READABLE and not self.closed:
            self.arrived_ns = self.server.poller.turn_ns
            self._on_readable()

    def _goes_first(self, events: int) -> bool:
        """Whether it ends a transaction: then it goes before those in the line, whatever it owes."""
        has_more = self._body is not None or self._is_in_line or self._paused
        return events == READABLE and not has_more and self.server.aside.is_end(self.sock)

    def _watch(self) -> None:
        """Ask to be told of what matters now."""
        if self._is_watched:
            self.server.poller.change(self.sock.fileno(), self._events())

    def _events(self) -> int:
        return (READABLE if self._reading else 0) | (WRITABLE if self._wants_writable else 0)

    # In the line

    def _line_up(self, events: int) -> None:
        """Be served when it is its turn, and not be looked at before."""
        self._due_events |= events
        if self._is_in_line:
            # Found to be readable again: it will be every time, so it is not looked at until it was served.
            if self._is_watched:
                self._is_watched = False
                self.server.poller.remove(self.sock.fileno())
            return
        self._is_in_line = True
        self.arrived_ns = self.server.poller.turn_ns
        if self.is_long:
            self.server.line.join_long(self)
        else:
            self.server.line.join(self.serve_piece, self.owed_ns)

    def serve_piece(self) -> None:
        """It is this one's turn in the line."""
        self._is_in_line = False
        if self.closed:
            return
        began_ns, answered_ns = thread_time_ns(), self.answered_ns
        was_long, self.is_long = self.is_long, False
        self.is_admitted = self.is_admitted or was_long
        events, self._due_events = self._due_events, 0
        if events & RESUME:
            self.resume()
        if events & WRITABLE and not self.closed:
            self._on_writable()
        if events & READABLE and not self.closed:
            self._on_readable()
        self.settle(thread_time_ns() - began_ns)
        if was_long and self.answered_ns == answered_ns:
            self.is_long = True  # what it asks has not come as a whole
        self._watch_again()

    def _watch_again(self) -> None:
        if not (self._is_watched or self._is_in_line or self.closed):
            self._is_watched = True
            self.server.poller.add(self.sock.fileno(), self._on_event, self._events())

    def resume_soon(self) -> None:
        """`resume`, when it is its turn."""
        if self.owed_ns:
            self._line_up(RESUME)
        else:
            self.server.loop.call_soon(self.resume)

    # Reading

    def _on_readable(self) -> None:
        if self._paused:
            self._stop_reading()
            return
        self.last_active_ms = self.server.poller.now_ms
        try:
            if self._body is None:
                self._read_frames()
            else:
                self._read_body()
        except (BlockingIOError, InterruptedError):
            return
        except Exception as error:
            self.end_with(error)

    def _read_frames(self) -> None:
        server = self.server
        # While memory is short, no more is read than may have to be kept; with many others, no more than is brief.
        most = SHORT_READ_BYTES if server.budget.is_short else LARGE_BODY_BYTES if server.turn.is_on else 0
        count = self.sock.recv_into(server.scratch, most)
        if count == 0:
            self.close()
            return
        view = server.scratch_view
        if count > SMALLEST_FRAME_BYTES and not (self.waiting or self._writing):
            (size,) = SIZE.unpack_from(view)
            if size == count - 4 and SMALLEST_FRAME_BYTES <= size <= server.max_request_bytes:
                if size > LARGE_BYTES and not self._may_begin(view, 4, count):
                    self._keep(view[:count])
                    self._paused = True
                    return
                self._serve_alone(view[4:count])
                return
        self._serve_or_keep(view, count)

    def _serve_or_keep(self, view: memoryview, count: int) -> None:
        done = self._serve(view, count)
        if done < count and not self.closed:
            self._keep(view[done:count])

    def _serve_alone(self, frame: memoryview) -> None:
        """The usual case: one whole frame, with nothing before it and nothing behind it."""
        turn = self.server.turn
        goes_first = False
        if self.in_transactions and turn.is_shared:
            goes_first = api_key_at(frame, 0) == END_TXN
            if not goes_first and self.server.aside.takes(self, frame):
                self._paused = self._is_aside = True
                return
        reply = turn.outside(self.dispatch, self, frame) if goes_first else self.dispatch(self, frame)
        if type(reply) is bytes:
            if turn.is_on and not goes_first:
                turn.put(self, reply)
            else:
                self._send_at_once(reply)
        elif isinstance(reply, Pending):
            self.waiting.append(reply)
            reply.when_resolved(self._on_resolved)
        elif reply is not None and not self.closed:
            self._put(reply, self._due())
            self._flush()

    def serve_aside(self, frame: memoryview) -> None:
        """The request that was put aside."""
        if self.closed:
            return
        self._paused = self._is_aside = False
        try:
            self._serve_alone(frame)
        except Exception as error:
            self.end_with(error)
        self._read_on()

    def answer(self, reply: bytes) -> None:
        """Send the reply that has waited for the turn; nothing stands before it."""
        try:
            self._send_at_once(reply)
        except Exception as error:
            self.end_with(error)

    def _send_at_once(self, reply: bytes) -> None:
        """Send a reply that nothing stands before; what the socket does not take waits in the outbox."""
        try:
            sent = self.sock.send(reply)
        except (BlockingIOError, InterruptedError):
            sent = 0
        self.outbox.sent_bytes += sent
        if sent < len(reply):
            self._put(reply[sent:], self._due())
            self._flush()
            return
        # As in the dispatcher: most replies go this way.
        counters = self.counters
        now_ns = perf_counter_ns()
        send_ns = now_ns - self.answered_ns
        total_ns = now_ns - self.arrived_ns
        if send_ns > BRIEF_NS:
            counters.send[(send_ns * send_ns).bit_length()] += 1
        counters.total[(total_ns * total_ns).bit_length()] += 1

    def _due(self) -> Due:
        """Of the request that was served last, which was answered at once."""
        return self.counters, self.arrived_ns, self.answered_ns, self.answered_ns

    def _put(self, reply: Reply, due: Due) -> None:
        """Queue a reply, and remember whose it is."""
        self._unsent.append(due)
        self.outbox.put(reply)

    def _read_body(self) -> None:
        """Go on filling the buffer of an incomplete frame; serve it when it is whole."""
        body = self._body
        assert body is not None
        with memoryview(body) as view:
            # The buffer may be longer than the frame, of which nothing behind its end is read.
            count = self.sock.recv_into(view[self._body_filled : self._body_size or len(body)])
        if count == 0:
            self.close()
            return
        self._body_filled += count
        if self._body_filled == 4 and self._body_size == 0:
            self._body_size = 4 + self._checked_size(body)
        if self._body_filled < self._body_size or self._body_size == 0:
            if self._body_filled == len(body):
                self._grow_body()
            return
        self._serve_kept()

    def _serve_kept(self) -> None:
        """Serve the frames in the kept buffer; what cannot be served yet is kept again."""
        body, filled, size = self._body, self._body_filled, self._body_size
        assert body is not None
        self._body, self._body_size = None, 0
        view = memoryview(body)
        done = self._serve(view, filled)
        if self.closed:
            return
        if done == 0:
            view.release()
            self._body, self._body_size = body, size  # its turn has not come
            return
        if done < filled:
            self._keep(view[done:filled])
        else:
            self.server.budget.release(self)
        view.release()
        self.server.recycle(body)

    def _keep(self, rest: memoryview) -> None:
        """Hold on to bytes that cannot be served now: an incomplete frame, or frames that must wait their turn."""
        have = len(rest)
        self._body_size = size = 4 + self._checked_size(rest) if have >= 4 else 0
        spare = self.server.spare_body(size) if size > have else None
        if spare is not None:
            wanted = len(spare)
        elif size > have:
            wanted = min(size, max(2 * have, FIRST_BODY_BYTES))
        else:
            wanted = max(4, have)
        granted = self.server.budget.grow(self, wanted, self.resume)
        body = spare if granted and spare is not None else bytearray(wanted if granted else max(4, have))
        body[:have] = rest
        self._body, self._body_filled = body, have
        self.body_since_ms = self.server.poller.now_ms
        if not granted:
            self._paused = True

    def _grow_body(self) -> None:
        body = self._body
        assert body is not None
        wanted = min(self._body_size, max(2 * len(body), FIRST_BODY_BYTES))
        if not self.server.budget.grow(self, wanted, self.resume):
            self._paused = True
            return
        body.extend(bytes(wanted - len(body)))

    def _checked_size(self, buffer: memoryview | bytearray, position: int = 0) -> int:
        return checked_size(buffer, position, self.server.max_request_bytes)

    # Serving

    def _serve(self, view: memoryview, end: int) -> int:
        """Serve whole frames of ``view[:end]`` in order; the position of the first byte that was not served."""
        position = 0
        frames = 0
        until_ns = perf_counter_ns() + PIECE_NS // 2
        dispatch = self.dispatch
        outbox = self.outbox
        while end - position >= 4:
            stop = position + 4 + self._checked_size(view, position)
            if stop > end:
                break
            if (self.waiting or self._writing) and not self._may_start(view, position + 4):
                self._paused = True
                break
            if frames == FRAMES_PER_PIECE or (frames and self.answered_ns > until_ns):
                self._paused = True
                self.owed_ns = max(self.owed_ns, PIECE_NS)
                self._line_up(RESUME)
                break
            if stop - position > LARGE_BYTES and not self._may_begin(view, position + 4, stop):
                self._paused = True
                break
            frames += 1
            reply = dispatch(self, view[position + 4 : stop])
            position = stop
            if reply is not None:
                if isinstance(reply, Pending):
                    self.waiting.append(reply)
                    reply.when_resolved(self._on_resolved)
                elif self.waiting:
                    self._queue_resolved(reply)
                else:
                    self._put(reply, self._due())
                    if outbox.queued_bytes > FLUSH_BYTES:
                        self._flush()
            if self.closed:
                return position
        if outbox:
            self._flush()
        return position

    def _may_begin(self, view: memoryview, start: int, stop: int) -> bool:
        """Whether a large request may be worked on now. The bytes of a Produce or a Fetch are no such work."""
        api_key = api_key_at(view, start)
        return api_key in WHOLE or self.server.slices.may_begin(self, stop - start, api_key)

    def wait_for_time(self) -> None:
        """Go on in the line when there is time for what takes long."""
        self.is_long = True
        self._line_up(RESUME)

    def _may_start(self, view: memoryview, header: int) -> bool:
        """Whether the next request may be served while earlier replies are due or cannot be sent."""
        if self._writing:
            return False
        if not self.waiting:
            return True
        return api_key_at(view, header) == PRODUCE and all(pending.overlaps for pending in self.waiting)

    def _queue_resolved(self, reply: "Reply") -> None:
        behind = Pending(overlaps=True)
        behind.due = self._due()
        behind.resolve(reply)
        self.waiting.append(behind)

    def _on_resolved(self, _reply: "Reply | None") -> None:
        if self.closed:
            return
        waiting = self.waiting
        try:
            while waiting and waiting[0].resolved:
                pending = waiting.popleft()
                if pending.response is not None:
                    counters, arrived_ns, parked_ns, _ = pending.due
                    self._put(pending.response, (counters, arrived_ns, parked_ns, pending.resolved_ns))
        except Exception as error:
            self.end_with(error)
            return
        if self.outbox:
            self._flush()
        if self._paused and not self.closed:
            self.resume_soon()

    def _stop_reading(self) -> None:
        """Readable although nothing may be served: either more requests, which can wait, or the end."""
        try:
            if self.sock.recv(1, socket.MSG_PEEK) == b"":
                self.close()
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error)
            return
        self._reading = False
        self._watch()

    def resume(self) -> None:
        """Serve on: a reply left, the client read, or memory became free."""
        if self.closed or not self._paused or self._is_aside:
            return
        self._paused = False
        self.arrived_ns = perf_counter_ns()
        try:
            if self._body is not None:
                self._serve_or_grow()
        except Exception as error:
            self.end_with(error)
        self._read_on()

    def _read_on(self) -> None:
        if not self._paused and not self._reading and not self.closed:
            self._reading = True
            self._watch()

    def _serve_or_grow(self) -> None:
        body = self._body
        assert body is not None
        if self._body_size and self._body_filled >= self._body_size:
            self._serve_kept()
        elif self._body_filled == len(body):
            self._grow_body()
        elif not self.server.budget.grow(self, len(body), self.resume):
            self._paused = True

    # Writing

    def _flush(self) -> None:
        if not self._may_answer():
            self.give_up(UNWRITTEN)
            return
        if self._unsent and not self._send_began_ns:
            self._send_began_ns = perf_counter_ns()
        try:
            done = self.outbox.flush()
        except OSError as error:
            self._lost(error)
            return
        if done:
            if self._unsent:
                self._count_sent()
            if self._held_back:
                self._held_back = False
                self.server.backlog.release(self)
            if self._writing:
                self._writing = False
                self._want_writable(False)
                if self._paused:
                    self.resume_soon()
        else:
            self._writing = self._held_back = True
            # While a thread reads for the outbox there is nothing to write.
            self._want_writable(not self.outbox.waits_for_disk)
            self.server.backlog.hold(self, Held(self.outbox.held_bytes, self.outbox.held_files))

    def _may_answer(self) -> bool:
        """Whether all that replies may speak of is written."""
        turn = self.server.turn
        return not turn.is_on or turn.settle()

    def _count_sent(self) -> None:
        """The outbox is empty: its requests are done."""
        count_sent(self._unsent, self._send_began_ns)
        self._send_began_ns = 0
        self._unsent.clear()

    def _want_writable(self, wanted: bool) -> None:
        if wanted != self._wants_writable:
            self._wants_writable = wanted
            self._watch()

    def _on_writable(self) -> None:
        if not self.closed:
            self.last_active_ms = self.server.poller.now_ms
            self._flush()

    # The end

    def end_with(self, error: Exception) -> None:
        """Close because of what came up while the client was served."""
        if isinstance(error, CloseConnection):
            self._say_why(logging.INFO, str(error))
            with suppress(OSError):
                if self._may_answer():
                    self.outbox.flush()  # the answers to what it asked before, as far as they go
            self.close()
        elif isinstance(error, OSError):
            self._lost(error)
        else:
            log.error("closing the connection of %s", self, exc_info=error)
            self.close()

    def give_up(self, reason: str) -> None:
        """Close a connection that costs the others too much."""
        self._say_why(logging.INFO, reason)
        self.close()

    def _lost(self, error: OSError) -> None:
        if error.errno not in _GONE and not isinstance(error, ConnectionError):
            self._say_why(logging.WARNING, str(error))
        self.close()

    def _say_why(self, level: int, reason: str) -> None:
        """One line for an offence, and a count of those like it: what differs is behind the colon."""
        kind = f"closing connections of {self.client_host}: {reason.partition(':')[0]}"
        self.server.complaints.say(log, level, kind, "closing the connection of %s: %s", self, reason)

    def close(self) -> None:
        """Close the socket and forget everything that was due. Safe to call twice."""
        if self.closed:
            return
        self.closed = True
        self.server.poller.remove(self.sock.fileno())
        self.sock.close()
        for pending in self.waiting:
            pending.cancel()
        self.waiting.clear()
        self.outbox.clear()
        self._unsent.clear()
        if self.reading is not None:
            self.reading.close()
            self.reading = None
        if self.on_close is not None:
            self.on_close()
        self.calls.clear()  # they name this connection: without them it is gone at once, not at the next collection
        self._body = None
        self.server.budget.release(self)
        self.server.backlog.release(self)
        self.server.forget(self)
