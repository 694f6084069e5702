"""The controller role of one node: the context for handlers of requests to its controller.

A node has it beside a broker in the same process, or alone. It sends no requests: requests of nodes and tools are
decided here, or answered with NOT_CONTROLLER while another node's controller is the active one.
"""

from collections.abc import Mapping

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.metadata.absences import Absences
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.unclean import unclean_elections
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.io.scheduler import Scheduler


class ControllerRole:
    """The context of a controller. ``controller`` is this node's own, active or not."""

    is_controller_role = True
    """Whether requests are guarded as on the listeners of a controller."""
    wants_client_metrics = False
    """Clients push their metrics to brokers."""

    def __init__(
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        controller: QuorumHost,
        supported_features: Mapping[str, tuple[int, int]],
        authorizer: Authorizer | None,
    ) -> None:
        self.node_id = config.node_id
        self.config = config
        self.scheduler = scheduler
        self.controller = controller
        self.supported_features = supported_features
        self.authorizer = authorizer
        self.absences = Absences()
        self.console_url = ""
        """The address of this node's console for browsers; empty if it has none."""
        self.unclean_elections = 0
        """The number since the start, as controllers count them."""

    @property
    def unready(self) -> str | None:
        """The reason why no request can be decided; None if there is an active controller, here or elsewhere."""
        return None if self.controller.controller_id >= 0 else "no active controller is known"

    def console_is_at(self, url: str) -> None:
        """Note the address of this node's console, which other nodes ask for."""
        self.console_url = url

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Note a committed change of the metadata."""
        if delta.brokers:
            self.absences.note(image, delta, self.scheduler.monotonic_ms())
        self.unclean_elections += unclean_elections(image, delta)

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.controller.image

    def heard(self, broker_id: int, broker_epoch: int, client: ConnectedClient) -> None:
        """A broker's heartbeat came over this client's connection."""
        self.controller.heard(broker_id, broker_epoch, client)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply a change of dynamic broker configs; they apply to controllers too (KIP-226)."""
        self.config = config
