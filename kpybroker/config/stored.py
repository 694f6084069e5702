"""The stored configuration of a node: the metadata's configs for all brokers and for this one (KIP-226).

Invariant: all roles of a node use the same configuration; a change rebuilds it once.
"""

from collections.abc import Callable, Iterable
from typing import Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.metadata.delta import ConfigResource, MetadataDelta
from kpybroker.machines.metadata.image import BROKER_RESOURCE, MetadataImage

CLUSTER_DEFAULT: Final = ""
"""The resource name of dynamic configs that apply to every broker."""


def concerns(changed: Iterable[ConfigResource], node_id: int) -> bool:
    """Whether a change of these resources changes a node's configuration."""
    return any(kind == BROKER_RESOURCE and name in (CLUSTER_DEFAULT, str(node_id)) for kind, name in changed)


def reread(config: BrokerConfig, image: MetadataImage, node_id: int) -> BrokerConfig:
    """The configuration with the configs now stored for the node; values that cannot be used are left out with a
    warning."""
    return config.with_dynamic(
        image.configs_of(BROKER_RESOURCE, CLUSTER_DEFAULT), image.configs_of(BROKER_RESOURCE, str(node_id))
    )


class CurrentConfig:
    """The present configuration of a node, with the configs stored for it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._notified: list[Callable[[BrokerConfig], object]] = []

    def now(self) -> BrokerConfig:
        """The configuration, for parts that ask for it each time."""
        return self.config

    def when_changed(self, changed: Callable[[BrokerConfig], object]) -> None:
        """Call ``changed`` with every new configuration from now on."""
        self._notified.append(changed)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a committed change of the metadata."""
        if concerns(delta.configs, self.config.node_id):
            self.config = reread(self.config, image, self.config.node_id)
            for changed in self._notified:
                changed(self.config)
