"""Connections that log in before they are used, and again before their session ends (KIP-368).

A login over a connection in use waits for the responses that are outstanding, since the other side serves nothing else
meanwhile. Requests that come during that time are sent afterwards. So no request is lost by it.

Invariant: every frame that is sent by the user of a link gets one frame as its answer. Between nodes all requests do.
"""

import random
from collections.abc import Callable
from typing import Final

from kpybroker.hosts.network.login import LoginFailed, OutgoingLogin
from kpybroker.hosts.network.outgoing import Unprotected
from kpybroker.hosts.network.peer import Connect, Link
from kpybroker.machines.sasl.exchange import ClientExchange
from kpybroker.runtime.io.scheduler import Scheduler, Timer

EARLIEST, LATEST = 0.85, 0.95
"""The part of a session's lifetime after which a node logs in again, as in Kafka: chosen at random between the two."""
SLOW_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
"""Their answers take milliseconds to compute: a thread does it."""
WAITING_MECHANISMS: Final = ("GSSAPI",)
"""Their answers may need other machines, such as a KDC: a thread for such waits does it."""

Taken = Callable[[bytes | memoryview], object]
Lost = Callable[[str], object]


class LoginAccount:
    """The name by which a node logs in, and a way to begin a login. Holds a password."""

    def __init__(self, mechanism: str, user: str, exchange_at: Callable[[str], ClientExchange]) -> None:
        """``exchange_at`` makes this node's half of one login at the node on a host."""
        self.mechanism = mechanism
        self.user = user
        self.exchange_at = exchange_at

    @property
    def may_block(self) -> bool:
        """Whether its exchanges take long."""
        return self.mechanism in SLOW_MECHANISMS + WAITING_MECHANISMS

    def new_login(self, host: str) -> OutgoingLogin:
        """A login at the node on a host."""
        return OutgoingLogin(self.mechanism, self.exchange_at(host))

    def __repr__(self) -> str:
        return f"Account({self.mechanism}, {self.user!r})"


class LoginConnect:
    """A `Connect` that adds the login to another one."""

    def __init__(self, scheduler: Scheduler, connect: Connect, account: LoginAccount, rng: random.Random) -> None:
        self._scheduler = scheduler
        self._connect = connect
        self._account = account
        self._rng = rng

    def log_in_as(self, account: LoginAccount) -> None:
        """Use another account for the logins that begin from now on."""
        self._account = account

    def __call__(self, host: str, port: int, opened: Callable[[], object], taken: Taken, lost: Lost) -> Link:
        session = _Session(self._scheduler, host, lambda: self._account, self._rng, (opened, taken, lost))
        session.link = self._connect(host, port, session.opened, session.taken, session.lost)
        return session


class _Session:
    """One connection: a link for its user, and the user of the link below."""

    def __init__(
        self,
        scheduler: Scheduler,
        host: str,
        present: Callable[[], LoginAccount],
        rng: random.Random,
        user: tuple[Callable[[], object], Taken, Lost],
    ) -> None:
        self.link: Link | None = None
        self._scheduler = scheduler
        self._host = host
        self._present = present
        """Returns the account of the node at present."""
        self._account = present()
        self._rng = rng
        self._user_opened, self._user_taken, self._user_lost = user
        self._login: OutgoingLogin | None = None
        """The login that is under way; None between logins."""
        self._before: OutgoingLogin | None = None
        """The last login that succeeded."""
        self._timer: Timer | None = None
        self._is_due = False
        """Whether the next login waits for outstanding responses."""
        self._held: list[bytes] = []
        """The frames that are sent after the login."""
        self._outstanding = 0
        self._is_stepping = False
        """Whether a thread works on an answer to the login."""
        self._lost: str | None = None
        """The reason for which the link was lost meanwhile."""
        self._is_closed = False

    # The user's side.

    def send(self, frame: bytes) -> None:
        if self._is_due or self._login is not None:
            self._held.append(frame)
        elif self.link is not None:
            self._outstanding += 1
            self.link.send(frame)

    def close(self) -> None:
        self._is_closed = True
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self.link is not None:
            self.link.close()

    # The side of the link below.

    def opened(self) -> None:
        """The connection is open: log in."""
        self._login = self._account.new_login(self._host)
        self._send(self._login.begin())

    def taken(self, frame: bytes | memoryview) -> None:
        """A frame came: an answer to the login, or to the user."""
        login = self._login
        if login is None:
            self._outstanding -= 1
            self._user_taken(frame)
            self._log_in_again()
        elif self._account.may_block:
            answer = bytes(frame)
            self._is_stepping = True
            waits = self._account.mechanism in WAITING_MECHANISMS
            submit = self._scheduler.submit_waiting if waits else self._scheduler.submit_urgent
            submit(lambda: _step(login, answer), lambda step, error: self._stepped(login, step, error))
        else:
            self._stepped(login, _step(login, frame), None)

    def lost(self, reason: str) -> None:
        """The connection is gone. If that ends a login, the reason says so. The last answer may still say more."""
        if self._is_stepping:
            self._lost = reason
            return
        if self._login is not None and not self._is_closed and not isinstance(reason, Unprotected):
            hint = "" if self._login.is_answered else "; is its listener one with SASL?"
            reason = self._failed(f"{reason}{hint}")
        self._end(reason)

    # The login.

    def _stepped(self, login: OutgoingLogin, step: bytes | LoginFailed | None, error: BaseException | None) -> None:
        self._is_stepping = False
        if self._is_closed or self._login is not login:
            return
        if error is not None or isinstance(step, LoginFailed):
            self._end(self._failed(str(step) if error is None else f"a defect: {error!r}"))
        elif self._lost is not None:
            self.lost(self._lost)
        elif step is not None:
            self._send(step)
        else:
            self._logged_in(login)

    def _logged_in(self, login: OutgoingLogin) -> None:
        is_first = self._before is None
        self._before, self._login = login, None
        if login.session_lifetime_ms > 0:
            wait_ms = login.session_lifetime_ms * self._rng.uniform(EARLIEST, LATEST)
            self._timer = self._scheduler.call_later(wait_ms, self._due)
        if is_first:
            self._user_opened()
        held, self._held = self._held, []
        for frame in held:
            if not self._is_closed:
                self.send(frame)

    def _due(self) -> None:
        self._is_due = True
        self._log_in_again()

    def _log_in_again(self) -> None:
        if not self._is_due or self._outstanding > 0 or self._is_closed or self._before is None:
            return
        self._is_due = False
        present = self._present()
        if present.user == self._account.user:  # a connection never changes its user
            self._account = present
        login = self._login = self._account.new_login(self._host)
        try:
            self._send(login.begin_again(self._before))
        except LoginFailed as error:
            self._end(self._failed(str(error)))

    def _send(self, frame: bytes) -> None:
        if self.link is not None:
            self.link.send(frame)

    def _failed(self, why: str) -> Unprotected:
        account = self._account
        return Unprotected(f"the login as {account.user[:64]!a} by {account.mechanism} failed: {why}")

    def _end(self, reason: str) -> None:
        if not self._is_closed:
            self.close()
            self._user_lost(reason)


def _step(login: OutgoingLogin, frame: bytes | memoryview) -> bytes | LoginFailed | None:
    try:
        return login.answer(frame)
    except LoginFailed as error:
        return error
