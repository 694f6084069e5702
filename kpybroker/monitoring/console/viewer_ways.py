"""The way of a viewer to another node: the listener of it that is used, and the login and the TLS there.

A viewer that is a user of the cluster logs in there by SCRAM with its own password. Others use a listener without a
login. Where no authorizer tells viewers apart, this node also names itself for them, by its certificate or by the login
that it uses towards other nodes.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import (
    NO_SECURITY,
    PLAINTEXT,
    PROTOCOLS,
    SASL,
    SASL_SSL,
    SSL,
    ClientLogin,
    PasswordLogin,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.exchange import ClientExchange
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.security.tls.contexts import client_context
from kpybroker.security.tls.settings import TlsError, TlsSettings, read_settings
from kpybroker.security.tls.stores import modification_times
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig
    from kpybroker.hosts.network.sessions import LoginAccount
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

WITH_LOGIN: Final = (SASL, SASL_SSL)
WITH_TLS: Final = (SSL, SASL_SSL)
AccountAt = Callable[[str], "LoginAccount | None"]
"""The account by which this node logs in at a listener of other nodes, by the listener's name; None without one."""


class ViewerWay(NamedTuple):
    """The address of a node, and the protection of connections to it; None for a plain one without a login."""

    host: str
    port: int
    protection: ConnectionProtection | None


class ViewerWays:
    """The ways from one node to all others."""

    def __init__(self, role: "Broker | ControllerRole", account_at: AccountAt) -> None:
        self._role = role
        self._account_at = account_at
        self._contexts = ListenerContexts()

    async def to(self, viewer: Viewer, node_id: int) -> ViewerWay:
        """The way to a node. Raises KafkaError where there is none."""
        config = self._role.config
        for listener, login in self._offers(viewer, node_id):
            protocol = PROTOCOLS[listener.security_protocol]
            if protocol == PLAINTEXT:
                return ViewerWay(listener.host, listener.port, None)
            security, context = NO_SECURITY._replace(login=login), None
            if protocol in WITH_TLS:
                security = security._replace(tls={})
                # With SASL the certificate is not the name of the client.
                with_key = viewer.authorizer is None or login is not None
                try:
                    context = await asyncio.to_thread(self._contexts.of, config, listener.name, with_key=with_key)
                except TlsError as error:
                    line = f"the keys for its listener {listener.name} cannot be used: {error}"
                    raise KafkaError(error_codes.BROKER_NOT_AVAILABLE, line) from None
            return ViewerWay(listener.host, listener.port, ConnectionProtection(security, context))
        line = "it has no listener that you can use from here; open its own console"
        raise KafkaError(error_codes.BROKER_NOT_AVAILABLE, line)

    def _offers(self, viewer: Viewer, node_id: int) -> Iterator[tuple[Any, ClientLogin | None]]:
        """The listeners of a node that this viewer can use, with the login there, the best one first."""
        image = self._role.image
        node = image.brokers.get(node_id) or image.controllers.get(node_id)
        usual = self._role.config.inter_broker_listener_name
        # The one between brokers comes first: others may have addresses for other networks.
        listeners = [] if node is None else sorted(node.listeners.values(), key=lambda each: each.name != usual)
        with_login = [each for each in listeners if PROTOCOLS[each.security_protocol] in WITH_LOGIN]
        if viewer.password is not None:
            name = viewer.principal.name
            known = [each.name for each in scram.MECHANISMS.values() if (each.code, name) in image.scram_credentials]
            enabled = {each.name: self._enabled(each.name, known) for each in with_login}
            for each in sorted(with_login, key=lambda each: not enabled[each.name]) if known else ():
                yield each, PasswordLogin((enabled[each.name] or known)[0], name, viewer.password)
        if viewer.password is None or viewer.authorizer is None:
            yield from ((each, None) for each in listeners if each not in with_login)
        if viewer.authorizer is None:
            for each in with_login:
                account = self._account_at(each.name)
                if account is not None:
                    yield each, OwnLogin(account)

    def _enabled(self, listener: str, mechanisms: Sequence[str]) -> list[str]:
        """The mechanisms that a listener takes, as far as this node has it too."""
        taken = self._role.config.of_listener(listener, "sasl.enabled.mechanisms")
        return [each for each in mechanisms if each in taken]


class OwnLogin:
    """The login of this node towards others, whatever its mechanism is, for a connection of a client."""

    to_check: Final = "the login of this node towards others"

    def __init__(self, account: "LoginAccount") -> None:
        self._account = account
        self.mechanism = account.mechanism
        self.may_block = account.may_block
        self.identity = f"user {account.user!r}"

    def exchange(self, _nonce: str, host: str) -> ClientExchange:
        """This node's half of one login at a host."""
        return self._account.exchange_at(host)


class ListenerContexts:
    """The TLS contexts of this node as a client of listeners, made again when their files have changed."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, bool], tuple[TlsSettings, tuple[int, ...], ssl.SSLContext]] = {}

    def of(self, config: "BrokerConfig", listener: str, *, with_key: bool) -> ssl.SSLContext:
        """The context for a listener, with this node's own certificate or without one. Blocks. Raises TlsError."""
        settings = read_settings(partial(config.of_listener, listener))
        if not with_key:
            settings = settings._replace(keystore_location=None, keystore_key=None, keystore_certificate_chain=None)
        seen = settings, modification_times(settings)
        made = self._made.get((listener, with_key))
        if made is None or made[:2] != seen:
            made = self._made[listener, with_key] = *seen, client_context(settings)
        return made[2]
