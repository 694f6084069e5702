"""The token by which this node logs in to others with OAUTHBEARER: fetched at the start, renewed before it expires.

It is renewed by Kafka's rules (``sasl.login.refresh.*``), in a thread. When that fails, the token stays, and the next
attempt follows 10 s later. Another source is followed as soon as its first token is there.
"""

import logging
import random
from functools import partial
from typing import Final

from kpybroker.hosts.network.sessions import LoginAccount
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.sasl.oauthbearer import NAME, OAuthBearerClient
from kpybroker.runtime.io.one_off import in_thread
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpybroker.security.oauth.access_tokens import AccessToken, new_token
from kpybroker.security.oauth.fetching import FetchFailed
from kpybroker.security.oauth.token_login import TokenLogin

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
        self._extensions = source.extensions
        self._is_closed = False
        self.account = self._account()

    def _account(self) -> LoginAccount:
        source = self._source
        name = "an unsigned token" if source.endpoint is None else source.endpoint.url
        return LoginAccount(NAME, source.client.identity if source.client else name, self._exchange_at)

    def load(self) -> None:
        """Get the first token. Blocks. Raises StartRefused."""
        try:
            self._token = new_token(self._source)
        except FetchFailed as error:
            raise StartRefused(f"no token to log in to other nodes by {NAME}: {error}") from None

    def start(self) -> None:
        """Begin to renew it."""
        self._wait()

    def follow(self, source: TokenLogin) -> bool:
        """Take tokens from another source; the present one stays until the first is there. Whether it is another."""
        if source == self._source:
            return False
        self._source = source
        self.account = self._account()
        if self._timer is not None:
            self._timer.cancel()
        self._renew()
        return True

    def close(self) -> None:
        """Renew it no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _exchange_at(self, _host: str) -> OAuthBearerClient:
        assert self._token is not None, "loaded at the start"
        return OAuthBearerClient(self._token.text, dict(self._extensions))

    def _wait(self) -> None:
        token, now_ms = self._token, self._scheduler.now_ms()
        assert token is not None
        wait_ms = AGAIN_AFTER_MS
        if now_ms <= token.expires_ms:
            due_ms = self._source.window.due_ms(token.begins_ms, token.expires_ms, now_ms, self._rng.random())
            wait_ms = max(due_ms - now_ms, 0) or AGAIN_AFTER_MS
        self._renew_after(wait_ms)

    def _renew_after(self, wait_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._scheduler.call_later(wait_ms, self._renew)

    def _renew(self) -> None:
        source = self._source
        in_thread(self._scheduler, lambda: new_token(source), partial(self._renewed, source), "kpybroker-token")

    def _renewed(self, source: TokenLogin, token: AccessToken | None, error: BaseException | None) -> None:
        if self._is_closed or source != self._source:
            return
        if token is None:
            log.warning("the token to log in to other nodes by %s stays as it is: %s", NAME, error)
            self._renew_after(AGAIN_AFTER_MS)
            return
        self._token, self._extensions = token, source.extensions
        self._wait()
