"""The parts of a node that the console's values come from."""

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from kpybroker.machines.balance.standing import BalancerStanding
    from kpybroker.monitoring.console.viewer_ways import AccountAt
    from kpybroker.monitoring.metrics.loop_watch import LoopWatch
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole
    from kpybroker.requests.dispatching.dispatcher import Dispatcher
    from kpybroker.requests.server.listener import Server


class ShownBalancer(Protocol):
    """The balancer, as it is shown."""

    @property
    def standing(self) -> "BalancerStanding | None":
        """The standing; None while it is off or on another node."""


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
    balancer: "ShownBalancer | None" = None
    """The balancer of a node with a controller of KRaft."""

    @property
    def broker(self) -> "Broker":
        """The broker, for the pages that only brokers have."""
        assert not self.role.is_controller_role
        return cast("Broker", self.role)
