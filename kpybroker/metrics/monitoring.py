"""What watches a node and shows it: the loop watch, and the second port with its metrics.

The port answers from the first moment of a start, which may take long: whoever supervises the process is not to kill it
for that. The one that somebody asked for must be had; of the usual one, which another broker on this machine may have,
the next free neighbour is as good. What a scrape needs is imported at the first scrape.
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
    def unready(self) -> str | None:
        """Why ``/ready`` says no; None when clients are served."""


class Monitoring:
    """Of one node. It can `listen` before there is anything to `show`."""

    def __init__(self, config: BrokerConfig) -> None:
        self.port: int | None = None
        """Where metrics are served; None for nowhere."""
        self.stage: str | None = "opening the log directories"
        """Of the start; None once it is over."""
        self._asked: str | None = config.originals.get(HTTP_LISTENER)
        self._watched: Watched | None = None
        self._watch: LoopWatch | None = None
        self._expose: Callable[[], Exposition] | None = None
        self._http: HttpServer | None = None
        self._exposition: Exposition | None = None

    async def listen(self) -> None:
        """Serve what there is to tell. Raises StartRefused where the port that was asked for cannot be had."""
        asked = self._asked
        if asked == "":
            return
        from kpybroker.metrics.http import HttpServer

        self._http = HttpServer(self._unready, self._text)
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

    def show_broker(self, broker: "Broker", dispatchers: Sequence["Dispatcher"]) -> None:
        """From now on tell of a broker, a controller beside it included; ``dispatchers`` count together."""

        def sources(watch: LoopWatch) -> "Sources":
            from kpybroker.metrics import exposition

            return exposition.of_broker(broker, watch)

        self._show(broker, broker.server, dispatchers, sources)

    def show_controller(self, role: "ControllerRole", server: "Server", dispatcher: "Dispatcher") -> None:
        """From now on tell of a controller without a broker beside it."""

        def sources(watch: LoopWatch) -> "Sources":
            from kpybroker.metrics import exposition

            return exposition.of_controller(role, server, watch)

        self._show(role, server, (dispatcher,), sources)

    def _show(
        self,
        watched: Watched,
        server: "Server",
        dispatchers: Sequence["Dispatcher"],
        sources: Callable[[LoopWatch], "Sources"],
    ) -> None:
        def expose() -> "Exposition":
            from kpybroker.metrics.exposition import Exposition

            return Exposition(watched.config, watch.loop, sources(watch))

        watch = LoopWatch(server.loop, server.complaints, dispatchers, watched.config["kpybroker.loop.lag.warn.ms"])
        self._watched, self._watch, self._expose = watched, watch, expose

    def started(self) -> None:
        """Clients are served: from now on nothing should hold the loop up."""
        self.stage = None
        if self._watch is not None and (self._asked != "" or self._watch.warn_ms > 0):
            self._watch.start()

    def _unready(self) -> str | None:
        if self.stage is not None:
            return self.stage
        return None if self._watched is None else self._watched.unready

    async def _text(self) -> list[bytes] | None:
        if self._expose is None:
            return None
        if self._exposition is None:
            self._exposition = self._expose()
        return await self._exposition.text()

    async def stop(self) -> None:
        """End what is being served, and watch no more."""
        if self._watch is not None:
            self._watch.stop()
        if self._exposition is not None:
            self._exposition.close()
        if self._http is not None:
            await self._http.stop()
