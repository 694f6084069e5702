"""Znodes of which a cluster has one each: its id, finalised features, and the last block of producer ids."""

from dataclasses import dataclass, field
from typing import Final

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import ZnodeFields, encode

FEATURES_DISABLED: Final = 0
FEATURES_ENABLED: Final = 1


def encode_cluster_id(cluster_id: str) -> bytes:
    """The content of ``/cluster/id``. Its version is a string."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(content: bytes | None) -> str:
    """The cluster id in the znode."""
    return ZnodeFields.decode(paths.CLUSTER_ID, content).text("id")


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The content of ``/feature`` (``FeatureZNode``). The data version of the znode is the epoch of the features."""

    levels: dict[str, dict[str, int]] = field(default_factory=dict)
    status: int = FEATURES_ENABLED
    version: int = 2

    def encode(self) -> bytes:
        """The content of the znode."""
        return encode({"features": self.levels, "version": self.version, "status": self.status})

    @classmethod
    def decode(cls, content: bytes | None) -> "FinalizedFeatures":
        """The features in the znode."""
        fields = ZnodeFields.decode(paths.FEATURES, content)
        version, status = fields.integer("version"), fields.integer("status")
        if version not in (1, 2):
            raise fields.fault(f"its version is {version}")
        if status not in (FEATURES_DISABLED, FEATURES_ENABLED):
            raise fields.fault(f"its status is {status}")
        return cls(levels=fields.feature_ranges("features"), status=status, version=version)


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The content of ``/latest_producer_id_block``: the ids from ``start`` to before ``end`` belong to a broker."""

    broker_id: int
    start: int
    end: int

    def encode(self) -> bytes:
        """The content of the znode, where the end is included."""
        fields = {
            "version": 1,
            "broker": self.broker_id,
            "block_start": str(self.start),
            "block_end": str(self.end - 1),
        }
        return encode(fields)

    @classmethod
    def decode(cls, content: bytes | None) -> "ProducerIdBlock | None":
        """The block in the znode. None if no block was ever taken."""
        if not content:
            return None
        fields = ZnodeFields.decode(paths.PRODUCER_IDS, content)
        return cls(
            broker_id=fields.integer("broker"),
            start=fields.integer_in_text("block_start"),
            end=fields.integer_in_text("block_end") + 1,
        )
