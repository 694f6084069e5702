"""The parts of a node that the console's values come from."""

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from kpybroker.monitoring.console.viewer_ways import AccountAt
    from kpybroker.monitoring.metrics.loop_watch import LoopWatch
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole
    from kpybroker.requests.dispatching.dispatcher import Dispatcher
    from kpybroker.requests.server.listener import Server


class ConsoleSources(NamedTuple):
    """The sources of everything that is shown."""

    role: "Broker | ControllerRole"
    """The broker; on a node that is only a controller, that."""
    server: "Server"
    dispatcher: "Dispatcher"
    """The dispatcher of clients' requests; it counts together with the controller's."""
    watch: "LoopWatch"
    account_at: "AccountAt"
    """The account by which this node logs in at a listener of other nodes."""

    @property
    def broker(self) -> "Broker":
        """The broker, for the pages that only brokers have."""
        assert not self.role.is_controller_role
        return cast("Broker", self.role)
