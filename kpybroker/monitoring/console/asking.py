"""Requests of a viewer to its own node, without a socket: they pass the same guards and handlers as those of clients.

So a viewer sees and changes what its ACLs allow, errors are Kafka's, and what the controller decides is forwarded with
the viewer's identity.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.readers import CONSOLE
from kpybroker.requests import handlers
from kpybroker.requests.guards.stage import guarded_work
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from kpybroker.runtime.http.request import HttpRefused
from kpywire import api, error_codes
from kpywire.codec import decoder, encoder

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

PATIENCE_S: Final = 30.0
"""The time after which a request that is not answered is given up."""
LOOKS, PAUSE_S = 100, 0.02
_STATUS: Final = {
    error_codes.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    error_codes.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    error_codes.TRANSACTIONAL_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    error_codes.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    error_codes.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    error_codes.GROUP_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    error_codes.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    error_codes.NOT_CONTROLLER: HTTPStatus.MISDIRECTED_REQUEST,
    error_codes.NOT_COORDINATOR: HTTPStatus.SERVICE_UNAVAILABLE,
    error_codes.COORDINATOR_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    error_codes.COORDINATOR_LOAD_IN_PROGRESS: HTTPStatus.SERVICE_UNAVAILABLE,
}


class OtherNodeNeeded(HttpRefused):
    """A refusal of what another node does or shows: the console adds a link to the console of that node."""

    def __init__(self, line: str, node_id: int, path: str = "/") -> None:
        """``path``: the page there."""
        super().__init__(HTTPStatus.MISDIRECTED_REQUEST, line)
        self.node_id = node_id
        self.path = path


class Asking:
    """Asks one node."""

    def __init__(self, role: "Broker | ControllerRole") -> None:
        self._role = role
        self._of_controllers = frozenset[int]()
        """The APIs that only the controller answers: in ZooKeeper mode nothing is forwarded to it."""
        if role.config.is_in_zookeeper_mode:
            from kpybroker.machines.zookeeper.broker.apis import ONLY_ON_THE_CONTROLLER

            self._of_controllers = ONLY_ON_THE_CONTROLLER
        is_controller = role.is_controller_role
        self._versions = handlers.controller_versions() if is_controller else handlers.served_versions()
        self._load = handlers.load_for_controller if is_controller else handlers.load

    async def __call__(self, viewer: Viewer, request: Any) -> Any:
        """The response to a request of this viewer, in the latest version. Raises Refused."""
        key = type(request).KEY
        if key in self._of_controllers:
            self._must_be_controller()
        client = ConnectedClient(viewer.host, 0, next(iter(self._role.config.listeners)).name)
        client.authenticated(viewer.principal)
        peer = _Peer()
        call = Call(key, self._versions[key][1], CONSOLE, client, peer, self._versions)
        module = self._load(key)
        try:
            encoder(type(request), call.api_version)(request, [])
        except ValueError as error:  # a client could not send it either
            raise HttpRefused(HTTPStatus.BAD_REQUEST, f"the request cannot be sent: {error}") from None
        if hasattr(module, "codec"):
            return await self._coded(module, request, call)
        return await self._answered(guarded_work(self._role, key, module.handle), request, call)

    def _must_be_controller(self) -> None:
        """Raise Refused, with the name of the node that is the controller."""
        controller = self._role.controller.controller_id
        if controller < 0:
            raise refused_by_kafka(error_codes.NOT_CONTROLLER, "this change", "there is no controller now; try again")
        if controller != self._role.node_id:
            line = f"node {controller} is the controller; make it on the console of node {controller}"
            raise OtherNodeNeeded(f"this change: {error_codes.name(error_codes.NOT_CONTROLLER)}: {line}", controller)

    async def _coded(self, module: Any, request: Any, call: Call) -> Any:
        """Ask a handler that has messages of its own form."""
        parts: list[Any] = []
        encoder(type(request), call.api_version)(request, parts)
        codec = module.codec(call.api_version)
        message, _ = codec.decode(memoryview(bytearray(b"".join(parts))), 0)
        answer = await self._answered(guarded_work(self._role, call.api_key, module.handle), message, call)
        encoded: list[Any] = []
        codec.encode(answer, encoded)
        response, _ = decoder(api.response_class(call.api_key), call.api_version)(memoryview(b"".join(encoded)), 0)
        return response

    async def _answered(self, handle: Any, request: Any, call: Call) -> Any:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await _done(handle(self._role, request, call))
        except AuthorizerNotReady:
            raise HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the ACLs are not loaded yet; try again") from None
        except TimeoutError:
            raise HttpRefused(HTTPStatus.GATEWAY_TIMEOUT, "the cluster did not answer in time; try again") from None
        finally:
            call.client.gone()


class _Peer:
    """The connection that a handler would see."""

    answered_ns = 0

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def share(self, work: Work) -> Pending:
        pending = Pending()

        async def run() -> None:
            response = await _done(work)
            if not pending.resolved:
                pending.resolve(response)

        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return pending

    def close(self) -> None:
        """There is no connection."""

    def give_up(self, reason: str) -> None:
        """There is no connection."""

    def mute(self, throttle_ms: int) -> None:
        """People are slow."""


async def _done(work: Work) -> Any:
    """Do all steps of a work, with room for others in between."""
    value = None
    while True:
        try:
            step = work.send(value)
        except StopIteration as end:
            return await _resolved(end.value)
        value = await _resolved(step)
        if step is None:
            await asyncio.sleep(0)


async def _resolved(response: Any) -> Any:
    if not isinstance(response, Pending):
        return response
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    response.when_resolved(lambda value: None if found.done() else found.set_result(value))
    try:
        return await found
    except asyncio.CancelledError:
        response.cancel()
        raise


async def until_known(is_known: Callable[[], bool], looks: int = LOOKS) -> None:
    """Wait until this node knows of a change that the controller has made, or of something else that it has asked for,
    for a short time at most."""
    for _ in range(looks):
        if is_known():
            return
        await asyncio.sleep(PAUSE_S)


def refuse(code: int, what: str, message: str | None = None) -> None:
    """Raise Refused if ``code`` is an error, with Kafka's name for it."""
    if code:
        raise refused_by_kafka(code, what, message)


def refused_by_kafka(code: int, what: str, message: str | None = None) -> HttpRefused:
    """The refusal for an error of Kafka."""
    line = f"{what}: {error_codes.name(code)}: {message or error_codes.message(code)}"
    return HttpRefused(_STATUS.get(code, HTTPStatus.BAD_REQUEST), line)
