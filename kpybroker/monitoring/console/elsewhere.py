"""Requests of a viewer to other nodes, as any client sends them: with its own login, so that their ACLs count.

A viewer that has logged in here by password logs in there by SCRAM. Without a login, or where no authorizer tells
viewers apart, a listener without one is used.
Each request has a connection of its own; nothing is kept.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kpybroker.client.asyncio_connection import AsyncioConnection
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import ClientSecurity, PasswordLogin
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.asking import CLIENT_ID
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

PATIENCE_S: Final = 5.0
PLAINTEXT, SASL_PLAINTEXT = 0, 2
"""Security protocols by Kafka's number."""
MECHANISM: Final = "SCRAM-SHA-512"


class Elsewhere:
    """The ways to other nodes."""

    def __init__(self, role: "Broker | ControllerRole") -> None:
        self._role = role

    async def ask(self, viewer: Viewer, node_id: int, request: Any) -> Any:
        """The response of a node. Raises KafkaError with a line that says why there is none."""
        (answer,) = await self.ask_each(viewer, node_id, (request,))
        return answer

    async def ask_each(self, viewer: Viewer, node_id: int, requests: Sequence[Any]) -> list[Any]:
        """The responses of a node over one connection. Raises KafkaError with a line that says why there are none."""
        host, port, protection = self._way(viewer, node_id)
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

    def _way(self, viewer: Viewer, node_id: int) -> tuple[str, int, ConnectionProtection | None]:
        image = self._role.image
        node = image.brokers.get(node_id) or image.controllers.get(node_id)
        usual = self._role.config.inter_broker_listener_name
        listeners = () if node is None else sorted(node.listeners.values(), key=lambda each: each.name != usual)
        if viewer.password is not None:
            login = PasswordLogin(MECHANISM, viewer.principal.name, viewer.password)
            for each in listeners:  # the one between brokers first: others may have addresses for other networks
                if each.security_protocol == SASL_PLAINTEXT:
                    return each.host, each.port, ConnectionProtection(ClientSecurity(login=login))
        if viewer.password is None or viewer.authorizer is None:
            for each in listeners:
                if each.security_protocol == PLAINTEXT:
                    return each.host, each.port, None
        line = "it has no listener that you can use from here; open its own console"
        raise KafkaError(error_codes.BROKER_NOT_AVAILABLE, line)
