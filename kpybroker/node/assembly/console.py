"""The pages of a node on its second port, beside its metrics: the console, and the leases of a broker."""

from typing import TYPE_CHECKING, Final, cast

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import CONSOLE_URL, REGISTRY_LOGIN, REGISTRY_URL
from kpybroker.machines.endpoints import parse_address
from kpybroker.monitoring.console.routes import ConsoleRoutes
from kpybroker.monitoring.metrics.monitoring import DEFAULT_HOST, HTTP_LISTENER, Monitoring
from kpybroker.node.assembly.leases import build_lease_routes
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.server.listener import Server
from kpybroker.runtime.io.machine import name_of_this_machine
from kpystorage.disk import Disk

if TYPE_CHECKING:
    from kpybroker.monitoring.console.console import Console
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


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
    role.console_is_at(url_of(role.config, monitoring.port))
    console = build_console_routes(platform, monitoring, role, server, clients)
    monitoring.serve(console.routes)
    platform.ends.callback(console.close)
    if not role.is_controller_role:
        leases = build_lease_routes(role.config, platform, cluster_id, cast("Broker", role), disk)
        monitoring.serve(leases.routes)
        platform.ends.callback(leases.close)


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
