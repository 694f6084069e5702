"""The console of a node, on its second port."""

from typing import TYPE_CHECKING

from kpybroker.assembly.platform import Platform
from kpybroker.calls.address import is_address
from kpybroker.config.endpoints import parse_address
from kpybroker.config.own_configs import REGISTRY_LOGIN, REGISTRY_URL
from kpybroker.console.routes import ConsoleRoutes
from kpybroker.dispatching.dispatcher import Dispatcher
from kpybroker.metrics.monitoring import DEFAULT_HOST, HTTP_LISTENER, Monitoring
from kpybroker.server.listener import Server

if TYPE_CHECKING:
    from kpybroker.broker import Broker
    from kpybroker.console.console import Console
    from kpybroker.controller_role import ControllerRole


def build_console_routes(
    platform: Platform, monitoring: Monitoring, role: "Broker | ControllerRole", server: Server, clients: Dispatcher
) -> ConsoleRoutes:
    """The routes of the console; everything behind them is imported when it is first needed."""

    def new_console() -> "Console":
        from kpybroker.console.console import Console
        from kpybroker.console.node_parts import Sources
        from kpybroker.console.schema_tasks import Address

        config = role.config
        address = parse_address(config.originals.get(HTTP_LISTENER, ""))
        url, login = config[REGISTRY_URL], config[REGISTRY_LOGIN]
        host = DEFAULT_HOST if address is None else address[0]
        assert monitoring.watch is not None  # the node is shown
        return Console(
            Sources(role, server, clients, monitoring.watch),
            platform.scheduler,
            [host, *config["kpybroker.console.hosts"]],
            is_open=_is_loopback(host) or bool(config["kpybroker.http.users"]),
            is_writable=config["kpybroker.console.write.enable"],
            registry=Address(url, None if login is None else login.value) if url else None,
        )

    return ConsoleRoutes(new_console)


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    return host == "localhost" or (is_address(host) and ip_address(host.partition("%")[0]).is_loopback)
