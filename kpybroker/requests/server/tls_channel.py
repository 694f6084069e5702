"""TLS: a channel that encrypts, and the part of a listener that its channels share.

A channel is a socket, an ``ssl.SSLObject`` and two buffers of encrypted bytes, so that no call of the library touches
the socket. The buffer of received bytes belongs to the listener, and is empty between the calls of its channels, so it
may be large. Decrypted bytes that the poller does not see are announced with ``call_soon``. Bytes are encrypted in
bounded pieces, and only when all earlier ones have left: a client that does not read costs one piece, which counts as
held memory. A piece that has not left as a whole is not reported as sent; the same bytes are offered again, and then
it is. OpenSSL gets whole records; the beginning of another one is kept, and so are records that find no room. A
handshake does one step in a turn of the loop, and ends within `HANDSHAKE_PATIENCE_MS`.
"""

import os
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kpybroker.requests.server import tls_mistakes
from kpybroker.requests.server.channel import Channel
from kpybroker.requests.server.poller import GONE, READABLE, WRITABLE, OnEvent, Poller
from kpybroker.requests.server.time_limit import TimeLimit
from kpybroker.requests.server.tls_mistakes import ListenerTerms
from kpybroker.requests.server.tls_records import MOST_RECORD_BYTES, whole_records
from kpybroker.runtime.calls.principal import Principal
from kpybroker.runtime.io.scheduler import Scheduler

HANDSHAKE_PATIENCE_MS = 10_000
RECEIVED_BYTES: Final = 256 * 1024
LEAST_RECEIVED_BYTES: Final = 20 * 1024
"""No receive asks for fewer bytes, so that it may bring the largest record. What finds no room is kept."""
MOST_RECEIVES: Final = 4
"""The most receives for one call of `recv_into`: not all that a client sends becomes data."""
PIECE_BYTES: Final = 128 * 1024
MOST_ANSWERS_BYTES: Final = 256 * 1024
"""The most encrypted bytes that wait for a client which asks for new keys and does not read."""
MOST_AWAITED_BYTES: Final = 64 * 1024
"""The most bytes that a socket keeps until it is reported as readable, while a large frame comes in. A client that
encrypts sends each record of 16 KB by itself."""
LEAST_AWAITED_BYTES: Final = 16 * 1024
_LOW_WATER: Final = getattr(socket, "SO_RCVLOWAT", None) if sys.platform == "linux" else None
_HANDSHAKE: Final = 0x16
"""The type of the record that a TLS client sends first."""

PrincipalOf = Callable[[bytes | None], Principal]
"""The identity of a client with this certificate (DER), or with none. Raises TlsFailure if it may not connect."""
Authenticated = Callable[[Principal], object]


class TlsListener:
    """The part of a listener that its channels share. It is the listener's `OpenChannel`."""

    def __init__(
        self,
        context: ssl.SSLContext,
        terms: ListenerTerms,
        scheduler: Scheduler,
        principal_of: PrincipalOf | None = None,
    ) -> None:
        """``principal_of`` is None where certificates identify nobody (SASL_SSL)."""
        self.context = context
        """The context of connections from now on."""
        self.terms = terms
        self.principal_of = principal_of
        self.scheduler = scheduler
        self.received = memoryview(bytearray(RECEIVED_BYTES + MOST_RECORD_BYTES))
        """The buffer into which every channel receives; it is empty between calls. ``copied`` is that for files."""
        self.copied = memoryview(bytearray(PIECE_BYTES))
        self.incoming = ssl.MemoryBIO()
        """The encrypted bytes that OpenSSL is given, of whichever channel; they too are taken back within the call."""
        self._lined_up: deque[TlsChannel] = deque()
        self.time_limit: TimeLimit[TlsChannel] = TimeLimit(HANDSHAKE_PATIENCE_MS, TlsChannel.lose_patience)

    def change(self, context: ssl.SSLContext, terms: ListenerTerms) -> None:
        """Apply other keys and certificates to connections from now on."""
        self.context, self.terms = context, terms

    def __call__(self, sock: socket.socket, poller: Poller, call_soon: Callable[..., object]) -> Channel:
        return TlsChannel(sock, poller, call_soon, self)

    def line_up(self, channel: "TlsChannel", call_soon: Callable[..., object]) -> None:
        """Let a channel do the next step of its handshake soon: one channel in a turn of the loop, since a step takes
        as long as many requests."""
        self._lined_up.append(channel)
        if len(self._lined_up) == 1:
            call_soon(self._step, call_soon)

    def _step(self, call_soon: Callable[..., object]) -> None:
        try:
            self._lined_up[0].shake_hands()
        finally:
            self._lined_up.popleft()
            if self._lined_up:
                call_soon(self._step, call_soon)


class TlsChannel:
    """One connection. The names of its events are those of the decrypted side."""

    __slots__ = (
        "_ahead", "_asked", "_authenticated", "_awaited_bytes", "_call_soon", "_error", "_has_ended", "_has_rest",
        "_has_whole", "_is_closed", "_is_due", "_is_lined_up", "_is_open", "_listener", "_on_event", "_outgoing",
        "_poller", "_sock", "_tail", "_taken", "_tls", "_unsent", "_wanted",
    )  # fmt: skip

    def __init__(
        self, sock: socket.socket, poller: Poller, call_soon: Callable[..., object], listener: TlsListener
    ) -> None:
        self._sock = sock
        self._poller = poller
        self._call_soon = call_soon
        self._listener = listener
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        """Made when the first record has come as a whole: its buffers are far larger than the beginning of one."""
        self._on_event: OnEvent | None = None
        self._authenticated: Authenticated | None = None
        self._wanted = self._asked = 0
        """The events of the decrypted side that are watched for, and those that the poller is asked for."""
        self._ahead = b""
        """Decrypted bytes that were peeked at."""
        self._tail = b""
        """Bytes that were received, and not decrypted yet: the beginning of a record, as far as it has come."""
        self._has_whole = False
        """Whether whole records are before it, which found no room in a buffer."""
        self._unsent = memoryview(b"")
        """Encrypted bytes that the socket has not accepted yet."""
        self._taken = 0
        """The number of bytes, of those that are offered next, which ``_unsent`` has already."""
        self._has_rest = False
        """Whether OpenSSL holds decrypted bytes, of a record that was larger than a buffer."""
        self._is_open = self._has_ended = self._is_closed = self._is_due = self._is_lined_up = False
        self._error: OSError | None = None
        self._awaited_bytes = 1
        """The number of bytes with which the socket is readable."""
        listener.time_limit.begin(self, listener.scheduler)

    # Receiving

    def recv_into(self, buffer: Any, count: int = 0, /) -> int:
        view = memoryview(buffer)
        most = min(count, len(view)) if count else len(view)
        if self._ahead:
            size = min(most, len(self._ahead))
            view[:size] = self._ahead[:size]
            self._ahead = self._ahead[size:]
            if self._ahead:
                self._announce()
                return size
        else:
            size = 0
            if most < len(view):
                view = view[:most]
        if size < most:
            size += self._decrypt(view[size:most] if size else view)
            if 0 < size < most and not self._has_ended and self._error is None:
                return size  # that is all there is
        return self._given(size)

    def peek_into(self, buffer: memoryview) -> int:
        missing = len(buffer) - len(self._ahead)
        if missing > 0:
            more = bytearray(missing)
            count = self._decrypt(memoryview(more))
            self._ahead += bytes(more[:count])
        size = min(len(buffer), len(self._ahead))
        buffer[:size] = self._ahead[:size]
        return self._given(size)

    def expect(self, count: int) -> None:
        """Let the socket keep its bytes until enough have come that reading them is worth a wake."""
        # No record is smaller than its data, so this many bytes come in any case, but for those that are here already.
        awaited_bytes = min(count - len(self._tail) - len(self._ahead), MOST_AWAITED_BYTES)
        if awaited_bytes < LEAST_AWAITED_BYTES:
            awaited_bytes = 1
        if awaited_bytes != self._awaited_bytes and _LOW_WATER is not None:
            self._awaited_bytes = awaited_bytes
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, _LOW_WATER, awaited_bytes)

    def _given(self, size: int) -> int:
        """The result of a call that received: what there is, the end, or an error."""
        if size == 0 and not self._ahead:
            if self._error is not None:
                raise self._error
            if not self._has_ended:
                raise BlockingIOError
        self._announce()
        return size

    def _decrypt(self, view: memoryview) -> int:
        """Fill a buffer as far as the client's bytes go. A failure is kept for when there is nothing else."""
        tls, most = self._tls, len(view)
        if tls is None or not self._is_open:
            return 0
        filled, receives = 0, MOST_RECEIVES
        if self._has_rest:
            filled = self._read(tls, view, 0, 1)
        while filled < most and receives and not self._has_ended and self._error is None:
            wanted = min(max(most - filled, LEAST_RECEIVED_BYTES), RECEIVED_BYTES)
            count, end = self._receive(wanted)
            receives = receives - 1 if count == wanted else 0
            records = self._give(end)
            if records:
                try:
                    filled = self._read(tls, view, filled, records)
                finally:
                    self._take_back()
        if self._outgoing.pending:
            self._answer()
        return filled

    def _read(self, tls: Any, view: memoryview, filled: int, records: int) -> int:
        """Decrypt records into a buffer, behind its filled part, as far as there is room. Return the size of that part
        then."""
        most = len(view)
        self._has_rest = False
        try:
            while records and filled < most:
                count: int = tls.read(most - filled, view[filled:] if filled else view)
                if not count:
                    self._has_ended = True  # the client has said goodbye
                    break
                filled += count
                records -= 1
            self._has_rest = filled == most and tls.pending() > 0
        except ssl.SSLWantReadError:
            pass  # some of these records have no data
        except ssl.SSLZeroReturnError:
            self._has_ended = True
        except ssl.SSLError as error:
            self._error = ConnectionError(f"damaged TLS records ({(error.reason or 'malformed').lower()})")
        except OSError as error:
            self._error = error
        return filled

    def _give(self, end: int) -> int:
        """Give OpenSSL the whole records that were received, and keep the beginning of another one. Return how many
        these are. `_take_back` is to be called then."""
        received = self._listener.received
        stop, records = whole_records(received, end)
        if stop < end:
            self._tail = bytes(received[stop:end])
        if records:
            self._listener.incoming.write(received[:stop])
        return records

    def _take_back(self) -> None:
        """Keep the records that OpenSSL has not read: the buffer is empty for the next channel."""
        incoming = self._listener.incoming
        if incoming.pending:
            self._tail = incoming.read() + self._tail
            self._has_whole = True

    def _receive(self, wanted: int) -> tuple[int, int]:
        """Take encrypted bytes from the socket. Return their number, and that of the bytes which ``received`` has now:
        kept ones are among them, and are no longer kept. If these had whole records, nothing is taken yet, and the
        first number is ``wanted``: there may be more."""
        received, tail = self._listener.received, self._tail
        held = len(tail)
        if self._has_whole:
            self._has_whole = False
            count, end = wanted, held
        else:
            try:
                count = self._sock.recv_into(received[held:] if held else received, wanted)
            except (BlockingIOError, InterruptedError):
                return 0, 0
            except OSError as error:
                self._error = error
                return 0, 0
            if count == 0:
                self._has_ended = True
                return 0, 0
            end = held + count
        if held:
            received[:held] = tail
            self._tail = b""
        return count, end

    def _answer(self) -> None:
        """Send what the protocol itself answers, such as new keys."""
        if len(self._unsent) + self._outgoing.pending > MOST_ANSWERS_BYTES:
            self._error = ConnectionError("it asks for new TLS keys again and again, and does not read")
        elif not self._taken:
            with suppress(BlockingIOError, ConnectionError):
                self._flush()
            self._ask()

    # Sending

    @property
    def held_bytes(self) -> int:
        """The encrypted bytes that wait for the client."""
        return len(self._unsent)

    def send(self, data: Any, flags: int = 0, /) -> int:
        if len(data) <= PIECE_BYTES:
            return self._send_piece(data, flags)
        done = 0
        with memoryview(data) as view:
            while done < len(view):
                try:
                    done += self._send_piece(view[done : done + PIECE_BYTES], flags)
                except BlockingIOError:
                    if not done:
                        raise
                    break
        return done

    def send_file(self, descriptor: int, position: int, count: int, /) -> int:
        copied = self._listener.copied
        done = 0
        while done < count:
            try:
                if self._taken:
                    done += self._send_piece(copied[: count - done], 0)  # encrypted before: not read again
                    continue
                size = os.preadv(descriptor, [copied[: count - done]], position + done)
                if size == 0:
                    break
                done += self._send_piece(copied[:size], 0)
            except BlockingIOError:
                if not done:
                    raise
                break
        return done

    def _send_piece(self, piece: Any, flags: int) -> int:
        """Encrypt and send at most `PIECE_BYTES`. Return their number when all have left. Raises BlockingIOError."""
        if self._unsent:
            self._flush()
        if self._taken:
            taken, self._taken = self._taken, 0
            return taken
        tls = self._tls
        if self._error is not None:
            raise self._error
        if not self._is_open or tls is None:
            raise BlockingIOError
        size = len(piece)
        try:
            done = tls.write(piece)
            encrypted = self._outgoing.read()
            if done < size:
                return self._send_records(self._encrypt_rest(tls, memoryview(piece)[done:], [encrypted]), size, flags)
        except ssl.SSLError as error:
            raise ConnectionError(f"TLS has ended ({(error.reason or 'closed').lower()})") from None
        try:
            sent = self._sock.send(encrypted, flags)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent == len(encrypted):
            return size
        self._unsent = memoryview(encrypted)[sent:]
        self._taken = size
        raise BlockingIOError

    def _encrypt_rest(self, tls: ssl.SSLObject, rest: memoryview, records: list[bytes]) -> list[bytes]:
        """Encrypt the rest of a piece, one record at a time: OpenSSL's buffer keeps the size that it once had."""
        while rest:
            done = tls.write(rest)
            rest = rest[done:]
            records.append(self._outgoing.read())
        return records

    def _send_records(self, records: list[bytes], size: int, flags: int) -> int:
        """Send the records of a piece of this size, which are joined only if the socket does not accept all."""
        try:
            sent = self._sock.sendmsg(records, [], flags)
        except (BlockingIOError, InterruptedError):
            sent = 0
        for number, record in enumerate(records):
            if sent < len(record):
                self._unsent = memoryview(b"".join([record[sent:], *records[number + 1 :]]))
                self._taken = size
                raise BlockingIOError
            sent -= len(record)
        return size

    def _flush(self) -> None:
        """Send the encrypted bytes that wait. Raises BlockingIOError if the socket does not accept all of them."""
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    return
                self._unsent = memoryview(self._outgoing.read())
            sent = self._sock.send(self._unsent)
            self._unsent = self._unsent[sent:]

    # Events

    def watch(self, on_event: OnEvent, events: int = READABLE) -> None:
        self._on_event, self._wanted = on_event, events
        self._asked = self._needs()
        self._poller.add(self._sock.fileno(), self._found, self._asked)
        self._announce()

    def want(self, events: int) -> None:
        self._wanted = events
        self._ask()
        self._announce()

    def unwatch(self) -> None:
        if self._on_event is not None:
            self._on_event = None
            self._poller.remove(self._sock.fileno())

    def identify(self, authenticated: Authenticated) -> None:
        """Call ``authenticated`` with the client's identity when the handshake is over."""
        self._authenticated = authenticated

    def _needs(self) -> int:
        """The events of the socket to wait for."""
        if not self._is_open:
            return READABLE | WRITABLE if self._unsent else READABLE
        return self._wanted | WRITABLE if self._unsent and not self._taken else self._wanted

    def _ask(self) -> None:
        needs = self._needs()
        if self._on_event is not None and needs != self._asked:
            self._asked = needs
            self._poller.change(self._sock.fileno(), needs)

    def _found(self, events: int) -> None:
        if not self._is_open:
            self._poller.discount()
            if not self._is_lined_up:
                self._is_lined_up = True
                self._listener.line_up(self, self._call_soon)
            return
        if events & WRITABLE and self._unsent and not self._taken:
            with suppress(BlockingIOError, ConnectionError):
                self._flush()
            self._ask()
        found = events & (self._wanted | GONE)
        if found and self._on_event is not None:
            self._on_event(found if found & (READABLE | WRITABLE) else found | READABLE)

    def _announce(self) -> None:
        """Call soon if there is something to receive that the poller does not see."""
        if self._is_due or not self._wanted & READABLE or self._on_event is None or not self._has_something:
            return
        self._is_due = True
        self._call_soon(self._tell)

    @property
    def _has_something(self) -> bool:
        if self._ahead or self._has_rest or self._has_whole or self._has_ended or self._error is not None:
            return self._is_open
        return False

    def _tell(self) -> None:
        self._is_due = False
        if self._on_event is not None and self._wanted & READABLE and self._has_something:
            self._poller.count()
            self._on_event(READABLE)
            self._announce()

    # The handshake

    def shake_hands(self) -> None:
        """Do the next step of the handshake."""
        self._is_lined_up = False
        if self._is_closed or self._is_open:
            return
        try:
            count, end = self._receive(LEAST_RECEIVED_BYTES)
            if self._error is not None:
                raise self._error
            if count and self._tls is None:
                self._check_first_byte()
            if self._give(end):
                try:
                    tls = self._tls or self._begin()
                    tls.do_handshake()
                finally:
                    self._take_back()
                    with suppress(OSError):
                        self._flush()  # also the alert of a failure
                self._opened(tls)
            if self._has_ended and not self._is_open:
                raise tls_mistakes.left_early(self._listener.terms) if self._has_begun else ConnectionError
        except ssl.SSLWantReadError:
            if self._has_ended:
                self._fail(tls_mistakes.left_early(self._listener.terms))
        except ssl.SSLError as error:
            self._fail(tls_mistakes.failed(error, self._listener.terms))
        except OSError as error:
            self._fail(error)
        self._ask()
        self._announce()

    @property
    def _has_begun(self) -> bool:
        """Whether the client has sent anything of a handshake."""
        return self._tls is not None or bool(self._tail)

    def _check_first_byte(self) -> None:
        first_byte = self._listener.received[0]
        if first_byte != _HANDSHAKE:
            raise tls_mistakes.without_tls(self._listener.terms, first_byte)

    def _begin(self) -> ssl.SSLObject:
        self._tls = self._listener.context.wrap_bio(self._listener.incoming, self._outgoing, server_side=True)
        return self._tls

    def _opened(self, tls: ssl.SSLObject) -> None:
        listener = self._listener
        if tls.session_reused:  # OpenSSL checks certificates in full handshakes only
            tls_mistakes.check_resumed(tls.getpeercert(), listener.scheduler.now_ms(), listener.terms)
        listener.time_limit.end(self)
        authenticated, self._authenticated = self._authenticated, None
        if authenticated is not None and listener.principal_of is not None:
            authenticated(listener.principal_of(tls.getpeercert(binary_form=True)))
        self._is_open = True

    def _fail(self, error: OSError) -> None:
        """Keep a failure for the call that follows."""
        self._listener.time_limit.end(self)
        self._authenticated = None
        self._tls = None
        self._error = error
        self._is_open = True

    def lose_patience(self) -> None:
        """The handshake has taken too long."""
        if not self._is_closed and not self._is_open:
            self._fail(tls_mistakes.out_of_patience(self._listener.terms, HANDSHAKE_PATIENCE_MS / 1000))
            self._announce()

    # The end

    def close(self) -> None:
        if self._is_closed:
            return
        if self._tls is not None and self._is_open and not self._unsent:
            with suppress(OSError, ValueError):
                self._tls.unwrap()
            with suppress(OSError):
                self._sock.send(self._outgoing.read())
        self.forsake()

    def forsake(self) -> None:
        self._is_closed = True
        self._listener.time_limit.end(self)
        self._authenticated = None
        self._unsent = memoryview(b"")
        self._sock.close()
