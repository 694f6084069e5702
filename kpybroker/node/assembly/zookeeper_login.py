"""The login of a broker at ZooKeeper: DIGEST-MD5 or Kerberos, as the file says that ``KAFKA_OPTS`` names.

A ticket may have to be got from a KDC, which blocks. So that happens in a thread, before a connection is opened, and
the session finds its first message ready. Without a ticket there is no connection; the client tries again.
"""

import os
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kpybroker.hosts.network.outgoing import OpenStream
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpybroker.machines.sasl.krb5_login import Krb5Login
from kpybroker.machines.zookeeper.client.digest_md5 import DigestMd5
from kpybroker.machines.zookeeper.client.jaas_file import DigestLogin, JaasSection, login_of, place_of
from kpybroker.machines.zookeeper.client.session import SaslExchange, ZooKeeperLoginRefused
from kpystorage.disk_errors import in_words

if TYPE_CHECKING:
    import asyncio

    from kpybroker.machines.sasl.gssapi import GssapiClient


class ZooKeeperLogin(NamedTuple):
    """How a session begins its login, and how a stream is opened that is ready for one."""

    new_exchange: Callable[[], SaslExchange]
    prepared: Callable[[OpenStream], OpenStream]


class PreparedGssapi:
    """One login by Kerberos whose first message is there already."""

    def __init__(self, client: "GssapiClient", first: bytes) -> None:
        self.is_complete = False
        self._client = client
        self._first = first

    def first(self) -> bytes:
        """The first message."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None after the last one. Raises LoginRefused."""
        try:
            answer = self._client.respond(challenge)
        except AuthenticationFailed as why:
            raise ZooKeeperLoginRefused(f"Kerberos: {why}") from None
        self.is_complete = self._client.is_complete
        return answer


class Tickets:
    """Logins by Kerberos at the servers of one client, which has one connection at a time."""

    def __init__(self, login: Krb5Login, host: str) -> None:
        """``host`` is that of the principal of all servers; empty for the host of each."""
        from kpybroker.security.kerberos.contexts import Initiator

        self._initiator = Initiator(login)
        self._host = host
        self._next: PreparedGssapi | None = None

    def prepared(self, open_stream: OpenStream) -> OpenStream:
        """Opens a stream after a ticket for its host is there."""

        async def opened(
            loop: "asyncio.AbstractEventLoop", protocol: "Callable[[], asyncio.Protocol]", host: str, port: int
        ) -> object:
            try:
                self._next = await loop.run_in_executor(None, self._begin, self._host or host)
            except AuthenticationFailed as why:
                raise OSError(f"Kerberos: {why}") from None
            return await open_stream(loop, protocol, host, port)

        return opened

    def new_exchange(self) -> SaslExchange:
        """The login of the connection that was opened last."""
        prepared, self._next = self._next, None
        assert prepared is not None, "a connection is opened after its login was prepared"
        return prepared

    def _begin(self, host: str) -> PreparedGssapi:
        from kpybroker.machines.sasl.gssapi import GssapiClient

        client = GssapiClient(partial(self._initiator.context, host))
        return PreparedGssapi(client, client.first())


def zookeeper_login() -> ZooKeeperLogin | None:
    """The login that the environment asks for; None for none. Raises StartRefused."""
    place = place_of(os.environ.get("KAFKA_OPTS", ""))
    login = None if place is None else _read(place)
    if place is None or login is None:
        return None
    if isinstance(login, Krb5Login):
        tickets = Tickets(login, place.host)
        return ZooKeeperLogin(tickets.new_exchange, tickets.prepared)
    return ZooKeeperLogin(lambda: DigestMd5(*login, secrets.token_hex(16)), lambda open_stream: open_stream)


def _read(place: JaasSection) -> DigestLogin | Krb5Login | None:
    try:
        with open(place.file, encoding="utf-8") as file:
            return login_of(file.read(), place.section, place.service, os.environ.get("KAFKA_OPTS", ""))
    except (OSError, ValueError) as error:
        why = in_words(error) if isinstance(error, OSError) else error
        raise StartRefused(f"the login to ZooKeeper cannot be read from {place.file}: {why}") from None
