"""Requests of a viewer to other nodes, as any client sends them: with its own login, so that their ACLs count.

Each request has a connection of its own over the viewer's way to the node; it is not kept.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from kpybroker.client.asyncio_connection import AsyncioConnection
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.console.viewer_ways import AccountAt, ViewerWays
from kpybroker.monitoring.metrics.readers import CONSOLE
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

PATIENCE_S: Final = 5.0
LEFT_ALONE_MS: Final = 5_000
"""The time for which a node that did not answer is not asked again: a page that asks it several times waits once."""
MOST_SILENT: Final = 1_000
SILENT: Final = "it does not answer"


class Elsewhere:
    """Asks other nodes."""

    def __init__(self, role: "Broker | ControllerRole", account_at: AccountAt) -> None:
        self._ways = ViewerWays(role, account_at)
        self._scheduler = role.scheduler
        self._silent_until_ms: dict[tuple[str, int], float] = {}
        """The nodes that did not answer a viewer, and until when they are left alone."""

    async def ask(self, viewer: Viewer, node_id: int, request: Any) -> Any:
        """The response of a node. Raises KafkaError with a line that says why there is none."""
        (answer,) = await self.ask_each(viewer, node_id, (request,))
        return answer

    async def ask_each(self, viewer: Viewer, node_id: int, requests: Sequence[Any]) -> list[Any]:
        """The responses of a node over one connection. Raises KafkaError with a line that says why there are none."""
        async with self.connected(viewer, node_id) as connection:
            return [await connection.call(request) for request in requests]

    @asynccontextmanager
    async def connected(self, viewer: Viewer, node_id: int) -> AsyncIterator[AsyncioConnection]:
        """A connection to a node, for requests that depend on earlier answers. Raises KafkaError with a line that says
        why there is none, also for what is asked over it."""
        key = str(viewer.principal), node_id
        if self._silent_until_ms.get(key, 0.0) > self._scheduler.monotonic_ms():
            raise KafkaError(error_codes.REQUEST_TIMED_OUT, SILENT)
        host, port, protection = await self._ways.to(viewer, node_id)
        try:
            async with asyncio.timeout(PATIENCE_S):
                connection = await AsyncioConnection.connect(host, port, CONSOLE, protection)
                try:
                    yield connection
                finally:
                    connection.close()
        except TimeoutError:
            if len(self._silent_until_ms) >= MOST_SILENT:
                self._silent_until_ms.clear()
            self._silent_until_ms[key] = self._scheduler.monotonic_ms() + LEFT_ALONE_MS
            raise KafkaError(error_codes.REQUEST_TIMED_OUT, SILENT) from None
        except (OSError, EOFError) as error:
            line = f"it cannot be reached at {host}:{port}: {error}"
            raise KafkaError(error_codes.NETWORK_EXCEPTION, line) from None
