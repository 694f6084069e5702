"""What the metadata hold of a node's own configuration: of all brokers and of this one (KIP-226).

Invariant: all roles of a node go by the same configuration; a change makes it anew once.
"""

from collections.abc import Callable, Iterable

from kpybroker.config.broker import BrokerConfig
from kpybroker.metadata.delta import ConfigResource, MetadataDelta
from kpybroker.metadata.image import BROKER_RESOURCE, MetadataImage

CLUSTER_DEFAULT = ""
"""The resource name of dynamic configs that hold for every broker."""


def concerns(changed: Iterable[ConfigResource], node_id: int) -> bool:
    """Whether a node is configured otherwise after these resources have changed."""
    return any(kind == BROKER_RESOURCE and name in (CLUSTER_DEFAULT, str(node_id)) for kind, name in changed)


def reread(config: BrokerConfig, image: MetadataImage, node_id: int) -> BrokerConfig:
    """The configuration with what is stored for the node now; what cannot be used is left out and warned of."""
    return config.with_dynamic(
        image.configs_of(BROKER_RESOURCE, CLUSTER_DEFAULT), image.configs_of(BROKER_RESOURCE, str(node_id))
    )


class CurrentConfig:
    """A node's configuration, with what is stored for it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._told: list[Callable[[BrokerConfig], object]] = []

    def when_changed(self, changed: Callable[[BrokerConfig], object]) -> None:
        """Call ``changed`` with every new configuration from now on."""
        self._told.append(changed)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change of the metadata."""
        if concerns(delta.configs, self.config.node_id):
            self.config = reread(self.config, image, self.config.node_id)
            for changed in self._told:
                changed(self.config)
