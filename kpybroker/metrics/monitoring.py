"""What watches a node and shows it: the loop watch, and the second port with its metrics.

The port somebody asked for must be had; of the usual one, which another broker on this machine may have, the next free
neighbour is as good. What a scrape needs is imported at the first scrape.
"""

import errno
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kpybroker.config.endpoints import parse_address
from kpybroker.controller.recovery import StartRefused
from kpybroker.metrics.loop_watch import LoopWatch

if TYPE_CHECKING:
    from kpybroker.broker import Broker
    from kpybroker.dispatch import Dispatcher
    from kpybroker.metrics.exposition import Exposition
    from kpybroker.metrics.http import HttpServer

log = logging.getLogger("kpybroker")

HTTP_LISTENER: Final = "kpybroker.http.listener"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9404
PORTS: Final = (*range(DEFAULT_PORT, DEFAULT_PORT + 10), 0)
"""Tried one after the other; the last is the system's choice."""


class Monitoring:
    """Of one broker. ``dispatchers``: all that serve its clients, which count together."""

    def __init__(self, broker: "Broker", dispatchers: Sequence["Dispatcher"]) -> None:
        self.broker = broker
        self.port: int | None = None
        """Where metrics are served; None for nowhere."""
        self.watch = LoopWatch(
            broker.server.loop, broker.server.complaints, dispatchers, broker.config["kpybroker.loop.lag.warn.ms"]
        )
        self._http: HttpServer | None = None
        self._exposition: Exposition | None = None

    async def start(self) -> None:
        """Watch and serve. Raises StartRefused where the port that was asked for cannot be had."""
        asked = self.broker.config.originals.get(HTTP_LISTENER)
        if asked != "" or self.watch.warn_ms > 0:
            self.watch.start()
        if asked == "":
            return
        from kpybroker.metrics.http import HttpServer

        self._http = HttpServer(lambda: self.broker.is_ready, self._text)
        if asked is not None:
            address = parse_address(asked)
            assert address is not None  # the config has been checked
            try:
                self.port = await self._http.start(*address)
            except (OSError, UnicodeError) as error:
                why = getattr(error, "strerror", None) or error
                raise StartRefused(f"cannot serve metrics on {asked}: {why}") from None
            return
        for usual in PORTS:
            try:
                self.port = await self._http.start(DEFAULT_HOST, usual)
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    log.info("no metrics on port %d: %s", usual, error.strerror)
                    return

    async def _text(self) -> list[bytes]:
        if self._exposition is None:
            from kpybroker.metrics.exposition import Exposition

            self._exposition = Exposition(self.broker, self.watch)
        return await self._exposition.text()

    async def stop(self) -> None:
        """End what is being served, and watch no more."""
        self.watch.stop()
        if self._exposition is not None:
            self._exposition.close()
        if self._http is not None:
            await self._http.stop()
