"""One client connection: it reads request frames and sends the replies in the order of the requests.

It owns a channel (`kpybroker.requests.server.channel`), whose events call it. There is no task, future or transport per
connection, and one receive buffer serves all connections; only an incomplete frame is copied. As in Kafka, one request
of a connection is served at a time. The exception is a Produce whose order is fixed by its append: the next Produce may
start. While the client does not read its replies, none of its further requests is served.
"""

import logging
from collections import deque
from contextlib import suppress
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Final

from kpybroker.requests.server.backlog import HeldResources
from kpybroker.requests.server.channel import GONE_ERRNOS, Channel, has_ended
from kpybroker.requests.server.frames import LEAST_FRAME_BYTES, SIZE, Dispatch, checked_size, next_bytes, trait_of_one
from kpybroker.requests.server.mutes import Mute
from kpybroker.requests.server.outbox import Outbox, Reply
from kpybroker.requests.server.phases import ASIDE, CLOSED, MAY_FOLLOW, PAUSED, SERVING
from kpybroker.requests.server.poller import GONE, READABLE, WRITABLE
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import LARGE_BYTES, Work
from kpybroker.runtime.counters import BRIEF_NS, UNCOUNTED, Due
from kpybroker.runtime.fairness.debtor import Debtor
from kpybroker.runtime.fairness.times import PIECE_NS
from kpybroker.runtime.fairness.turn import UNWRITTEN

if TYPE_CHECKING:
    from kpybroker.requests.server.listener import Server

log = logging.getLogger("kpybroker.server")

FLUSH_BYTES: Final = 64 * 1024  # replies of pipelined requests are sent together up to this size
SHORT_READ_BYTES: Final = 4096
LARGE_BODY_BYTES: Final = 128 * 1024  # while many are served, larger requests wait: copying takes as long as dozens
FRAMES_PER_PIECE: Final = 16  # the most that are served without a break, if they take no longer than half a piece
RESUME: Final = 32  # an event beside those of the poller: bytes that were read earlier are to be served
_size_from: Final = SIZE.unpack_from
_now_ns: Final = perf_counter_ns


class Connection(Debtor):
    """A channel, the request that is partly read, the replies that are partly written, and those that are still due."""

    __slots__ = (
        "_body", "_body_filled", "_body_size", "_due_events", "_has_ended", "_is_blocked", "_is_in_line", "_is_watched",
        "_mute", "_phase", "_wanted", "answered_ns", "arrived_ns", "body_since_ms",
        "channel", "client", "counters", "dispatch", "last_active_ms", "least_frame_bytes", "most_frame_bytes",
        "outbox", "server", "waiting",
    )  # fmt: skip

    def __init__(self, server: "Server", channel: Channel, client: ConnectedClient, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self.server = server
        self.channel = channel
        self.client = client
        self.least_frame_bytes = LEAST_FRAME_BYTES  # the sizes that frames may have now
        self.most_frame_bytes = server.max_request_bytes
        self.outbox = Outbox(channel, server.read_in_thread, self._on_writable)
        self.waiting: deque[Pending] = deque()
        super().__init__(server.line)
        self._phase: int = SERVING
        self._due_events = 0  # the events to serve when its turn in the line comes
        self._is_in_line = False
        self.last_active_ms = server.scheduler.monotonic_ms()
        self._body: bytearray | None = None
        self._body_filled = self._body_size = 0
        self.body_since_ms = 0.0  # the time at which the kept bytes began to arrive
        self.arrived_ns = 0  # the time at which the bytes that are served now were found to be readable
        self.answered_ns = 0
        """The time at which the dispatcher had served the last request; ``counters`` are those of its kind."""
        self.counters = UNCOUNTED
        self._is_blocked = False  # until the channel has accepted all replies, nothing more is served
        self._has_ended = False  # nothing more is read; the connection closes when all that was read is answered
        self._mute: Mute | None = None  # the last of ``waiting`` while the client is above a quota
        self._wanted = READABLE  # the events that are watched for
        self._is_watched = True  # whether the channel is watched at all
        channel.watch(self._on_event)

    def __str__(self) -> str:
        return str(self.client)

    @property
    def closed(self) -> bool:
        """Whether the channel is closed."""
        return self._phase == CLOSED

    def _enter(self, phase: int) -> None:
        assert phase in MAY_FOLLOW[self._phase], f"phase {phase} cannot follow {self._phase}"
        self._phase = phase

    def _on_event(self, events: int) -> None:
        if events & GONE and (self._phase != SERVING or self._has_ended):
            self._on_gone()
            return
        turn = self.server.turn
        waits = self.owed_ns or turn.is_late or (self._body_size > LARGE_BODY_BYTES and turn.is_on)
        if waits and not self._passes(events):
            self.server.poller.lined_up += 1
            self._line_up(events)
            return
        if events & WRITABLE:
            self._on_writable()
        if events & READABLE and self._phase != CLOSED:
            self.arrived_ns = self.server.poller.turn_ns
            self._on_readable()

    def _passes(self, events: int) -> bool:
        """Whether just one short request is readable, and is served now: it goes before those in the line whatever its
        client owes, or its client owes nothing and such requests take little time."""
        is_idle = self._body is None and not self._is_in_line and self._phase == SERVING
        if events != READABLE or not is_idle or (self.owed_ns and not self.client.in_transactions):
            return False
        trait = trait_of_one(self.channel, self.server.peeked, self.dispatch)
        return trait is not None and (trait.goes_first or not (self.owed_ns or trait.is_whole))

    def _want(self, event: int, *, wanted: bool) -> None:
        """Watch for an event from now on, or stop watching for it."""
        events = self._wanted | event if wanted else self._wanted & ~event
        if events != self._wanted:
            self._wanted = events
            if self._is_watched:
                self.channel.want(events)

    def _watch(self) -> None:
        if not (self._is_watched or self._is_in_line or self.closed):
            self._is_watched = True
            self.channel.watch(self._on_event, self._wanted)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self.channel.unwatch()

    # In the line

    def _line_up(self, events: int) -> None:
        """Wait in the line for a turn. If the channel is readable again meanwhile, it is no longer watched."""
        self._due_events |= events
        if self._is_in_line:
            # It was found to be readable again, and would be every time until it is served.
            self._unwatch()
            return
        self._is_in_line = True
        self.arrived_ns = self.server.poller.turn_ns
        if self.is_long:
            self.server.line.join_long(self)
        elif events != RESUME and self.server.poller.is_alone and self.server.line.is_free():
            self._serve_piece(self.server.poller.worked_ns, self.arrived_ns)  # nobody is before it
        else:
            self.server.line.join(self.serve_piece, self.owed_ns)

    def serve_piece(self) -> None:
        """Serve one piece, when the connection's turn in the line has come."""
        self._serve_piece(thread_time_ns(), _now_ns())

    def _serve_piece(self, worked_ns: int, began_ns: int) -> None:
        """Serve one piece, which began when this thread had worked for ``worked_ns``."""
        self._is_in_line = False
        if self._phase == CLOSED:
            return
        answered_ns, was_long, self.is_long = self.answered_ns, self.is_long, False
        self.is_admitted = self.is_admitted or was_long
        events, self._due_events = self._due_events, 0
        if events & RESUME:
            self.resume()
        if events & WRITABLE:
            self._on_writable()
        if events & READABLE and not self.closed:
            self._on_readable()
        took_ns = _now_ns() - began_ns  # no less than the CPU time, which takes a system call
        self.settle(took_ns if took_ns <= PIECE_NS else thread_time_ns() - worked_ns)
        if was_long and self.answered_ns == answered_ns:
            self.is_long = True  # its next request has not come as a whole yet
        self._watch()

    def resume_soon(self) -> None:
        """Call `resume` when the connection's turn comes."""
        if self.owed_ns:
            self._line_up(RESUME)
        else:
            self.server.loop.call_soon(self.resume)

    # Reading

    def _on_readable(self) -> None:
        if self._phase != SERVING or self._has_ended:
            self._read_later()
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
        # Little is read while memory is short, since it may have to be kept, and while many others are served.
        most = SHORT_READ_BYTES if server.budget.is_short else LARGE_BODY_BYTES if server.turn.is_on else 0
        count = self.channel.recv_into(server.scratch, most)
        if count == 0:
            self.server.poller.discount()
            self._read_no_more()
            return
        view = server.scratch_view
        if count > LEAST_FRAME_BYTES and not (self.waiting or self._is_blocked):
            size: int = _size_from(view)[0]
            if size == count - 4 and LEAST_FRAME_BYTES <= size <= self.most_frame_bytes:
                if size > LARGE_BYTES and not self._may_begin(view, 4, count):
                    self._keep(view[:count])
                    self._enter(PAUSED)
                    return
                self._serve_alone(view[4:count])
                return
        done = self._serve(view, count)
        if done < count and self._phase != CLOSED:
            self._keep(view[done:count])

    def _serve_alone(self, frame: memoryview) -> None:
        """Serve one whole frame with nothing before it and nothing behind it: the usual case."""
        turn = self.server.turn
        goes_first = False
        if self.client.in_transactions and turn.is_shared:
            goes_first = self.dispatch.trait_at(frame, 0).goes_first
            if not goes_first and self.server.aside.takes(self, frame):
                self._enter(ASIDE)
                return
        reply = turn.outside(self.dispatch, self, frame) if goes_first else self.dispatch(self, frame)
        if type(reply) is bytes:
            if turn.is_on and not goes_first:
                turn.put(self, reply)
            else:
                self._send_at_once(reply)
        elif isinstance(reply, Pending):
            self.waiting.append(reply)
            if self._mute is not None:
                self._mute.go_last()
            reply.when_resolved(self._on_resolved)
        elif reply is not None and self._phase != CLOSED:
            self.outbox.put(reply, self._due())
            self._flush()

    def serve_aside(self, frame: memoryview) -> None:
        """Serve the request that was put aside."""
        if self._phase == CLOSED:
            return
        self._enter(SERVING)
        try:
            self._serve_alone(frame)
        except Exception as error:
            self.end_with(error)
        self._read_on()

    def answer(self, reply: bytes) -> None:
        """Send a reply that was held back until the end of the turn; no other reply is due before it."""
        try:
            self._send_at_once(reply)
        except Exception as error:
            self.end_with(error)

    def _send_at_once(self, reply: bytes) -> None:
        """Send a reply that has no other before it; the part that the channel does not accept waits in the outbox."""
        try:
            sent = self.channel.send(reply)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(reply):
            self.outbox.put(reply[sent:], self._due())
            self._flush()
            return
        # `counters.count_sent`, written out: most replies go this way.
        counters = self.counters
        now_ns = _now_ns()
        send_ns = now_ns - self.answered_ns
        total_ns = now_ns - self.arrived_ns
        if send_ns > BRIEF_NS:
            counters.send[(send_ns * send_ns).bit_length()] += 1
        counters.total[(total_ns * total_ns).bit_length()] += 1

    def _due(self) -> Due:
        """The counters and times of the last request, which was answered at once."""
        return self.counters, self.arrived_ns, self.answered_ns, self.answered_ns

    def _read_body(self) -> None:
        """Read more of an incomplete frame; serve it when it is complete."""
        body = self._body
        assert body is not None
        with memoryview(body) as view:
            # The buffer may be longer than the frame; nothing behind its end is read.
            count = self.channel.recv_into(view[self._body_filled : self._body_size or len(body)])
        if count == 0:
            self._read_no_more()
            return
        self._body_filled += count
        if self._body_filled == 4 and self._body_size == 0:
            self._body_size = 4 + self._checked_size(body)
        self.channel.expect(self._body_size - self._body_filled)
        if self._body_filled < self._body_size or self._body_size == 0:
            if self._body_filled == len(body):
                self._grow_body()
            return
        self._serve_kept()

    def _serve_kept(self) -> None:
        """Serve the frames in the kept buffer; keep the ones that cannot be served yet."""
        body, filled, size = self._body, self._body_filled, self._body_size
        assert body is not None
        self._body, self._body_size = None, 0
        view = memoryview(body)
        done = self._serve(view, filled)
        if self._phase == CLOSED:
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
        """Keep bytes that cannot be served now: an incomplete frame, or frames that must wait for their turn."""
        have = len(rest)
        self._body_size = size = 4 + self._checked_size(rest) if have >= 4 else 0
        spare = self.server.spare_body(size) if size > have else None
        wanted = next_bytes(have, size, self.most_frame_bytes) if spare is None else len(spare)
        granted = self.server.budget.grow(self, wanted, self.resume)
        body = spare if granted and spare is not None else bytearray(wanted if granted else max(4, have))
        body[:have] = rest
        self._body, self._body_filled = body, have
        self.body_since_ms = self.server.poller.now_ms
        self.channel.expect(size - have)
        if not granted:
            self._enter(PAUSED)

    def _grow_body(self) -> None:
        body = self._body
        assert body is not None
        wanted = next_bytes(len(body), self._body_size, self.most_frame_bytes)
        if not self.server.budget.grow(self, wanted, self.resume):
            self._enter(PAUSED)
            return
        body.extend(bytes(wanted - len(body)))

    def _checked_size(self, buffer: memoryview | bytearray, position: int = 0) -> int:
        return checked_size(buffer, position, self.most_frame_bytes, self.least_frame_bytes)

    # Serving

    def _serve(self, view: memoryview, end: int) -> int:
        """Serve whole frames of ``view[:end]`` in order. Return the position of the first byte that was not served."""
        position = frames = 0
        until_ns = perf_counter_ns() + PIECE_NS // 2
        dispatch, outbox = self.dispatch, self.outbox
        while end - position >= 4:
            stop = position + 4 + self._checked_size(view, position)
            if stop > end:
                break
            if (self.waiting or self._is_blocked) and not self._may_start(view, position + 4):
                self._enter(PAUSED)
                break
            if frames == FRAMES_PER_PIECE or (frames and self.answered_ns > until_ns):
                self._enter(PAUSED)
                self.owed_ns = max(self.owed_ns, PIECE_NS)
                self._line_up(RESUME)
                break
            if stop - position > LARGE_BYTES and not self._may_begin(view, position + 4, stop):
                self._enter(PAUSED)
                break
            frames += 1
            reply = dispatch(self, view[position + 4 : stop])
            position = stop
            if reply is not None:
                if isinstance(reply, Pending):
                    self.waiting.append(reply)
                    if self._mute is not None:
                        self._mute.go_last()
                    reply.when_resolved(self._on_resolved)
                elif self.waiting:
                    self._queue_resolved(reply)
                else:
                    outbox.put(reply, self._due())
                    if outbox.queued_bytes > FLUSH_BYTES:
                        self._flush()
            if self._phase == CLOSED:
                return position
        if outbox:
            self._flush()
        return position

    def pause(self) -> None:
        """Serve nothing more, and read nothing, before the reply that is due now."""
        self._enter(PAUSED)

    def _may_begin(self, view: memoryview, start: int, stop: int) -> bool:
        """Whether work on a large request may begin now."""
        trait = self.dispatch.trait_at(view, start)
        return trait.is_whole or self.server.slices.may_begin(self, stop - start, trait)

    def share(self, work: Work) -> Any:
        """Do work on a request, and serve others between its steps. Return the response, or a `Pending` of it."""
        return self.server.slices.begin(work, self)

    def wait_for_time(self) -> None:
        """Wait in the line until the account has time for long work, then go on."""
        self.is_long = True
        self._line_up(RESUME)

    def _may_start(self, view: memoryview, header: int) -> bool:
        """Whether the next request may be served although earlier replies are due or cannot be sent."""
        if self._is_blocked:
            return False
        return self.dispatch.trait_at(view, header).overlaps and all(pending.overlaps for pending in self.waiting)

    def _queue_resolved(self, reply: "Reply") -> None:
        behind = Pending(overlaps=True)
        behind.due = self._due()
        behind.resolve(reply)
        self.waiting.append(behind)
        if self._mute is not None:
            self._mute.go_last()
            self._on_resolved(None)

    def mute(self, throttle_ms: int) -> None:
        """Serve no further request for this time, and do not read meanwhile. Answers that are due still leave."""
        if self._phase != CLOSED:
            self._mute = self.server.mutes.mute(throttle_ms, self._mute, self.waiting, self._unmute)
            if self._phase == SERVING:
                self._enter(PAUSED)

    def _unmute(self, reply: None) -> None:
        self._mute = None
        self._on_resolved(reply)

    def _on_resolved(self, _reply: "Reply | None") -> None:
        if self._phase == CLOSED:
            return
        waiting = self.waiting
        try:
            while waiting and waiting[0].resolved:
                pending = waiting.popleft()
                if pending.response is not None:
                    counters, arrived_ns, parked_ns, _ = pending.due
                    self.outbox.put(pending.response, (counters, arrived_ns, parked_ns, pending.resolved_ns))
        except Exception as error:
            self.end_with(error)
            return
        if self.outbox:
            self._flush()
        self._go_on()

    def _read_later(self) -> None:
        """More requests have come, or the client's end. If it has ended, and nothing is due but its mute, it closes."""
        self._want(READABLE, wanted=False)
        is_idle = self._mute is not None and self._body is None and len(self.waiting) == 1
        if is_idle and has_ended(self.channel, self.server.peeked):
            self.close()

    def resume(self) -> None:
        """Go on serving: a reply was sent, the client read, memory became free, the turn came, or the mute ended."""
        if self._phase != PAUSED or self._mute is not None:
            return
        self._enter(SERVING)
        self.arrived_ns = perf_counter_ns()
        try:
            if self._body is not None:
                self._serve_or_grow()
        except Exception as error:
            self.end_with(error)
        self._read_on()

    def _read_on(self) -> None:
        if self._phase == SERVING:
            self._want(READABLE, wanted=not self._has_ended)
            self._watch()

    def _serve_or_grow(self) -> None:
        body = self._body
        assert body is not None
        if self._body_size and self._body_filled >= self._body_size:
            self._serve_kept()
        elif self._body_filled == len(body):
            self._grow_body()
        elif not self.server.budget.grow(self, len(body), self.resume):
            self._enter(PAUSED)

    # Writing

    def _flush(self) -> None:
        if not self.server.turn.may_answer():
            self.give_up(UNWRITTEN)
            return
        try:
            done = self.outbox.flush()
        except OSError as error:
            self._lost(error)
            return
        if done:
            if self._is_blocked:
                self._is_blocked = False
                self.server.backlog.release(self)
                self._want(WRITABLE, wanted=False)
                self._go_on()
        else:
            self._is_blocked = True
            # While a thread reads for the outbox there is nothing to write.
            self._want(WRITABLE, wanted=not self.outbox.waits_for_disk)
            held_bytes = self.outbox.held_bytes + self.channel.held_bytes
            self.server.backlog.hold(self, HeldResources(held_bytes, self.outbox.held_files))

    def _on_writable(self) -> None:
        if self._phase != CLOSED:
            self.last_active_ms = self.server.poller.now_ms
            self._flush()

    # The end

    def _read_no_more(self) -> None:
        """Close when all that was read is answered: the client has ended, and may still wait for its answers."""
        self._has_ended = True
        self._body, self._body_size = None, 0  # a part of a request
        self.server.budget.release(self)
        self._want(READABLE, wanted=False)
        if self.server.turn.is_on:
            self.server.loop.call_soon(self._go_on)  # a reply may wait for the end of the turn
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Serve the requests that waited for a reply. After the client's end, close when all is answered."""
        if not self._has_ended:
            if self._phase == PAUSED:
                self.resume_soon()
        elif not (self.waiting or self._is_blocked):
            self.close()

    def _on_gone(self) -> None:
        """The client can neither send nor read: serve what was read, unless an answer has to leave first."""
        self.server.poller.discount()
        if self._has_ended or self._is_blocked or self._body is None or (self.waiting and self._mute is None):
            self.close()
        else:
            self._unwatch()

    def end_with(self, error: Exception) -> None:
        """Close the connection because of an error that occurred while a request was served."""
        if isinstance(error, CloseConnection):
            self._say_why(logging.INFO, str(error))
            with suppress(OSError):
                if self.server.turn.may_answer():
                    self.outbox.flush()  # the answers to earlier requests, as far as the channel takes them
            self._read_no_more()
        elif isinstance(error, OSError):
            self._lost(error)
        else:
            log.error("closing the connection of %s", self, exc_info=error)
            self.close()

    def give_up(self, reason: str) -> None:
        """Close the connection, and log the reason."""
        self._say_why(logging.INFO, reason)
        self.close()

    def _lost(self, error: OSError) -> None:
        if error.errno not in GONE_ERRNOS and not isinstance(error, ConnectionError):
            self._say_why(logging.WARNING, str(error))
        self.close()

    def _say_why(self, level: int, reason: str) -> None:
        """Log one line for an offence, and count others of its kind: they differ only after the colon."""
        kind = f"closing connections of {self.client.host}: {reason.partition(':')[0]}"
        self.server.complaints.say(log, level, kind, "closing the connection of %s: %s", self, reason)

    def close(self) -> None:
        """Close the channel and forget everything that was due. Safe to call twice."""
        if self._phase == CLOSED:
            return
        self._enter(CLOSED)
        self.channel.unwatch()
        self.channel.close()
        for pending in self.waiting:
            pending.cancel()
        self.waiting.clear()
        self.outbox.clear()
        self.client.gone()
        self._body = None
        self.server.budget.release(self)
        self.server.backlog.release(self)
        self.server.forget(self)
