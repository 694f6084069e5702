"""What the metadata hold of a node's own configuration: of all brokers and of this one (KIP-226)."""

from collections.abc import Iterable

from kpybroker.config.broker import BrokerConfig
from kpybroker.metadata.delta import ConfigResource
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
