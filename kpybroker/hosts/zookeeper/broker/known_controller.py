"""The controller of a cluster in ZooKeeper mode, as other brokers know it: the broker that ``/controller`` names.

The znode is followed, so a new controller is found without asking.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from kpybroker.hosts.zookeeper.broker.followed_znode import FollowedZnode
from kpybroker.hosts.zookeeper.broker.refusals import not_controller
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.raft.local_state import UNKNOWN_OFFSET, LocalState
from kpybroker.machines.raft.voters import VoterEndpoint
from kpybroker.machines.zookeeper.broker.apis import ASKED_FIRST_FOR_THE_CONTROLLER
from kpybroker.machines.zookeeper.client.operations import Znode
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.controller import NO_CONTROLLER, ElectedController
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

log = logging.getLogger("kpybroker.zookeeper")

Reply = Callable[[Any], object]
Take = Callable[[Any, Call, Reply], bool]
"""Takes a request; returns whether it does."""
Admit = Callable[[Any, Call, Callable[[Any, Reply], object], Reply], object]
"""(request, call, decide, reply): have ``decide`` answer the part of a client's request that it may make."""
_KNOWS_NO_DIRECTORIES: Final = AssignReplicasToDirsResponse(
    throttle_time_ms=0, error_code=error_codes.UNSUPPORTED_VERSION, directories=[]
)


class KnownController:
    """The controller that ZooKeeper names. For a `ControllerChannel` it stands in the place of a quorum."""

    is_active = False
    kraft_version = 0

    def __init__(self, client: ZooKeeperClient, image: MetadataImage, listener: str) -> None:
        """``listener`` is the one of brokers."""
        self.controller_id = NO_CONTROLLER
        self._znode = FollowedZnode(client, paths.CONTROLLER, self._read)
        self._image = image
        self._listener = listener
        self._notified: list[Callable[[], object]] = []

    def look(self) -> None:
        """Read and watch the znode, after a new connection and after each event."""
        self._znode.look()

    def forget(self) -> None:
        """Know no controller: the session has ended."""
        self._changed(NO_CONTROLLER)

    @property
    def leader_endpoint(self) -> VoterEndpoint | None:
        """The address of the controller; None if it is not known."""
        broker = self._image.brokers.get(self.controller_id)
        point = None if broker is None else broker.listeners.get(self._listener)
        return None if point is None else VoterEndpoint(point.name, point.host, point.port)

    @property
    def local_state(self) -> LocalState:
        """The state of a node without a quorum."""
        return LocalState("unattached", self.controller_id, 0, NO_CONTROLLER, UNKNOWN_OFFSET, 0)

    def when_leader_changes(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` with every new controller."""
        self._notified.append(changed)

    def send(self, *_request: object, **_more: object) -> None:
        """Never called: no controller is active in this process."""
        raise AssertionError("this process has no controller")

    def _read(self, znode: Znode | None) -> None:
        try:
            self._changed(NO_CONTROLLER if znode is None else ElectedController.decode(znode.data).broker_id)
        except InvalidZnode as error:
            log.error("%s", error)

    def _changed(self, controller_id: int) -> None:
        if controller_id == self.controller_id:
            return
        self.controller_id = controller_id
        if controller_id == NO_CONTROLLER:
            log.info("The cluster has no controller")
        else:
            log.info("The controller is broker %d", controller_id)
        for changed in self._notified:
            changed()


class RequestsToController(Protocol):
    """The requests of this broker to the controller."""

    def send(self, request: Any, reply: Reply, *, api_version: int | None = None) -> None: ...


class ZooKeeperController:
    """The way to the controller, as handlers see it. Requests of clients are not forwarded: this broker writes configs
    itself, and a client that asks it for what only the controller does gets NOT_CONTROLLER."""

    kraft_version = 0

    def __init__(
        self,
        known: KnownController,
        channel: RequestsToController,
        write: Take,
        control: Take,
        is_in_charge: Callable[[], bool],
        admit: Admit | None = None,
    ) -> None:
        """``write`` takes what this broker may write for a client, ``control`` what only the controller answers, if
        this broker is it (``is_in_charge``). ``admit`` is the guard before both; None without an authorizer."""
        self._known = known
        self._channel = channel
        self._write = write
        self._control = control
        self._is_in_charge = is_in_charge
        self._admit = admit

    @property
    def controller_id(self) -> int:
        """The id of the broker that is the controller; -1 if there is none."""
        return self._known.controller_id

    @property
    def local_state(self) -> LocalState:
        """The state of a node without a quorum."""
        return self._known.local_state

    def send(self, request: Any, reply: Reply, *, api_version: int | None = None) -> None:
        """Send a request of this broker. The controller does not learn of directories (KIP-858)."""
        if isinstance(request, AssignReplicasToDirsRequest):
            reply(_KNOWS_NO_DIRECTORIES)
        else:
            self._channel.send(request, reply, api_version=api_version)

    def forward(self, request: Any, call: Call, reply: Reply) -> None:
        """Do or refuse what a client wants changed."""
        if call.api_key in ASKED_FIRST_FOR_THE_CONTROLLER and not self._is_in_charge():
            reply(not_controller(request, call.api_version))
        elif self._admit is None:
            self._do(request, call, reply)
        else:
            self._admit(request, call, lambda rest, answer: self._do(rest, call, answer), reply)

    def _do(self, request: Any, call: Call, reply: Reply) -> None:
        if not (self._write(request, call, reply) or self._control(request, call, reply)):
            reply(not_controller(request, call.api_version))
