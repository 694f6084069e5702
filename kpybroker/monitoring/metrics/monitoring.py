"""The monitoring of a node: the loop watch, and the second port with its metrics.

The port answers from the first moment of a start, which may take long, so that a supervisor does not kill the process.
A configured port must be free. If the default port is taken, as by another broker on this machine, the next free one is
used. The code of a scrape is imported at the first scrape.
"""

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import HTTP_FIRST_PORT, OTLP_ENDPOINT
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.endpoints import parse_address
from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.monitoring.metrics.loop_watch import LoopWatch
from kpybroker.runtime.calls.address import java_address
from kpybroker.runtime.calls.principal import ANONYMOUS

if TYPE_CHECKING:
    from kpybroker.monitoring.metrics.exposition import Exposition, Standing
    from kpybroker.monitoring.metrics.otlp import Pusher
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole
    from kpybroker.requests.dispatching.dispatcher import Dispatcher
    from kpybroker.requests.server.listener import Server
    from kpybroker.runtime.http.request import Request, Route
    from kpybroker.runtime.http.server import HttpServer, Protection

log = logging.getLogger("kpybroker")

HTTP_LISTENER: Final = "kpybroker.http.listener"
DEFAULT_HOST: Final = "127.0.0.1"
TRIED_PORTS: Final = 10
"""The number of ports that are tried in turn before the system chooses one."""


class Monitoring:
    """The monitoring of one node. It can `listen` before there is anything to `show`."""

    def __init__(self, config: BrokerConfig) -> None:
        self.port: int | None = None
        """The port where metrics are served; None if there is none."""
        self._stage: str | None = "opening the log directories"
        """The stage of the start; None once the start is over."""
        self._pushes = bool(config[OTLP_ENDPOINT])
        self._asked: str | None = config.originals.get(HTTP_LISTENER)
        self._first_port: int = config[HTTP_FIRST_PORT]
        self._watched: Broker | ControllerRole | None = None
        self._watch: LoopWatch | None = None
        self._expose: Callable[[], Exposition] | None = None
        self._http: HttpServer | None = None
        self._exposition: Exposition | None = None
        self._pusher: Pusher | None = None

    async def listen(self, protection: "Protection | None" = None) -> None:
        """Start the second port behind its protection, if it has one.

        Raises StartRefused where a configured port cannot be used, or where metrics shall be pushed and the library for
        that is missing."""
        if self._pushes and find_spec("opentelemetry") is None:
            raise StartRefused(f"{OTLP_ENDPOINT} needs opentelemetry-proto: pip install 'kpybroker[otlp]'")
        asked = self._asked
        if asked == "":
            return
        from kpybroker.monitoring.metrics.pages import Pages
        from kpybroker.runtime.http.server import HttpServer, Protection

        self._http = HttpServer(Pages(self._unready, self._text, self._may_see).routes, protection or Protection())
        if asked is not None:
            address = parse_address(asked)
            assert address is not None  # the config has been checked
            try:
                self.port = await self._http.start(*address)
            except (OSError, UnicodeError) as error:
                raise StartRefused(
                    f"cannot serve metrics on {asked}: {_why(error)}; --http HOST:PORT names another address, and "
                    "--http off none"
                ) from None
            return
        for usual in (*range(self._first_port, min(self._first_port + TRIED_PORTS, 1 << 16)), 0):
            try:
                self.port = await self._http.start(DEFAULT_HOST, usual)
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    log.info(
                        "Metrics cannot be served on port %d: %s. --http HOST:PORT sets another one",
                        usual,
                        error.strerror,
                    )
                    return

    @property
    def watch(self) -> LoopWatch | None:
        """The watch of the loop; None before there is anything to show."""
        return self._watch

    def serve(self, routes: "Mapping[str, Route]") -> None:
        """Serve further paths on the second port, if there is one."""
        if self._http is not None:
            self._http.routes = {**self._http.routes, **routes}

    def show(
        self,
        role: "Broker | ControllerRole",
        server: "Server",
        dispatchers: Sequence["Dispatcher"],
        standing: "Standing" = lambda: None,
    ) -> None:
        """Show a broker from now on, a controller beside it included; or a controller without a broker. The dispatchers
        are counted together; the first is that of clients. ``standing`` is that of the balancer."""

        def expose() -> "Exposition":
            from kpybroker.monitoring.metrics.exposition import Exposition, of_node

            return Exposition(role.config, watch.loop, of_node(role, server, watch, standing))

        warn_ms = role.config["kpybroker.loop.lag.warn.ms"]
        watch = LoopWatch(server.loop, server.complaints, dispatchers, server.line, warn_ms)
        self._watched, self._watch, self._expose = role, watch, expose

    def reached(self, stage: str) -> None:
        """Note a stage of the start, which ``/ready`` shows."""
        self._stage = stage

    def started(self) -> None:
        """Note that clients are served: from now on nothing should delay the loop."""
        self._stage = None
        if self._watch is not None and (self._asked != "" or self._watch.warn_ms > 0 or self._pushes):
            self._watch.start()
        if self._pushes and self._watched is not None and self._expose is not None:
            from kpybroker.monitoring.metrics.otlp import Pusher

            self._exposition = self._exposition or self._expose()
            self._pusher = Pusher(self._watched.config, self._exposition)

    def _unready(self) -> str | None:
        if self._stage is not None:
            return self._stage
        return None if self._watched is None else self._watched.unready

    def _may_see(self, request: "Request") -> bool:
        """Whether the sender may see the metrics: with an authorizer, a user that has logged in needs DESCRIBE on the
        cluster. Without a login the port itself has let the sender in."""
        authorizer = None if self._watched is None else self._watched.authorizer
        if authorizer is None or request.principal == ANONYMOUS:
            return True
        from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType

        host = java_address(request.host)
        try:
            return authorizer.allows(request.principal, host, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        except AuthorizerNotReady:
            return False

    async def _text(self) -> list[bytes] | None:
        if self._expose is None:
            return None
        if self._exposition is None:
            self._exposition = self._expose()
        return await self._exposition.text()

    async def stop(self) -> None:
        """End the requests that are being served, and stop watching."""
        if self._watch is not None:
            self._watch.stop()
        if self._pusher is not None:
            self._pusher.close()
        if self._exposition is not None:
            self._exposition.close()
        if self._http is not None:
            await self._http.stop()


def _why(error: OSError | UnicodeError) -> str:
    """The system's words for the error; those of an event loop repeat the address."""
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return str(getattr(error, "strerror", None) or error)
