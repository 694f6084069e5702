"""What watches a node and shows it: the loop watch, and the second port with its metrics.

The port somebody asked for must be had; of the usual one, which another broker on this machine may have, the next free
neighbour is as good. What a scrape needs is imported at the first scrape.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.endpoints import parse_address
from kpybroker.controller.recovery import StartRefused
from kpybroker.metrics.loop_watch import LoopWatch

if TYPE_CHECKING:
    from kpybroker.broker import Broker
    from kpybroker.controller_role import ControllerRole
    from kpybroker.dispatch import Dispatcher
    from kpybroker.metrics.exposition import Exposition, Sources
    from kpybroker.metrics.http import HttpServer
    from kpybroker.server.listener import Server

log = logging.getLogger("kpybroker")

HTTP_LISTENER: Final = "kpybroker.http.listener"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9404
PORTS: Final = (*range(DEFAULT_PORT, DEFAULT_PORT + 10), 0)
"""Tried one after the other; the last is the system's choice."""


class Watched(Protocol):
    """The broker, or a controller that has none beside it."""

    config: BrokerConfig

    @property
    def is_ready(self) -> bool:
        """What ``/ready`` says."""


class Monitoring:
    """Of one node. ``dispatchers``: all that serve its clients, which count together. ``sources``: what to show."""

    def __init__(
        self,
        watched: Watched,
        server: "Server",
        dispatchers: Sequence["Dispatcher"],
        sources: Callable[[LoopWatch], "Sources"],
    ) -> None:
        self.watched = watched
        self.port: int | None = None
        """Where metrics are served; None for nowhere."""
        self.watch = LoopWatch(
            server.loop, server.complaints, dispatchers, watched.config["kpybroker.loop.lag.warn.ms"]
        )
        self._sources = sources
        self._http: HttpServer | None = None
        self._exposition: Exposition | None = None

    async def start(self) -> None:
        """Watch and serve. Raises StartRefused where the port that was asked for cannot be had."""
        asked = self.watched.config.originals.get(HTTP_LISTENER)
        if asked != "" or self.watch.warn_ms > 0:
            self.watch.start()
        if asked == "":
            return
        from kpybroker.metrics.http import HttpServer

        self._http = HttpServer(lambda: self.watched.is_ready, self._text)
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

            self._exposition = Exposition(self.watched.config, self.watch.loop, self._sources(self.watch))
        return await self._exposition.text()

    async def stop(self) -> None:
        """End what is being served, and watch no more."""
        self.watch.stop()
        if self._exposition is not None:
            self._exposition.close()
        if self._http is not None:
            await self._http.stop()


def of_broker(broker: "Broker", dispatchers: Sequence["Dispatcher"]) -> Monitoring:
    """Of a broker, a controller beside it included."""

    def sources(watch: LoopWatch) -> "Sources":
        from kpybroker.metrics import exposition

        return exposition.of_broker(broker, watch)

    return Monitoring(broker, broker.server, dispatchers, sources)


def of_controller(role: "ControllerRole", server: "Server", dispatcher: "Dispatcher") -> Monitoring:
    """Of a controller without a broker beside it."""

    def sources(watch: LoopWatch) -> "Sources":
        from kpybroker.metrics import exposition

        return exposition.of_controller(role, server, watch)

    return Monitoring(role, server, (dispatcher,), sources)
