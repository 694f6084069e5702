"""The pages of a node on its second port, beside its metrics: the console, and the leases of a broker."""

from typing import TYPE_CHECKING, cast

from kpybroker.config.own_configs import REGISTRY_LOGIN, REGISTRY_URL
from kpybroker.monitoring.console.routes import ConsoleRoutes
from kpybroker.monitoring.metrics.monitoring import Monitoring
from kpybroker.node.assembly.leases import build_lease_routes
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.server.listener import Server
from kpystorage.disk import Disk

if TYPE_CHECKING:
    from kpybroker.monitoring.console.console import Console
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole


def serve_pages(
    platform: Platform,
    monitoring: Monitoring,
    role: "Broker | ControllerRole",
    server: Server,
    clients: Dispatcher,
    cluster_id: str,
    disk: Disk,
) -> None:
    """Serve them, if there is a second port."""
    if monitoring.port is None:
        return
    console = build_console_routes(platform, monitoring, role, server, clients)
    monitoring.serve(console.routes)
    platform.ends.callback(console.close)
    if not role.is_controller_role:
        leases = build_lease_routes(role.config, platform, cluster_id, cast("Broker", role), disk)
        monitoring.serve(leases.routes)
        platform.ends.callback(leases.close)


def build_console_routes(
    platform: Platform, monitoring: Monitoring, role: "Broker | ControllerRole", server: Server, clients: Dispatcher
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
            ConsoleSources(role, server, clients, monitoring.watch),
            platform.scheduler,
            is_writable=config["kpybroker.console.write.enable"],
            registry=RegistryAddress(url, None if login is None else login.value) if url else None,
        )

    return ConsoleRoutes(new_console)
