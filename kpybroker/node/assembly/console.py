"""The pages of a node on its second port, beside its metrics: the console with the history that it shows, and the
leases of a broker.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import CONSOLE_URL, REGISTRY_LOGIN, REGISTRY_URL
from kpybroker.machines.endpoints import parse_address
from kpybroker.machines.metadata.loader import Metadata
from kpybroker.monitoring.console.routes import ConsoleRoutes
from kpybroker.monitoring.metrics.monitoring import DEFAULT_HOST, HTTP_LISTENER, Monitoring
from kpybroker.node.assembly.leases import build_lease_routes
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.storage import StoredNode
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.server.listener import Server
from kpybroker.runtime.io.machine import name_of_this_machine
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.directory import LogDirectory
from kpystorage.real_disk import RealDisk

if TYPE_CHECKING:
    from kpybroker.monitoring.console.console import Console
    from kpybroker.monitoring.console.sources import ShownBalancer
    from kpybroker.monitoring.history.recorder import HistoryRecorder
    from kpybroker.node.assembly.metadata_source import Roles
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")
HISTORY: Final = "kpybroker.monitoring.history.recorder"
HISTORY_AFTER_MS: Final = 10_000
"""The time after the start when the history begins, unless somebody looks at the console before that."""


class LateHistory:
    """The history of a node. It begins after the start, which does not wait for it, or with the console."""

    def __init__(self, scheduler: Scheduler, begin: "Callable[[], HistoryRecorder]", *, is_always: bool) -> None:
        """``is_always``: whether it begins although nobody looks at the console."""
        self._begin = begin
        self._recorder: HistoryRecorder | None = None
        self._is_closed = False
        self._scheduler = scheduler
        self._timer = scheduler.call_later(HISTORY_AFTER_MS, self._due) if is_always else None

    def recorder(self) -> "HistoryRecorder":
        """The history, which begins now at the latest."""
        if self._recorder is None:
            self._recorder = self._begin()
        return self._recorder

    def close(self) -> None:
        """End it."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._recorder is not None:
            self._recorder.close()

    def _due(self) -> None:
        """Import it in a thread, since that takes long."""
        self._scheduler.submit_blocking(lambda: import_module(HISTORY), self._imported)

    def _imported(self, _: object, error: BaseException | None) -> None:
        if error is not None:
            raise error
        if not self._is_closed:
            self.recorder()


def serve_pages(
    platform: Platform,
    monitoring: Monitoring,
    roles: "Roles",
    server: Server,
    metadata: Metadata,
    stored: StoredNode,
) -> None:
    """Serve them, if there is a second port."""
    if monitoring.port is None:
        return
    role, clients = roles.shown, roles.clients
    role.console_is_at(url_of(role.config, monitoring.port))
    history = build_history(platform, monitoring, role, clients, metadata, stored.metadata_directory)
    platform.ends.callback(history.close)
    console = build_console_routes(platform, monitoring, role, server, clients, history, roles.balancer)
    monitoring.serve(console.routes)
    platform.ends.callback(console.close)
    if not role.is_controller_role:
        cluster_id, disk = stored.identity.cluster_id, stored.metadata_directory.disk
        leases = build_lease_routes(role.config, platform, cluster_id, cast("Broker", role), disk)
        monitoring.serve(leases.routes)
        platform.ends.callback(leases.close)


def build_history(
    platform: Platform,
    monitoring: Monitoring,
    role: "Broker | ControllerRole",
    clients: Dispatcher,
    metadata: Metadata,
    home: LogDirectory,
) -> LateHistory:
    """The history of a node. It is in a file where the node's files are real."""
    is_always = role.config["kpybroker.history.enable"]
    started_ms = platform.scheduler.now_ms()

    def begin() -> "HistoryRecorder":
        from kpybroker.monitoring.history.file import HistoryFile
        from kpybroker.monitoring.history.node_counters import NodeCounters
        from kpybroker.monitoring.history.recorder import HistoryRecorder

        assert monitoring.watch is not None  # the node is shown
        file = HistoryFile(home) if is_always and isinstance(home.disk, RealDisk) else None
        counters = NodeCounters(role, clients, monitoring.watch)
        return HistoryRecorder(counters, platform.scheduler, metadata.subscribe, started_ms, file)

    return LateHistory(platform.scheduler, begin, is_always=is_always)


def url_of(config: BrokerConfig, port: int) -> str:
    """The address of a node's console for browsers: the one that is configured, or that of the second port. Where that
    is every interface, the host is the one that clients are given."""
    if config[CONSOLE_URL]:
        return str(config[CONSOLE_URL])
    address = parse_address(config.originals.get(HTTP_LISTENER, ""))
    host = DEFAULT_HOST if address is None else address[0]
    if host in EVERY_INTERFACE:
        advertised = (each.host for each in (*config.advertised_listeners, *config.listeners))
        host = next((name for name in advertised if name not in EVERY_INTERFACE), None) or name_of_this_machine()
    scheme = "https" if config["kpybroker.http.ssl.keystore.location"] else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def build_console_routes(
    platform: Platform,
    monitoring: Monitoring,
    role: "Broker | ControllerRole",
    server: Server,
    clients: Dispatcher,
    history: LateHistory,
    balancer: "ShownBalancer | None" = None,
) -> ConsoleRoutes:
    """The routes of the console; everything behind them is imported when it is first needed."""

    def new_console() -> "Console":
        from kpybroker.monitoring.console.console import Console
        from kpybroker.monitoring.console.schema_tasks import RegistryAddress
        from kpybroker.monitoring.console.sources import ConsoleSources

        config = role.config
        url, login = config[REGISTRY_URL], config[REGISTRY_LOGIN]
        assert monitoring.watch is not None  # the node is shown
        return Console(
            ConsoleSources(role, server, clients, monitoring.watch, platform.ways.account_at, balancer),
            platform.scheduler,
            history.recorder(),
            is_writable=config["kpybroker.console.write.enable"],
            registry=RegistryAddress(url, None if login is None else login.value) if url else None,
        )

    return ConsoleRoutes(new_console)
