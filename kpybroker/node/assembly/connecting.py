"""The ways of a node to others: one to brokers, one to controllers, each protected as its listener demands."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.config import between_nodes
from kpybroker.config.between_nodes import (
    Credentials,
    DialledNodes,
    KerberosCredentials,
    TokenCredentials,
)
from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.outgoing import OpenStream, plain_stream
from kpybroker.hosts.network.peer import Connect
from kpybroker.hosts.network.peers import connect_over
from kpybroker.hosts.network.setup import TimedConnect
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.runtime.io.scheduler import LoopScheduler

if TYPE_CHECKING:
    from kpybroker.hosts.network.sessions import LoginAccount, LoginConnect
    from kpybroker.hosts.network.tls_stream import ClientContext
    from kpybroker.node.assembly.node_tokens import NodeToken

log = logging.getLogger("kpybroker.network")


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
    logins: "tuple[NodeLogin, ...]" = ()
    """The ways with a login."""
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

    def account_at(self, listener: str) -> "LoginAccount | None":
        """The account by which this node logs in at a listener of others; None where it has none. Brokers come first,
        where controllers have a listener of the same name."""
        return next((each.account for each in reversed(self.logins) if each.listener == listener), None)

    def load_keys(self, config: BrokerConfig) -> None:
        """Read keys and certificates from their files. Raises StartRefused."""
        if self.contexts:
            from kpybroker.security.tls.settings import TlsError

            try:
                for context in self.contexts:
                    context.load(config)
            except TlsError as error:
                raise StartRefused(str(error)) from None

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take over a change of the configuration."""
        for context in self.contexts:
            context.reconfigure(config)
        for login in self.logins:
            login.reconfigure(config)


class NodeLogin:
    """The login of this node at one kind of nodes, which follows its JAAS config."""

    def __init__(
        self,
        find: Callable[[BrokerConfig], DialledNodes],
        dialled: DialledNodes,
        account: "LoginAccount",
        token: "NodeToken | None" = None,
    ) -> None:
        """``find`` finds the kind of nodes, ``dialled``, in a configuration. ``token``: the token that is shown
        there."""
        self.listener = dialled.listener
        self._find = find
        self._credentials = dialled.credentials
        self._account = account
        self._token = token
        self._connects: list[LoginConnect] = []

    @property
    def account(self) -> "LoginAccount":
        """The account for logins that begin now."""
        return self._account

    def over(self, scheduler: LoopScheduler, connect: Connect, rng: random.Random) -> Connect:
        """A way with this login."""
        from kpybroker.hosts.network.sessions import LoginConnect

        self._connects.append(LoginConnect(scheduler, connect, self._account, rng))
        return self._connects[-1]

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take over another configuration, for the logins that begin from now on."""
        credentials = self._find(config).credentials
        if credentials is None or credentials == self._credentials:
            return
        if isinstance(credentials, TokenCredentials):
            if self._token is None or not self._token.follow(credentials.source):
                return
            self._account = self._token.account
        else:
            self._account = account_of(credentials)
        self._credentials = credentials
        for connect in self._connects:
            connect.log_in_as(self._account)
        log.info("This node logs in to listener %s as %a from now on", self.listener, self._account.user)


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
        self.logins: list[NodeLogin] = []
        self.tokens: list[NodeToken] = []

    def timed(self, connect: Connect) -> Connect:
        """A way with the timeouts of ``socket.connection.setup.timeout``."""
        first_ms = self._config["socket.connection.setup.timeout.ms"]
        most_ms = self._config["socket.connection.setup.timeout.max.ms"]
        return TimedConnect(self._scheduler, connect, self._rng, first_ms, most_ms)

    def plain(self, buffer_bytes: int = -1) -> Connect:
        """A way without protection."""
        return self.timed(connect_over(self._loop, buffer_bytes))

    def login(self, find: Callable[[BrokerConfig], DialledNodes]) -> "NodeLogin | None":
        """The login at a kind of nodes; None if they demand none."""
        dialled = find(self._config)
        credentials = dialled.credentials
        if credentials is None:
            return None
        if isinstance(credentials, TokenCredentials):
            from kpybroker.node.assembly.node_tokens import NodeToken

            token = NodeToken(credentials.source, self._scheduler, self._rng)
            self.tokens.append(token)
            self.logins.append(NodeLogin(find, dialled, token.account, token))
        else:
            self.logins.append(NodeLogin(find, dialled, account_of(credentials)))
        return self.logins[-1]

    def to(self, dialled: DialledNodes, login: "NodeLogin | None", buffer_bytes: int = -1) -> Connect:
        """The way to a kind of nodes."""
        if dialled.protocol == "PLAINTEXT":
            return self.plain(buffer_bytes)
        from kpybroker.hosts.network.patience import PatientConnect

        stream: OpenStream = plain_stream
        if dialled.has_tls:
            from kpybroker.hosts.network.tls_stream import ClientContext, tls_stream

            stream = tls_stream(self.contexts.setdefault(dialled.listener, ClientContext(dialled.listener)))
        connect = connect_over(self._loop, buffer_bytes, stream)
        if login is not None:
            connect = login.over(self._scheduler, connect, self._rng)
        return self.timed(PatientConnect(self._scheduler, connect, dialled.listener))


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
    to_controllers = build.to(controllers, build.login(between_nodes.controllers))
    if not config.is_broker:
        to_brokers = to_leaders = to_controllers  # it connects to no brokers
    else:
        brokers = between_nodes.brokers(config)
        login = build.login(between_nodes.brokers)
        to_brokers = build.to(brokers, login)
        to_leaders = build.to(brokers, login, config.asked("replica.socket.receive.buffer.bytes"))
    parts = tuple(build.contexts.values()), tuple(build.logins), tuple(build.tokens)
    return Ways(to_controllers, to_brokers, to_leaders, build.plain(), *parts)


def account_of(credentials: Credentials | KerberosCredentials) -> "LoginAccount":
    """The account of a node with these credentials."""
    return _ACCOUNTS[credentials.mechanism](credentials)


def _plain(credentials: Credentials) -> "LoginAccount":
    from kpybroker.hosts.network.sessions import LoginAccount
    from kpybroker.machines.sasl.plain import PlainClient

    mechanism, user, password, _ = credentials
    return LoginAccount(mechanism, user, lambda _host: PlainClient(user, password))


def _scram(credentials: Credentials) -> "LoginAccount":
    import secrets

    from kpybroker.hosts.network.sessions import LoginAccount
    from kpybroker.machines.sasl import scram
    from kpybroker.machines.sasl.scram_client import ScramClient

    mechanism, user, password, by_token = credentials

    def exchange_at(_host: str) -> ScramClient:
        kind, nonce = scram.MECHANISMS[mechanism], secrets.token_hex(16)
        return ScramClient(kind, user, password, nonce, by_token=by_token)

    return LoginAccount(mechanism, user, exchange_at)


def _gssapi(credentials: KerberosCredentials) -> "LoginAccount":
    from functools import partial

    from kpybroker.hosts.network.sessions import LoginAccount
    from kpybroker.machines.sasl.gssapi import GssapiClient
    from kpybroker.security.kerberos.contexts import Initiator

    mechanism, login = credentials
    initiator = Initiator(login)
    return LoginAccount(mechanism, login.principal, lambda host: GssapiClient(partial(initiator.context, host)))


_ACCOUNTS: "Final[Mapping[str, Callable[[Any], LoginAccount]]]" = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "GSSAPI": _gssapi,
}
"""The mechanisms by which a node can log in (`kpybroker.config.between_nodes.MECHANISMS`)."""
