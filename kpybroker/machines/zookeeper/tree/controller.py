"""The elected controller: ``/controller``, ``/controller_epoch``, and ``/migration`` on the way to KRaft."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode, ZnodeFields, encode

NO_CONTROLLER: Final = -1
NO_KRAFT_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class ElectedController:
    """The content of ``/controller`` (``ControllerZNode``). A KRaft controller leaves its epoch there."""

    broker_id: int
    timestamp_ms: int
    kraft_epoch: int = NO_KRAFT_EPOCH

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft controller holds the znode."""
        return self.kraft_epoch > 0

    def encode(self) -> bytes:
        """The content of the znode."""
        fields = {
            "version": 2,
            "brokerid": self.broker_id,
            "timestamp": str(self.timestamp_ms),
            "kraftControllerEpoch": self.kraft_epoch,
        }
        return encode(fields)

    @classmethod
    def decode(cls, content: bytes | None) -> "ElectedController":
        """The controller in a znode of any version."""
        fields = ZnodeFields.decode(paths.CONTROLLER, content)
        return cls(
            broker_id=fields.integer("brokerid"),
            timestamp_ms=fields.integer_in_text("timestamp") if "timestamp" in fields else 0,
            kraft_epoch=fields.integer("kraftControllerEpoch", NO_KRAFT_EPOCH),
        )


def encode_epoch(epoch: int) -> bytes:
    """The content of ``/controller_epoch``: a decimal number."""
    return str(epoch).encode()


def decode_epoch(content: bytes | None) -> int:
    """The number in ``/controller_epoch``."""
    digits = content or b""
    if not digits.isdigit() or len(digits) > 10:
        raise InvalidZnode(paths.CONTROLLER_EPOCH, f"{digits[:20]!r} is not an epoch")
    return int(digits)


@dataclass(frozen=True, slots=True)
class MigrationState:
    """The content of ``/migration`` (``MigrationZNode``): how much of the KRaft metadata log ZooKeeper has. The offset
    is -1 until everything was copied."""

    kraft_metadata_offset: int
    kraft_controller_id: int
    kraft_metadata_epoch: int
    kraft_controller_epoch: int

    def encode(self) -> bytes:
        """The content of the znode."""
        fields = {
            "version": 0,
            "kraft_metadata_offset": self.kraft_metadata_offset,
            "kraft_controller_id": self.kraft_controller_id,
            "kraft_metadata_epoch": self.kraft_metadata_epoch,
            "kraft_controller_epoch": self.kraft_controller_epoch,
        }
        return encode(fields)

    @classmethod
    def decode(cls, content: bytes | None) -> "MigrationState":
        """The state in the znode."""
        fields = ZnodeFields.decode(paths.MIGRATION, content)
        return cls(
            kraft_metadata_offset=fields.integer("kraft_metadata_offset"),
            kraft_controller_id=fields.integer("kraft_controller_id"),
            kraft_metadata_epoch=fields.integer("kraft_metadata_epoch"),
            kraft_controller_epoch=fields.integer("kraft_controller_epoch"),
        )
