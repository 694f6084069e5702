"""The controller role of one node: what the handlers of requests to its controller see as their context.

A node has it beside a broker in the same process, or alone. It asks nobody else: requests of nodes and tools are
decided here, or answered with NOT_CONTROLLER while another node's controller is the active one.
"""

from collections.abc import Mapping

from kpybroker.config.broker import BrokerConfig
from kpybroker.controller.host import ControllerHost
from kpybroker.io.scheduler import Scheduler
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.metadata.unclean import unclean_elections
from kpybroker.server.connection import Connection


class ControllerRole:
    """``controller`` is this node's own, active or not."""

    def __init__(
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        controller: ControllerHost,
        supported_features: Mapping[str, tuple[int, int]],
    ) -> None:
        self.node_id = config.node_id
        self.config = config
        self.scheduler = scheduler
        self.controller = controller
        self.supported_features = supported_features
        self.unclean_elections = 0
        """Since the start, as controllers count them."""

    @property
    def unready(self) -> str | None:
        """Why there is nobody who could decide; None when there is an active controller, here or elsewhere."""
        return None if self.controller.controller_id >= 0 else "no active controller is known"

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take note of a committed change of the metadata."""
        self.unclean_elections += unclean_elections(image, delta)

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.controller.image

    def heard(self, broker_id: int, broker_epoch: int, connection: Connection) -> None:
        """A broker's heartbeat came by this connection."""
        self.controller.heard(broker_id, broker_epoch, connection)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Dynamic broker configs changed; they hold for controllers too (KIP-226)."""
        self.config = config
