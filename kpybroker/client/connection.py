"""One blocking connection to one broker: requests and their answers in turn, behind TLS and a login if one is set.

Not for the broker itself, which speaks to other nodes from its event loop. Modules of TLS and SASL are loaded by those
connections that use them, and to explain a failure.
"""

import math
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kpybroker.client.conversation import (
    CLIENT_ID,
    FIRST_OF_FORM,
    GREETING_VERSIONS,
    OTHER_PROTOCOLS,
    SIZE,
    SOFTWARE,
    Conversation,
)
from kpybroker.machines.errors import KafkaError
from kpywire import api, error_codes
from kpywire.errors import Malformed, UnsupportedVersion

if TYPE_CHECKING:
    from kpybroker.client.protection import ConnectionProtection

AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""The memory for an answer before any of it has come; more is taken as more comes."""
SILENT_S: Final = 3.0
"""The time after the broker's own waiting time before a missing answer is reported."""


class Unreachable(Exception):
    """The broker cannot be reached, went away, or does not speak Kafka's protocol; the text is one line for people."""


class _Ended(Unreachable):
    """The other side closed the connection."""


class NotConnected(Unreachable):
    """The connection could not be made: the broker received nothing."""


class BrokerConnection:
    """A connection that has asked the broker which versions it serves, and has logged in where a login is set.

    Raises Unreachable, and so does every call; LoginRefused if the broker refuses the login; BadProperty if a file of
    keys or certificates cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        *,
        connect_timeout_s: float | None = None,
        client_id: str = CLIENT_ID,
        on_silence: Callable[[str], object] | None = None,
        protection: "ConnectionProtection | None" = None,
    ) -> None:
        """Connect. ``on_silence`` is called with a text for people when an answer is overdue and still awaited."""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._place = (host, port)
        self._timeout_s = timeout_s
        self._on_silence = on_silence
        self._protection = protection
        self._login_due_s = math.inf
        self._is_greeted = self._is_served = False
        self._conversation = Conversation(self.address, client_id)
        self._socket = self._connected(timeout_s if connect_timeout_s is None else connect_timeout_s)
        try:
            self._negotiate()
            self._log_in()
        except _Ended as error:
            self._socket.close()
            raise Unreachable(self._why_ended() or str(error)) from None
        except BaseException:
            self._socket.close()
            raise

    def _connected(self, timeout_s: float) -> socket.socket:
        """The socket, behind TLS if that is set."""
        try:
            made = socket.create_connection(self._place, timeout_s)
        except OSError as error:
            raise NotConnected(f"no broker answers at {self.address}: {_reason(error)}") from None
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._protection is None or not self._protection.has_tls:
            return made
        try:
            return self._protection.context.wrap_socket(made, server_hostname=self._place[0])
        except OSError as error:
            made.close()
            from kpybroker.client.causes import GivenAddress, handshake_failed

            raise NotConnected(handshake_failed(error, GivenAddress(*self._place), self._protection)) from None
        except BaseException:
            made.close()
            raise

    def close(self) -> None:
        self._socket.close()

    @property
    def is_closed(self) -> bool:
        """Whether the broker has closed the connection while nothing was asked."""
        ready, _, _ = select.select([self._socket], [], [], 0)
        if not ready:
            return False
        try:
            if self._protection is None or not self._protection.has_tls:
                return not self._socket.recv(1, socket.MSG_PEEK)
            return self._is_closed_behind_tls()
        except OSError:
            return True

    def _is_closed_behind_tls(self) -> bool:
        """Whether there is an end, and not only a message of TLS itself, such as a ticket for a later session."""
        from ssl import SSLWantReadError

        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except SSLWantReadError:
            return False
        return True  # an end, or bytes that answer nothing

    def serves(self, key: int, version: int) -> bool:
        """Whether the broker serves this version of an API."""
        return self._conversation.serves(key, version)

    def call(self, request: Any, wait_s: float = 0.0, newest: int | None = None, timeout_s: float | None = None) -> Any:
        """Send a request and return the response. ``wait_s`` is the time that the broker itself may wait before it
        answers.

        ``newest`` is the last version that can hold the contents of the request, where later ones have another form.
        ``timeout_s`` is how long to wait in all, instead of ``wait_s`` and the connection's own timeout.

        Raises: Unreachable: the connection can no longer be used. KafkaError: UNSUPPORTED_VERSION, the broker serves no
        version that is known here or that can carry the request.
        """
        key = type(request).KEY
        self._renew_login()
        version = self._conversation.version(key, newest)
        is_older = version < FIRST_OF_FORM.get(key, 0)
        if is_older:
            from kpybroker.client import older_forms

            request = older_forms.asked(request, version)
        try:
            answer = self._exchange(request, key, version, wait_s, timeout_s)
        except UnsupportedVersion as error:
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"{self.address} is too old: {error}") from None
        except _Ended as error:
            if self._is_served:
                raise
            raise Unreachable(self._why_ended() or str(error)) from None
        self._is_served = True
        return older_forms.answered(request, answer) if is_older else answer

    def send(self, request: Any) -> None:
        """Send a request that the broker does not answer, such as a Produce with acks=0. Raises as `call`."""
        self._renew_login()
        try:
            self._transmit(request, self._conversation.version(type(request).KEY), self._timeout_s)
        except OSError as error:
            raise Unreachable(f"lost the connection to {self.address}: {_reason(error)}") from None

    def _negotiate(self) -> None:
        for version in GREETING_VERSIONS:
            answer = self._exchange(SOFTWARE, api.API_VERSIONS, version, 0.0)
            if self._conversation.greeted(answer):
                self._is_greeted = True
                return
            if answer.error_code != error_codes.UNSUPPORTED_VERSION:
                break
        raise Unreachable(f"{self.address} answers {error_codes.name(answer.error_code)}")

    def _renew_login(self) -> None:
        if time.monotonic() >= self._login_due_s:
            self._log_in()

    def _log_in(self) -> None:
        """Log in, or log in again on the same connection. Raises LoginRefused."""
        protection = self._protection
        if protection is None or protection.login is None:
            return
        from kpybroker.client import login

        began_s = time.monotonic()
        dialogue = login.dialogue(protection.login, self._conversation, protection.protocol)
        request, lifetime_ms = login.advance(dialogue, None)
        while request is not None:
            key = type(request).KEY
            answer = self._exchange(request, key, self._conversation.version(key), 0.0)
            request, lifetime_ms = login.advance(dialogue, answer)
        self._login_due_s = began_s + login.due_s(lifetime_ms)

    def _why_ended(self) -> str:
        """The reason why the broker may have closed a connection that it has not served yet; empty if unknown."""
        from kpybroker.client.causes import GivenAddress, why_closed

        return why_closed(GivenAddress(*self._place), self._protection, is_greeted=self._is_greeted)

    def _exchange(self, request: Any, key: int, version: int, wait_s: float, timeout_s: float | None = None) -> Any:
        most_s = self._timeout_s + wait_s if timeout_s is None else timeout_s
        began_s = time.monotonic()
        deadline_s, overdue_s = began_s + most_s, began_s + wait_s + SILENT_S
        try:
            self._transmit(request, version, most_s)
            start = bytes(self._receive(SIZE.size, deadline_s, overdue_s))
            if start in OTHER_PROTOCOLS:
                from kpybroker.client.causes import other_protocol

                raise Unreachable(other_protocol(OTHER_PROTOCOLS[start], self.address))
            frame = self._receive(self._conversation.size(start), deadline_s, overdue_s)
            return self._conversation.answer(key, version, frame)
        except OSError as error:
            raise self._lost(error) from None
        except Malformed as error:
            raise Unreachable(f"{self.address} does not speak Kafka's protocol: {error}") from None

    def _lost(self, error: OSError) -> Unreachable:
        """The error of a connection that was lost."""
        text = f"lost the connection to {self.address}: {_reason(error)}"
        if self._protection is not None and self._protection.has_tls:
            from kpybroker.client.causes import GivenAddress, alert_behind

            text = alert_behind(error, self._socket, GivenAddress(*self._place), self._protection) or text
        return _Ended(text) if isinstance(error, ConnectionError) else Unreachable(text)

    def _transmit(self, request: Any, version: int, timeout_s: float) -> None:
        frame = self._conversation.frame(request, version)
        self._socket.settimeout(timeout_s)
        self._socket.sendall(frame)

    def _receive(self, count: int, deadline_s: float, overdue_s: float) -> bytearray:
        """Receive bytes. Raises TimeoutError at ``deadline_s``; reports at ``overdue_s`` that nothing has come yet."""
        received, got = bytearray(min(count, AT_ONCE_BYTES)), 0
        is_reported = self._on_silence is None
        while got < count:
            if got == len(received):
                received += bytes(min(count - got, got))
            until_s = deadline_s if is_reported else min(deadline_s, overdue_s)
            self._socket.settimeout(max(until_s - time.monotonic(), 0.001))
            try:
                with memoryview(received) as place:
                    more = self._socket.recv_into(place[got:])
            except TimeoutError:
                if is_reported or time.monotonic() >= deadline_s:
                    raise
                is_reported = True
                assert self._on_silence is not None
                self._on_silence(f"{self.address} does not answer")
                continue
            if not more:
                raise ConnectionResetError("the broker closed it")
            got += more
        return received


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)
