"""The TLS of a node's listeners: made at the start, and renewed when configs or files change (KIP-226).

Files are checked now and then in a thread. What cannot be used is logged, and the former keys stay. Connections keep
the keys with which they began.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.listener_tls import check_entries, settings_of
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.endpoints import WITH_TLS, Listener
from kpybroker.requests.server.tls_channel import PrincipalOf, TlsListener
from kpybroker.requests.server.tls_mistakes import ListenerTerms, TlsFailure
from kpybroker.runtime.calls.principal import ANONYMOUS, USER, Principal
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpybroker.security.tls.contexts import server_context_of
from kpybroker.security.tls.der import MalformedDer
from kpybroker.security.tls.mapping_rules import MappingRules, NoRuleApplies
from kpybroker.security.tls.names import names_of, subject_of
from kpybroker.security.tls.pem import KeyEntry
from kpybroker.security.tls.settings import TlsError, TlsSettings
from kpybroker.security.tls.stores import modification_times, read_key_store

log = logging.getLogger("kpybroker.server")

LOOK_EVERY_MS: Final = 10_000


class _Loaded(NamedTuple):
    """The settings and files that a listener works with, or that it has refused."""

    settings: TlsSettings
    times: tuple[int, ...]
    entries: tuple[KeyEntry, ...]


_Change = tuple[str, _Loaded | None, Callable[[], object]]
"""(name of a listener, what it has loaded, what to do on the loop)."""


class Encryption:
    """The listeners with TLS of one node."""

    def __init__(self, config: BrokerConfig, scheduler: Scheduler) -> None:
        """Read the stores. Raises StartRefused."""
        self._config = config
        self._scheduler = scheduler
        self._channels: dict[str, TlsListener] = {}
        self._loaded: dict[str, _Loaded] = {}
        self._protocols = {each.name: each.protocol for each in config.listeners if each.protocol in WITH_TLS}
        self._is_looking = self._looks_again = False
        self._timer: Timer | None = None
        for name, protocol in self._protocols.items():
            settings = settings_of(config, name, protocol)
            try:
                times, entries = modification_times(settings), read_key_store(settings)
                context = server_context_of(settings, entries)
                self._channels[name] = TlsListener(
                    context, self._terms(name, settings, entries), scheduler, _principals(config, name, protocol)
                )
            except (TlsError, MalformedDer) as error:
                raise StartRefused(f"listener {name} ({protocol}): {error}") from None
            self._loaded[name] = _Loaded(settings, times, entries)

    def channel_of(self, listener: Listener) -> TlsListener:
        """The function that makes the channels of a listener with TLS."""
        return self._channels[listener.name]

    def start(self) -> None:
        """Begin to watch the files."""
        self._timer = self._scheduler.call_later(LOOK_EVERY_MS, self._look_now_and_then)

    def close(self) -> None:
        """Stop watching the files."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take over another configuration, for connections that begin soon."""
        self._config = config
        self.look()

    def look(self) -> None:
        """Read the stores in a thread if the configuration or the files have changed."""
        if self._is_looking:
            self._looks_again = True
            return
        self._is_looking = True
        config, loaded = self._config, dict(self._loaded)

        def read() -> list[_Change]:
            return [change for name in loaded if (change := self._changed(config, name, loaded[name])) is not None]

        self._scheduler.submit_blocking(read, self._found)

    def _look_now_and_then(self) -> None:
        self.look()
        self.start()

    def _changed(self, config: BrokerConfig, name: str, loaded: _Loaded) -> _Change | None:
        """The change of a listener, or None if there is none. Runs in a thread."""
        settings = settings_of(config, name, self._protocols[name])
        times = modification_times(settings)
        if (settings, times) == (loaded.settings, loaded.times):
            return None
        seen = loaded._replace(settings=settings, times=times)
        try:
            entries = read_key_store(settings)
            context = server_context_of(settings, entries)
            check_entries(loaded.entries, entries, config)
            terms = self._terms(name, settings, entries)
        except (TlsError, MalformedDer) as error:
            line, reason = "listener %s keeps its former keys and certificates: %s", str(error)
            return name, seen, lambda: log.warning(line, name, reason)

        def replace() -> None:
            self._channels[name].change(context, terms)
            log.info("listener %s has read its keys and certificates again (%s)", name, terms.certificate)

        return name, seen._replace(entries=entries), replace

    def _found(self, changes: list[_Change] | None, error: BaseException | None) -> None:
        self._is_looking = False
        if error is not None:
            log.warning("the key stores of listeners cannot be checked: %s", error)
        for name, loaded, act in changes or ():
            if loaded is not None:
                self._loaded[name] = loaded
            act()
        if self._looks_again:
            self._looks_again = False
            self.look()

    def _terms(self, name: str, settings: TlsSettings, entries: tuple[KeyEntry, ...]) -> ListenerTerms:
        certificate = ""
        if entries:
            names = names_of(entries[0].chain[0])
            certificate = f"{names.subject}, issued by {names.issuer}"
        return ListenerTerms(name, self._protocols[name], certificate, settings.client_auth)


def _principals(config: BrokerConfig, listener: str, protocol: str) -> PrincipalOf | None:
    """The function that names clients by their certificates; None where they log in."""
    if protocol != "SSL":
        return None
    rules = MappingRules(config.of_listener(listener, "ssl.principal.mapping.rules"))

    def principal_of(certificate: bytes | None) -> Principal:
        if certificate is None:
            return ANONYMOUS
        try:
            name = rules.user_of(subject_of(certificate))
            return Principal(USER, name) if name else ANONYMOUS  # a certificate without a subject is nobody's
        except (NoRuleApplies, MalformedDer) as error:
            raise TlsFailure(f"its certificate names no user on listener {listener} (SSL): {error}") from None

    return principal_of
