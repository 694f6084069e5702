"""Requests of a viewer to other nodes, as any client sends them: with its own login, so that their ACLs count.

Each request has a connection of its own over the viewer's way to the node; it is not kept.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kpybroker.client.asyncio_connection import AsyncioConnection
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.asking import CLIENT_ID
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.console.viewer_ways import AccountAt, ViewerWays
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

PATIENCE_S: Final = 5.0


class Elsewhere:
    """Asks other nodes."""

    def __init__(self, role: "Broker | ControllerRole", account_at: AccountAt) -> None:
        self._ways = ViewerWays(role, account_at)

    async def ask(self, viewer: Viewer, node_id: int, request: Any) -> Any:
        """The response of a node. Raises KafkaError with a line that says why there is none."""
        (answer,) = await self.ask_each(viewer, node_id, (request,))
        return answer

    async def ask_each(self, viewer: Viewer, node_id: int, requests: Sequence[Any]) -> list[Any]:
        """The responses of a node over one connection. Raises KafkaError with a line that says why there are none."""
        host, port, protection = await self._ways.to(viewer, node_id)
        try:
            async with asyncio.timeout(PATIENCE_S):
                connection = await AsyncioConnection.connect(host, port, CLIENT_ID, protection)
                try:
                    return [await connection.call(request) for request in requests]
                finally:
                    connection.close()
        except TimeoutError:
            raise KafkaError(error_codes.REQUEST_TIMED_OUT, "it does not answer") from None
        except (OSError, EOFError) as error:
            line = f"it cannot be reached at {host}:{port}: {error}"
            raise KafkaError(error_codes.NETWORK_EXCEPTION, line) from None
