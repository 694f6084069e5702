"""The keys of identity providers: fetched at the start, again now and then, and for a token whose key is not there.

They are Kafka's ``RefreshingHttpsJwks`` and ``JwksFileVerificationKeyResolver``. Fetching is done in a thread. When it
fails, the former keys stay.
"""

import logging
from functools import partial
from pathlib import Path
from typing import Final

from kpybroker.config.oauth import KeySource
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.runtime.io.one_off import in_thread
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpybroker.security.oauth.access_tokens import context_of
from kpybroker.security.oauth.fetching import FetchFailed, fetch, retrying
from kpybroker.security.oauth.key_set import BrokenKeySet, PublicKey, read_key_set
from kpybroker.security.oauth.missing_keys import MissingKeys

log = logging.getLogger("kpybroker.login")

FILE_LOOK_MS: Final = 10_000
"""A file is read again this soon after it has changed."""
FOR_TOKENS_EVERY_MS: Final = 1_000
"""Tokens whose keys are missing cause one request in this time: anybody can make such tokens."""


class ProviderKeys:
    """The keys at one place."""

    def __init__(self, source: KeySource, scheduler: Scheduler) -> None:
        self.keys: tuple[PublicKey, ...] = ()
        self._source = source
        self._scheduler = scheduler
        self._missing = MissingKeys()
        self._timer: Timer | None = None
        self._is_fetching = self._is_closed = False
        self._changed_ns = 0
        self._next_for_tokens_ms = 0.0
        self._is_file = source.endpoint.is_file
        self._refresh_ms = min(source.refresh_ms, FILE_LOOK_MS) if self._is_file else source.refresh_ms

    def load(self) -> None:
        """Fetch the keys once. Blocks. Raises StartRefused."""
        try:
            self.keys = self._fetch()
        except FetchFailed as error:
            raise StartRefused(f"the keys that sign OAUTHBEARER tokens cannot be fetched: {error}") from None

    def start(self) -> None:
        """Begin to fetch them now and then."""
        self._timer = self._scheduler.call_later(self._refresh_ms, self._due)

    def close(self) -> None:
        """Fetch no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def missing(self, kid: str | None) -> None:
        """A token names a key that is not there: fetch the keys, unless that was done for this key lately."""
        now_ms = self._scheduler.monotonic_ms()
        if kid is None or self._is_fetching or now_ms < self._next_for_tokens_ms:
            return
        if self._missing.should_ask(kid, now_ms):
            self._next_for_tokens_ms = now_ms + FOR_TOKENS_EVERY_MS
            self.refresh()

    def refresh(self) -> None:
        """Fetch the keys in a thread; not if that is under way."""
        if self._is_fetching or self._is_closed:
            return
        self._is_fetching = True
        source = self._source
        work = partial(retrying, self._fetch, source.backoff_ms, source.backoff_max_ms)
        in_thread(self._scheduler, work, self._fetched, "kpybroker-jwks")

    def _due(self) -> None:
        if not self._is_file or self._modified_ns() != self._changed_ns:
            self.refresh()
        self.start()

    def _modified_ns(self) -> int:
        try:
            return Path(self._source.endpoint.target).stat().st_mtime_ns
        except OSError:
            return 0

    def _fetch(self) -> tuple[PublicKey, ...]:
        """Runs in a thread, too. Raises FetchFailed."""
        endpoint = self._source.endpoint
        if self._is_file:
            self._changed_ns = self._modified_ns()
        content = fetch(endpoint, lambda: context_of(dict(self._source.tls)))
        try:
            return read_key_set(content)
        except BrokenKeySet as why:
            raise FetchFailed(f"{endpoint.url}: {why}") from None

    def _fetched(self, keys: tuple[PublicKey, ...] | None, error: BaseException | None) -> None:
        self._is_fetching = False
        if self._is_closed:
            return
        if keys is None:
            log.warning("the keys that sign OAUTHBEARER tokens stay as they are: %s", error)
            return
        self._missing.found(key.kid for key in keys)
        if {key.kid for key in keys} != {key.kid for key in self.keys}:
            names = ", ".join(str(key.kid)[:64] for key in keys)
            log.info("keys that sign OAUTHBEARER tokens, from %s: %s", self._source.endpoint.url, names)
        self.keys = keys
