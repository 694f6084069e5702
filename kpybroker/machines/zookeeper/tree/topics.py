"""Topics and partitions: ``/brokers/topics/<topic>`` and the ``state`` of each partition below it.

The partition epoch is not in the content: it is the data version of ``state``.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from kpybroker.machines.metadata.topic import RECOVERED, RECOVERING
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import ZnodeFields, encode
from kpywire.uuid import from_string, to_string

NEWEST_VERSION: Final = 3
"""Version 3 has adding and removing replicas (Kafka 2.4). A topic id came with Kafka 2.8, without another version."""

NO_EPOCH: Final = -1
"""The epoch of a sender that knows none: nothing is compared."""
EPOCH_DURING_DELETE: Final = -2
LEADER_DURING_DELETE: Final = -2
"""The leader of partitions of a topic that is being deleted (``LeaderAndIsr.LeaderDuringDelete``)."""

Replicas = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The replicas of each partition of a topic, with those that reassignments add and remove (``TopicZNode``)."""

    name: str
    replicas: Replicas
    topic_id: bytes | None = None
    adding: Replicas = field(default_factory=dict)
    removing: Replicas = field(default_factory=dict)

    def encode(self) -> bytes:
        """The content of the znode."""
        fields: dict[str, Any] = {"partitions": _by_text(self.replicas)}
        if self.topic_id is not None:
            fields["topic_id"] = to_string(self.topic_id)
        fields["adding_replicas"] = _by_text(self.adding)
        fields["removing_replicas"] = _by_text(self.removing)
        fields["version"] = NEWEST_VERSION
        return encode(fields)

    @classmethod
    def decode(cls, name: str, content: bytes | None) -> "TopicAssignment":
        """The assignment in a znode of any version."""
        fields = ZnodeFields.decode(paths.topic(name), content)
        return cls(
            name=name,
            replicas=fields.partition_lists("partitions"),
            topic_id=_topic_id(fields) if "topic_id" in fields else None,
            adding=fields.partition_lists("adding_replicas", required=False),
            removing=fields.partition_lists("removing_replicas", required=False),
        )


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """The content of ``state`` (``LeaderIsrAndControllerEpoch``). ``leader`` is -1 where there is none."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery: int = RECOVERED

    def encode(self) -> bytes:
        """The content of the znode."""
        fields: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.isr,
        }
        if self.recovery == RECOVERING:
            fields["leader_recovery_state"] = RECOVERING
        return encode(fields)

    @classmethod
    def decode(cls, path: str, content: bytes | None) -> "LeaderIsrAndControllerEpoch":
        """The state in the znode ``path``."""
        fields = ZnodeFields.decode(path, content)
        recovery = fields.integer("leader_recovery_state", RECOVERED)
        if recovery not in (RECOVERED, RECOVERING):
            raise fields.fault(f"its leader_recovery_state is {recovery}")
        return cls(
            leader=fields.integer("leader"),
            leader_epoch=fields.integer("leader_epoch"),
            isr=fields.integers("isr"),
            controller_epoch=fields.integer("controller_epoch"),
            recovery=recovery,
        )


def _by_text(replicas: Replicas) -> dict[str, tuple[int, ...]]:
    return {str(partition): brokers for partition, brokers in replicas.items()}


def _topic_id(fields: ZnodeFields) -> bytes:
    text = fields.text("topic_id")
    try:
        return from_string(text)
    except ValueError:
        raise fields.fault(f"its topic_id {text[:40]!r} is not an id") from None
