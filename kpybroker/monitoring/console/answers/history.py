"""The page of the history: everything that this node keeps, as plots, and the events."""

from kpybroker.machines.console.history import HistoryPage
from kpybroker.monitoring.console.history import OF_CLIENTS, OF_LOOP, plotted
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer


async def history(node: NodeParts, viewer: Viewer, query: Query) -> HistoryPage:
    """The page."""
    viewer.must_see_node()
    return HistoryPage(node.role.node_id, await plotted(node, viewer, query, (*OF_CLIENTS, *OF_LOOP)))
