"""The ways of a node to others: one to brokers, one to controllers, each protected as its listener demands."""

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

from kpybroker.config import between_nodes
from kpybroker.config.between_nodes import Credentials, Dialled
from kpybroker.config.broker import BrokerConfig
from kpybroker.io.scheduler import LoopScheduler
from kpybroker.network.peer import Connect
from kpybroker.network.peers import connect_over
from kpybroker.network.setup import TimedConnect
from kpybroker.quorum.recovery import StartRefused
from kpybroker.server.outgoing import OpenStream, plain_stream

if TYPE_CHECKING:
    from kpybroker.assembly.node_tokens import NodeToken
    from kpybroker.network.sessions import Account
    from kpybroker.network.tls_stream import ClientContext
    from kpybroker.oauth.token_login import TokenLogin


class Ways(NamedTuple):
    """How this node connects to others."""

    controllers: Connect
    """To the active controller and to the voters."""
    brokers: Connect
    fetchers: Connect
    """To the leaders of partitions, with the buffers that are configured for fetching."""
    probe: Connect
    """Only finds out whether a port accepts connections. Nothing is sent over it, so it needs no protection."""
    contexts: "tuple[ClientContext, ...]" = ()
    """The keys and certificates of the ways with TLS."""
    tokens: "tuple[NodeToken, ...]" = ()
    """The tokens by which this node logs in by OAUTHBEARER."""

    async def fetch_tokens(self) -> None:
        """Get the tokens, and begin to renew them. Raises StartRefused."""
        for token in self.tokens:
            await asyncio.to_thread(token.load)
            token.start()

    def close(self) -> None:
        """Renew no tokens any more."""
        for token in self.tokens:
            token.close()

    def load_keys(self, config: BrokerConfig) -> None:
        """Read keys and certificates from their files. Raises StartRefused."""
        if self.contexts:
            from kpybroker.tls.settings import TlsError

            try:
                for context in self.contexts:
                    context.load(config)
            except TlsError as error:
                raise StartRefused(str(error)) from None

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take over a change of the configuration."""
        for context in self.contexts:
            context.reconfigure(config)


class _Builder:
    """The parts that every way has."""

    def __init__(
        self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, scheduler: LoopScheduler, rng: random.Random
    ) -> None:
        self._config = config
        self._loop = loop
        self._scheduler = scheduler
        self._rng = rng
        self.contexts: dict[str, ClientContext] = {}
        """By the names of their listeners."""
        self.tokens: dict[TokenLogin, NodeToken] = {}

    def timed(self, connect: Connect) -> Connect:
        """A way with the timeouts of ``socket.connection.setup.timeout``."""
        first_ms = self._config["socket.connection.setup.timeout.ms"]
        most_ms = self._config["socket.connection.setup.timeout.max.ms"]
        return TimedConnect(self._scheduler, connect, self._rng, first_ms, most_ms)

    def plain(self, buffer_bytes: int = -1) -> Connect:
        """A way without protection."""
        return self.timed(connect_over(self._loop, buffer_bytes))

    def to(self, dialled: Dialled, buffer_bytes: int = -1) -> Connect:
        """The way to a kind of nodes."""
        if dialled.protocol == "PLAINTEXT":
            return self.plain(buffer_bytes)
        from kpybroker.network.patience import PatientConnect

        stream: OpenStream = plain_stream
        if dialled.has_tls:
            from kpybroker.network.tls_stream import ClientContext, tls_stream

            stream = tls_stream(self.contexts.setdefault(dialled.listener, ClientContext(dialled.listener)))
        connect = connect_over(self._loop, buffer_bytes, stream)
        if dialled.credentials is not None:
            from kpybroker.network.sessions import LoginConnect

            connect = LoginConnect(self._scheduler, connect, self._account(dialled.credentials), self._rng)
        return self.timed(PatientConnect(self._scheduler, connect, dialled.listener))

    def _account(self, credentials: "Credentials | TokenLogin") -> "Account":
        if isinstance(credentials, Credentials):
            return account_of(credentials)
        from kpybroker.assembly.node_tokens import NodeToken

        token = self.tokens.get(credentials)
        if token is None:
            token = self.tokens[credentials] = NodeToken(credentials, self._scheduler, self._rng)
        return token.account


def ways_of(
    config: BrokerConfig,
    loop: asyncio.AbstractEventLoop,
    scheduler: LoopScheduler,
    rng: random.Random,
    simulated: Connect | None,
) -> Ways:
    """The ways of a node with this configuration. ``simulated`` takes the place of real connections."""
    build = _Builder(config, loop, scheduler, rng)
    if simulated is not None:
        connect = build.timed(simulated)
        return Ways(connect, connect, build.timed(simulated), connect)
    controllers = between_nodes.controllers(config)
    to_controllers, probe = build.to(controllers), build.plain()
    if not config.is_broker:
        to_brokers = to_leaders = to_controllers  # it connects to no brokers
    else:
        brokers = between_nodes.brokers(config)
        to_brokers = build.to(brokers)
        to_leaders = build.to(brokers, config.asked("replica.socket.receive.buffer.bytes"))
    return Ways(
        to_controllers, to_brokers, to_leaders, probe, tuple(build.contexts.values()), tuple(build.tokens.values())
    )


def account_of(credentials: Credentials) -> "Account":
    """The account of a node with these credentials."""
    from kpybroker.network.login import Login
    from kpybroker.network.sessions import Account

    mechanism, user, password, by_token = credentials
    if mechanism == "PLAIN":
        from kpybroker.sasl.plain import PlainClient

        return Account(mechanism, user, lambda: Login(mechanism, PlainClient(user, password)))
    import secrets

    from kpybroker.sasl import scram
    from kpybroker.sasl.scram_client import ScramClient

    def new_login() -> Login:
        kind, nonce = scram.MECHANISMS[mechanism], secrets.token_hex(16)
        return Login(mechanism, ScramClient(kind, user, password, nonce, by_token=by_token))

    return Account(mechanism, user, new_login)
