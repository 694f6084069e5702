"""The stage before all others on a listener with SASL: frames of a client reach the dispatcher after its login.

`kpybroker.machines.sasl.login` decides. Here frames are read and answered, a connection gets its principal, and
failures are logged. Until a client is logged in it may send frames of ``sasl.server.max.receive.size`` at most, and it
has to be done within `PATIENCE_MS`. Afterwards its connection uses the dispatcher itself; only a session with a
lifetime costs one more call for each request.

Invariant: before the login, and between the two requests of a reauthentication, no frame but ApiVersions reaches the
dispatcher, and no other request of more than `LONGEST_REFUSED_BYTES` is decoded.
"""

import logging
from collections.abc import Callable
from functools import partial
from struct import Struct
from struct import error as StructError  # noqa: N812
from time import perf_counter_ns
from typing import Any, Final

from kpybroker.machines.failed_response import failed_response
from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpybroker.machines.sasl.login import Login, LoginAnswer, LoginState, LoginTerms, Now, Verdict
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.dispatching.late_refusals import LateRefusals
from kpybroker.requests.dispatching.replies import HEADER_V0, HEADER_V1
from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.frames import LEAST_FRAME_BYTES
from kpybroker.requests.server.outbox import Reply
from kpybroker.requests.server.time_limit import TimeLimit
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.principal import USER, Principal
from kpybroker.runtime.counters import UNCOUNTED
from kpybroker.runtime.fairness.trait import ORDINARY, Trait
from kpywire import api
from kpywire.codec import decode, encode
from kpywire.error_codes import ILLEGAL_SASL_STATE
from kpywire.errors import Malformed
from kpywire.header import RequestHeader, decode_request_header, response_header_version
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kpywire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

log = logging.getLogger("kpybroker.login")

PATIENCE_MS: Final = 30_000
"""The longest time that a login may take. Java's clients give up after 30 s, too."""
LONGEST_REFUSED_BYTES: Final = 512
"""Other requests than those of a login are decoded up to this size, to answer them as Kafka does."""
LONGEST_REFUSAL_BYTES: Final = 8 * 1024
"""The longest such answer. Instead of a longer one, the connection is closed."""
NO_MECHANISM: Final = "no mechanism"
_API_KEY: Final = Struct(">h")
_SIZE: Final = Struct(">i")
_RAW: Final = LoginState.RAW
_SERVE: Final = Verdict.SERVE
_HANDSHAKE: Final = Verdict.HANDSHAKE
_AUTHENTICATE: Final = Verdict.AUTHENTICATE
ReplyOf = Callable[[LoginAnswer], bytes | None]
Outcome = bytes | AuthenticationFailed
_VERSIONS: Final = {api.SASL_HANDSHAKE: (0, 1), api.SASL_AUTHENTICATE: (0, 2)}


class LoginCounts:
    """The logins of a listener, counted."""

    __slots__ = ("expired", "failed", "succeeded")

    def __init__(self) -> None:
        self.succeeded = self.failed = 0
        self.expired = 0
        """The connections that were closed because their client did not authenticate again in time."""


class LoginStage:
    """The logins of one listener. A `Guard`: each connection gets a dispatcher of its own, `LoggingIn`."""

    def __init__(
        self, dispatcher: Dispatcher, terms: LoginTerms, security_protocol: str, most_bytes: int, refusals: LateRefusals
    ) -> None:
        """``most_bytes`` is ``sasl.server.max.receive.size``."""
        self.dispatcher = dispatcher
        self.terms = terms
        self.most_bytes = most_bytes
        self.refusals = refusals
        self.counts = LoginCounts()
        self._security_protocol = security_protocol
        self._time_limit: TimeLimit[Connection] = TimeLimit(PATIENCE_MS, self._too_slow)

    def change_terms(self, terms: LoginTerms) -> None:
        """Apply other terms to connections that are made from now on."""
        self.terms = terms

    def __call__(self, connection: Connection, frame: memoryview) -> Reply | Pending | None:
        """Nobody is served without `opened`."""
        del connection, frame
        raise CloseConnection("it is not logged in")

    def trait_at(self, view: memoryview, position: int) -> Trait:
        """Requests of a login have no traits."""
        del view, position
        return ORDINARY

    def opened(self, connection: Connection) -> None:
        """Begin the login of a connection."""
        client = connection.client
        client.security_protocol = self._security_protocol
        connection.dispatch = LoggingIn(self, Login(self.terms))
        self.restrict(connection)
        self._time_limit.begin(connection, connection.server.scheduler)
        client.on_close = partial(self._time_limit.end, connection)

    def restrict(self, connection: Connection) -> None:
        """Accept frames of a login only."""
        connection.most_frame_bytes = min(self.most_bytes, connection.server.max_request_bytes)

    def _too_slow(self, connection: Connection) -> None:
        connection.give_up(f"no login: it did not log in within {PATIENCE_MS // 1000} s")

    def describe(self) -> str:
        """The listener's demands, for the log."""
        return f"set security.protocol={self._security_protocol} and sasl.mechanism={_either(self.terms.exchanges)}"

    def failed(self, connection: Connection, mechanism: str, reason: str) -> None:
        """Count and log a failed login."""
        self.counts.failed += 1
        client = connection.client
        connection.server.complaints.say(
            log,
            logging.WARNING,
            f"failed logins of {client.host} on listener {client.listener_name}, {mechanism or NO_MECHANISM}",
            "login failed: %s from %s on listener %s: %s",
            mechanism or NO_MECHANISM,
            client,
            client.listener_name,
            reason,
        )


class LoggingIn:
    """The dispatcher of one connection: it logs the client in, and watches over its session."""

    __slots__ = ("_login", "_stage")

    def __init__(self, stage: LoginStage, login: Login) -> None:
        self._stage = stage
        self._login = login

    def trait_at(self, view: memoryview, position: int) -> Trait:
        """The trait of a request."""
        return self._stage.dispatcher.trait_at(view, position) if self._login.state is LoginState.DONE else ORDINARY

    def __call__(self, connection: Connection, frame: memoryview) -> Reply | Pending | None:
        """Serve one frame."""
        login, stage = self._login, self._stage
        if login.state is _RAW:
            return self._take_raw(connection, frame)
        api_key: int = _API_KEY.unpack_from(frame)[0]
        # Not the time of the poller: that is the beginning of the turn, in which the session may have ended.
        verdict = login.judge(api_key, connection.server.scheduler.monotonic_ms())
        if verdict is _SERVE:
            return stage.dispatcher(connection, frame)
        try:
            if verdict is not _HANDSHAKE and verdict is not _AUTHENTICATE:
                return self._end(connection, verdict, frame)
            header = decode_request_header(frame)
            first, last = _VERSIONS[api_key]
            if not first <= header.api_version <= last:
                raise CloseConnection(f"no login: {api.API_KEYS[api_key].name} version {header.api_version}")
            if verdict is _HANDSHAKE:
                return self._handshake(connection, header, frame)
            return self._authenticate(connection, header, frame)
        except (Malformed, StructError, IndexError) as why:
            raise CloseConnection(f"no login: a request that cannot be read: {why}; {stage.describe()}") from None

    def _end(self, connection: Connection, verdict: Verdict, frame: memoryview) -> Reply | Pending:
        """End the connection, after the answer to its request where that has one."""
        login, stage = self._login, self._stage
        if verdict is Verdict.REFUSE:
            return self._refuse(connection, decode_request_header(frame), frame)
        if verdict is Verdict.EXPIRED:
            stage.counts.expired += 1
            raise CloseConnection("its session is over: it did not authenticate again in time")
        raise CloseConnection(f"no login: {login.reason}; {stage.describe()}")

    def _handshake(self, connection: Connection, header: RequestHeader, frame: memoryview) -> Reply | Pending:
        login, stage = self._login, self._stage
        request = decode(SaslHandshakeRequest, header.api_version, frame, header.end)
        answer = login.handshake(header.api_version, request.mechanism, connection.server.scheduler.monotonic_ms())
        stage.restrict(connection)
        if login.state is LoginState.RAW:
            connection.least_frame_bytes = 0
        response = SaslHandshakeResponse(error_code=answer.error_code, mechanisms=list(stage.terms.exchanges))
        # As in Kafka, a reauthentication that fails here has no answer.
        reply = None if answer.failure and login.user else _reply(header, response)
        return self._answer(connection, answer, reply)

    def _authenticate(self, connection: Connection, header: RequestHeader, frame: memoryview) -> Reply | Pending:
        request = decode(SaslAuthenticateRequest, header.api_version, frame, header.end)

        def reply_of(answer: LoginAnswer) -> bytes:
            response = SaslAuthenticateResponse(
                error_code=answer.error_code,
                error_message=answer.text,
                auth_bytes=answer.token,
                session_lifetime_ms=answer.lifetime_ms,
            )
            return _reply(header, response)

        return self._log_in(connection, request.auth_bytes, reply_of)

    def _take_raw(self, connection: Connection, frame: memoryview) -> Reply | Pending:
        def reply_of(answer: LoginAnswer) -> bytes | None:
            return None if answer.failure else _SIZE.pack(len(answer.token)) + answer.token

        return self._log_in(connection, bytes(frame), reply_of)

    def _refuse(self, connection: Connection, header: RequestHeader, frame: memoryview) -> Reply | Pending:
        """Answer a request that does not belong in a login with an error, as far as there is a place for it, and as
        long as it is small: a larger one is not decoded, and its connection is closed."""
        key, version = header.api_key, header.api_version
        first, last = self._stage.dispatcher.versions.get(key, (0, -1))
        if not first <= version <= last:
            raise CloseConnection(f"no login: API key {key} version {version}, which is not served")
        reason = self._login.refuse(key)
        if len(frame) > LONGEST_REFUSED_BYTES:
            return self._fail(connection, reason, None)
        request = decode(api.request_class(key), version, frame, header.end)
        reply = _reply(header, failed_response(request, version, ILLEGAL_SASL_STATE))
        return self._fail(connection, reason, reply if len(reply) <= LONGEST_REFUSAL_BYTES else None)

    def _log_in(self, connection: Connection, token: bytes, reply_of: ReplyOf) -> Reply | Pending:
        """Take a message of the mechanism, in a thread if it may block. Nothing else is served meanwhile."""
        login = self._login
        if not login.may_block:
            return self._settle(connection, login.attempt(token), reply_of)
        pending = Pending()
        gone: list[bool] = []
        pending.when_cancelled(lambda: gone.append(True))

        def done(outcome: Outcome | None, error: BaseException | None) -> None:
            if gone:
                return
            try:
                if outcome is None:
                    raise error or AssertionError("no outcome of a login")
                reply = self._settle(connection, outcome, reply_of)
            except Exception as unexpected:
                connection.end_with(unexpected)
                return
            if isinstance(reply, Pending):
                pending.when_cancelled(reply.cancel)
                reply.when_resolved(pending.resolve)
            else:
                pending.resolve(reply)

        connection.server.scheduler.submit_blocking(partial(login.attempt, token), done)
        return pending

    def _settle(self, connection: Connection, outcome: Outcome, reply_of: ReplyOf) -> Reply | Pending:
        login, stage = self._login, self._stage
        is_first = not login.user
        scheduler = connection.server.scheduler
        answer = login.settle(outcome, Now(scheduler.monotonic_ms(), scheduler.now_ms()))
        if login.state is LoginState.DONE:
            client = connection.client
            client.authenticated(Principal(USER, login.user, token_authenticated=login.token_authenticated))
            connection.most_frame_bytes = connection.server.max_request_bytes
            connection.least_frame_bytes = LEAST_FRAME_BYTES
            if is_first:
                stage.counts.succeeded += 1
                connection.server.newcomers.admit(connection)
                _end_time_limit(connection)
            if not login.has_session:
                connection.dispatch = stage.dispatcher
        return self._answer(connection, answer, None if answer.is_silent else reply_of(answer))

    def _answer(self, connection: Connection, answer: LoginAnswer, reply: bytes | None) -> Reply | Pending:
        if answer.refusal:
            self._stage.failed(connection, self._login.mechanism, answer.refusal)
        if answer.failure:
            return self._fail(connection, answer.failure, reply, is_known=answer.is_known)
        assert reply is not None
        connection.counters, connection.answered_ns = UNCOUNTED, perf_counter_ns()
        return reply

    def _fail(self, connection: Connection, reason: str, reply: bytes | None, *, is_known: bool = False) -> Pending:
        """End the connection after a late reply. ``is_known``: the failure is counted and logged already."""
        if not self._login.user:
            _end_time_limit(connection)
        if not is_known:
            self._stage.failed(connection, self._login.mechanism, reason)
        return self._stage.refusals.put(connection, reply)


def _end_time_limit(connection: Connection) -> None:
    """End the time of a first login. Later, whatever is called when the client is gone belongs to others."""
    end, connection.client.on_close = connection.client.on_close, None
    if end is not None:
        end()


def _reply(header: RequestHeader, response: Any) -> bytes:
    body = encode(response, header.api_version)
    if response_header_version(header.api_key, header.api_version):
        return HEADER_V1.pack(len(body) + 5, header.correlation_id, 0) + body
    return HEADER_V0.pack(len(body) + 4, header.correlation_id) + body


def _either(names: Any) -> str:
    return " or ".join(names)
