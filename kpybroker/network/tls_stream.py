"""Streams of bytes to other nodes through TLS, and the keys and certificates of this node as their client."""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from kpybroker.server.outgoing import HandshakeFailed, OpenStream
from kpybroker.tls.client_failures import CLOSED
from kpybroker.tls.contexts import client_context
from kpybroker.tls.settings import TlsError, TlsSettings, read_settings

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig

log = logging.getLogger("kpybroker.network")


class ClientContext:
    """The TLS context of this node as a client of one listener, by the ``ssl.*`` configs of that listener. Connections
    that are open keep the context with which they began."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._loaded: tuple[TlsSettings, tuple[int, ...]] | None = None
        self._context: ssl.SSLContext | None = None

    def __call__(self) -> ssl.SSLContext:
        """The context for the next connection."""
        assert self._context is not None, "loaded at the start"
        return self._context

    def load(self, config: "BrokerConfig") -> None:
        """Read the stores, if the configs or the files have changed. Blocks. Raises TlsError."""
        settings = read_settings(partial(config.of_listener, self._listener))
        found = settings, _times_of(settings)
        if found != self._loaded:
            try:
                self._context = client_context(settings)
            except TlsError as error:
                raise TlsError(f"listener {self._listener}, as its client: {error}") from None
            self._loaded = found

    def reload(self, config: "BrokerConfig") -> None:
        """Like `load`, while the node runs: what cannot be used is logged, and the former context stays (KIP-226)."""
        try:
            self.load(config)
        except TlsError as error:
            log.warning("The former keys and certificates are used to connect to others: %s", error)


def _times_of(settings: TlsSettings) -> tuple[int, ...]:
    """The times at which the files of the stores were changed; 0 for those that are not there."""
    times = []
    for path in (settings.keystore_location, settings.truststore_location):
        try:
            times.append(os.stat(path).st_mtime_ns if path else 0)
        except OSError:
            times.append(0)
    return tuple(times)


def tls_stream(context: Callable[[], ssl.SSLContext]) -> OpenStream:
    """An `OpenStream` with TLS. ``context`` returns the context for the next connection; it decides whether the name in
    the certificate must be the host's."""

    async def handshake(
        loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> object:
        try:
            return await loop.create_connection(protocol, host, port, ssl=context(), server_hostname=host)
        except (ConnectionResetError, ConnectionAbortedError) as error:
            raise HandshakeFailed(f"the TLS handshake failed: {CLOSED}") from error

    def open_stream(
        loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> Awaitable[object]:
        return handshake(loop, protocol, host, port)

    return open_stream
