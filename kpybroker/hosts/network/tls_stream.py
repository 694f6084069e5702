"""Streams of bytes to other nodes through TLS, and the keys and certificates of this node as their client."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from kpybroker.hosts.network.outgoing import HandshakeFailed, OpenStream, stream_to
from kpybroker.security.tls.client_failures import CLOSED
from kpybroker.security.tls.contexts import client_context
from kpybroker.security.tls.settings import TlsError, TlsSettings, read_settings
from kpybroker.security.tls.stores import modification_times

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig

log = logging.getLogger("kpybroker.network")


class ClientContext:
    """The TLS context of this node as a client of one listener, by the ``ssl.*`` configs of that listener.

    Its files are read again when they have changed (KIP-226). What cannot be used is logged, and the former keys stay.
    Connections that are open keep the context with which they began.
    """

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._settings = TlsSettings()
        self._seen: tuple[TlsSettings, tuple[int, ...]] | None = None
        """The settings and the times of the files that were read last, or that could not be used."""
        self._context: ssl.SSLContext | None = None

    def __call__(self) -> ssl.SSLContext:
        """The context for the next connection."""
        self._look()
        assert self._context is not None, "loaded at the start"
        return self._context

    def load(self, config: "BrokerConfig") -> None:
        """Read keys and certificates. Blocks. Raises TlsError."""
        self._settings = read_settings(partial(config.of_listener, self._listener))
        try:
            self._read()
        except TlsError as error:
            raise TlsError(f"connections to listener {self._listener}: {error}") from None

    def reconfigure(self, config: "BrokerConfig") -> None:
        """Take over another configuration, for connections that begin from now on."""
        self._settings = read_settings(partial(config.of_listener, self._listener))

    def _look(self) -> None:
        try:
            self._read()
        except TlsError as error:
            log.warning(
                "Connections to listener %s are made with the former keys and certificates: %s", self._listener, error
            )

    def _read(self) -> None:
        found = self._settings, modification_times(self._settings)
        if found != self._seen:
            self._seen = found
            self._context = client_context(self._settings)


def tls_stream(context: Callable[[], ssl.SSLContext]) -> OpenStream:
    """An `OpenStream` with TLS. ``context`` returns the context for the next connection; it decides whether the name in
    the certificate must be the host's."""

    async def handshake(
        loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> object:
        try:
            return await stream_to(loop, protocol, host, port, ssl=context(), server_hostname=host)
        except (ConnectionResetError, ConnectionAbortedError) as error:
            raise HandshakeFailed(f"the TLS handshake failed: {CLOSED}") from error

    def open_stream(
        loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> Awaitable[object]:
        return handshake(loop, protocol, host, port)

    return open_stream
