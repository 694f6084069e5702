"""The parts of a node that its history reads."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from kpybroker.hosts.replicas.replica import HeldTopic
    from kpybroker.monitoring.metrics.loop_watch import LoopWatch
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole
    from kpybroker.requests.dispatching.dispatcher import Dispatcher


class NodeCounters(NamedTuple):
    """The counters are there anyway: reading them costs requests nothing."""

    role: "Broker | ControllerRole"
    """The broker; on a node that is only a controller, that."""
    dispatcher: "Dispatcher"
    """The dispatcher of clients' requests; it counts together with the controller's."""
    watch: "LoopWatch"

    @property
    def broker(self) -> "Broker | None":
        """The broker, if this node is one."""
        return None if self.role.is_controller_role else cast("Broker", self.role)

    def held_topics(self) -> "Iterable[HeldTopic]":
        """The topics of which this node holds partitions."""
        broker = self.broker
        return () if broker is None else list(broker.replicas.topics.values())
