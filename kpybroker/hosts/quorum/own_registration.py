"""Registers this node's controller with the active one, again at every start (Kafka's ControllerRegistrationManager).

Invariant: at most one request is outstanding, and none once the metadata show this start of the controller.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.raft.voters import Voter
from kpywire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from kpywire.uuid import UUID_BYTES

if TYPE_CHECKING:
    from random import Random

    from kpybroker.runtime.io.scheduler import Scheduler

PLAINTEXT = 0
RETRY_MS = 100
Ask = Callable[[Any, Callable[[Any], object]], bool]
"""(request, answered) -> whether a controller to ask is known."""


class OwnRegistration:
    """The registration of one start."""

    def __init__(
        self,
        scheduler: "Scheduler",
        local: Voter,
        protocols: Mapping[str, int],
        rng: "Random",
        ask: Ask,
        *,
        migrates: bool = False,
    ) -> None:
        """``protocols`` are the numbers of the listeners' security protocols, by their names. ``migrates``: whether
        this controller is configured for a migration from ZooKeeper."""
        self._scheduler = scheduler
        self._ask = ask
        self._is_asking = self._is_stopped = False
        self._request = ControllerRegistrationRequest(
            controller_id=local.id,
            incarnation_id=rng.randbytes(UUID_BYTES),
            zk_migration_ready=migrates,
            listeners=[
                Listener(name=name, host=host, port=port, security_protocol=protocols.get(name, PLAINTEXT))
                for name, host, port in local.endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
                for name, levels in SUPPORTED.items()
            ],
        )

    def look(self, image: MetadataImage) -> None:
        """Register if necessary, after a change of the metadata or the leader."""
        level = image.metadata_version
        if self._is_asking or self._is_stopped or level is None or level < metadata_version.CONTROLLER_REGISTRATION:
            return
        known = image.controllers.get(self._request.controller_id)
        if known is None or known.incarnation_id != self._request.incarnation_id:
            self._is_asking = True
            if not self._ask(self._request, lambda _response: self._later(image)):
                self._later(image)

    def stop(self) -> None:
        """Send no more requests."""
        self._is_stopped = True

    def _later(self, image: MetadataImage) -> None:
        """Check again later: whatever the answer was, the registration is complete when the metadata show it."""

        def again() -> None:
            self._is_asking = False
            self.look(image)

        if not self._is_stopped:
            self._scheduler.call_later(RETRY_MS, again)
