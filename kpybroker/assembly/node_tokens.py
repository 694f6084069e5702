"""The token by which this node logs in to others with OAUTHBEARER: fetched at the start, renewed before it expires.

It is renewed by Kafka's rules (``sasl.login.refresh.*``), in a thread. When that fails, the token stays, and the next
attempt follows 10 s later.
"""

import logging
import random
from typing import Final

from kpybroker.io.one_off import in_thread
from kpybroker.io.scheduler import Scheduler, Timer
from kpybroker.network.login import Login
from kpybroker.network.sessions import Account
from kpybroker.oauth.access_tokens import AccessToken, new_token
from kpybroker.oauth.fetching import FetchFailed
from kpybroker.oauth.token_login import TokenLogin
from kpybroker.quorum.recovery import StartRefused
from kpybroker.sasl.oauthbearer import NAME, OAuthBearerClient

log = logging.getLogger("kpybroker.network")

AGAIN_AFTER_MS: Final = 10_000


class NodeToken:
    """One token, of one source."""

    def __init__(self, source: TokenLogin, scheduler: Scheduler, rng: random.Random) -> None:
        self._source = source
        self._scheduler = scheduler
        self._rng = rng
        self._token: AccessToken | None = None
        self._timer: Timer | None = None
        self._is_closed = False
        name = "an unsigned token" if source.endpoint is None else source.endpoint.url
        self.account = Account(NAME, source.client.client_id if source.client else name, self._new_login)

    def load(self) -> None:
        """Get the first token. Blocks. Raises StartRefused."""
        try:
            self._token = new_token(self._source)
        except FetchFailed as error:
            raise StartRefused(f"no token to log in to other nodes by {NAME}: {error}") from None

    def start(self) -> None:
        """Begin to renew it."""
        self._wait()

    def close(self) -> None:
        """Renew it no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _new_login(self, _host: str) -> Login:
        assert self._token is not None, "loaded at the start"
        return Login(NAME, OAuthBearerClient(self._token.text, dict(self._source.extensions)))

    def _wait(self) -> None:
        token, now_ms = self._token, self._scheduler.now_ms()
        assert token is not None
        wait_ms = AGAIN_AFTER_MS
        if now_ms <= token.expires_ms:
            due_ms = self._source.window.due_ms(token.begins_ms, token.expires_ms, now_ms, self._rng.random())
            wait_ms = max(due_ms - now_ms, 0) or AGAIN_AFTER_MS
        self._timer = self._scheduler.call_later(wait_ms, self._renew)

    def _renew(self) -> None:
        in_thread(self._scheduler, lambda: new_token(self._source), self._renewed, "kpybroker-token")

    def _renewed(self, token: AccessToken | None, error: BaseException | None) -> None:
        if self._is_closed:
            return
        if token is None:
            log.warning("the token to log in to other nodes by %s stays as it is: %s", NAME, error)
            self._timer = self._scheduler.call_later(AGAIN_AFTER_MS, self._renew)
            return
        self._token = token
        self._wait()
