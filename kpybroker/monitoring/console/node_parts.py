"""The parts of a node that the console reads."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.monitoring.console.sources import ConsoleSources

if TYPE_CHECKING:
    from kpybroker.monitoring.console.decoding import Decoding
    from kpybroker.monitoring.console.elsewhere import Elsewhere
    from kpybroker.monitoring.console.lag_history import LagHistory
    from kpybroker.monitoring.console.move_rates import MoveRates
    from kpybroker.monitoring.console.overviews import Overviews
    from kpybroker.monitoring.console.searches import Searches
    from kpybroker.monitoring.console.source_looks import SourceLooks
    from kpybroker.monitoring.console.taps import Taps
    from kpybroker.monitoring.console.topic_rates import TopicRates
    from kpybroker.monitoring.console.viewer import Viewer
    from kpybroker.monitoring.history.recorder import HistoryRecorder
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole


class NodeParts(NamedTuple):
    """The sources, and the console's own parts."""

    sources: ConsoleSources
    ask: "Callable[[Viewer, Any], Awaitable[Any]]"
    history: "HistoryRecorder"
    lags: "LagHistory"
    overviews: "Overviews"
    rates: "TopicRates"
    moves: "MoveRates"
    elsewhere: "Elsewhere"
    searches: "Searches"
    decoding: "Decoding"
    taps: "Taps"
    source_looks: "SourceLooks"
    is_writable: bool

    @property
    def role(self) -> "Broker | ControllerRole":
        """The broker, or the controller without one."""
        return self.sources.role

    @property
    def broker(self) -> "Broker":
        """The broker, for the pages that only brokers have."""
        return self.sources.broker

    async def ask_at(self, viewer: "Viewer", node_id: int, request: Any) -> Any:
        """The answer of this node or another one, asked with the viewer's own login. Without a leader this node says
        what is wrong. Raises KafkaError, Refused."""
        if node_id in (self.broker.node_id, NO_LEADER):
            return await self.ask(viewer, request)
        return await self.elsewhere.ask(viewer, node_id, request)
