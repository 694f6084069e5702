"""A node's place among the controllers: its controller registers with the active one, and asks for a vote if it may.

Both requests go to the active controller, wherever it is. The quorum's own connections are not used: the answer waits
for this node's next fetch, which would queue behind it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kpybroker.hosts.quorum.auto_join import AutoJoin
from kpybroker.hosts.quorum.own_registration import OwnRegistration
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import Subscriber
from kpybroker.machines.raft.voters import VoterHistory

if TYPE_CHECKING:
    from random import Random

    from kpybroker.hosts.quorum.host import QuorumIdentity
    from kpybroker.runtime.io.scheduler import Scheduler


class Followed(Protocol):
    """This node's quorum, as far as its membership depends on it."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def controller_id(self) -> int: ...

    @property
    def voters(self) -> VoterHistory: ...

    @property
    def fetch_timeout_ms(self) -> int: ...

    def subscribe(self, subscriber: Subscriber) -> None: ...

    def when_leader_changes(self, changed: Callable[[], object]) -> None: ...


class QuorumMembership:
    """The membership of one node. Nothing is asked for a node without a controller."""

    def __init__(
        self,
        scheduler: "Scheduler",
        quorum: Followed,
        identity: "QuorumIdentity",
        send: Callable[[Any, Callable[[Any], object]], object],
        rng: "Random",
    ) -> None:
        """``send`` is the way to the active controller."""
        self._scheduler = scheduler
        self._quorum = quorum
        self._send = send
        self._registration = OwnRegistration(
            scheduler, identity.voter, identity.protocols, rng, self._ask, migrates=identity.migrates
        )
        self._auto_join: AutoJoin | None = None
        if not identity.is_controller:
            return
        quorum.subscribe(self._committed)
        quorum.when_leader_changes(self._look)
        if identity.joins:
            self._auto_join = AutoJoin(
                scheduler, identity.cluster_id, identity.voter, quorum.voters, self._ask, quorum.fetch_timeout_ms
            )

    def start(self) -> None:
        """Ask for a vote from now on, if this node may."""
        if self._auto_join is not None:
            self._auto_join.start()

    def stop(self) -> None:
        """Send no more requests."""
        self._registration.stop()
        if self._auto_join is not None:
            self._auto_join.stop()

    def _committed(self, _image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.controllers or delta.features:
            self._scheduler.call_soon(self._look)  # a request is no part of applying the metadata

    def _look(self) -> None:
        self._registration.look(self._quorum.image)

    def _ask(self, request: Any, answered: Callable[[Any], object]) -> bool:
        """Send a request to the active controller. Return False if none is known."""
        if self._quorum.controller_id < 0:
            return False
        self._send(request, answered)
        return True
