"""The topics as groups see them at one decision: ids, names, partition counts, and a hash that shows a change.

(Kafka: ``CoordinatorMetadataImage``, ``Utils.computeGroupHash``.) A view is made by the node and given to each
decision. Applying a record reads no view, so a replay does not depend on the metadata of the day.
"""

from collections.abc import Iterable, Mapping
from struct import pack
from typing import Protocol

from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.metadata.xxh3 import xxh3_64


class _Racked(Protocol):
    """A registered broker."""

    rack: str | None


class TopicView:
    """The topics of one state of the metadata. Nobody changes it."""

    __slots__ = ("_brokers", "_changes", "_hashes", "by_id", "by_name", "created_version", "version")

    def __init__(
        self,
        by_name: Mapping[str, Topic],
        by_id: Mapping[bytes, Topic],
        brokers: Mapping[int, _Racked],
        version: int,
        created_version: int,
        hashes: dict[bytes, int],
        changes: Mapping[str, int],
    ) -> None:
        self.by_name = by_name
        self.by_id = by_id
        self._brokers = brokers
        self.version = version
        """The offset of the metadata at which this view was made. Another view has another version."""
        self.created_version = created_version
        """The version of the first view with the youngest topic."""
        self._hashes = hashes
        """The hashes of topics that have not changed since, by id. They are added when they are first asked for."""
        self._changes = changes
        """The version at which each topic was last created, changed or deleted, by name."""

    def has_changed(self, names: Iterable[str], since_version: int) -> bool:
        """Whether one of these topics changed after this version."""
        changes = self._changes
        return self.version != since_version and any(changes.get(name, 0) > since_version for name in names)

    def group_hash(self, names: Iterable[str]) -> int:
        """The hash of all existing topics of these names, as a signed number; 0 without topics."""
        known = [self.by_name[name] for name in sorted(names) if name in self.by_name]
        if not known:
            return 0
        hashed = xxh3_64(b"".join(self._topic_hash(topic).to_bytes(8, "little") for topic in known))
        return hashed - (1 << 64) if hashed >> 63 else hashed

    def _topic_hash(self, topic: Topic) -> int:
        found = self._hashes.get(topic.id)
        if found is None:
            found = self._hashes[topic.id] = xxh3_64(self._hashed_bytes(topic))
        return found

    def _hashed_bytes(self, topic: Topic) -> bytes:
        parts = [b"\0", topic.id[7::-1], topic.id[:7:-1], *_text(topic.name), pack("<i", len(topic.partitions))]
        for index in range(len(topic.partitions)):
            parts.append(pack("<i", index))
            brokers = (self._brokers.get(replica) for replica in topic.partitions[index].replicas)
            for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None):
                parts += _text(rack)
        return b"".join(parts)


def _text(text: str) -> tuple[bytes, bytes]:
    encoded = text.encode("utf-16-le")
    return encoded, pack("<i", len(encoded) // 2)


NO_TOPICS = TopicView({}, {}, {}, 0, 0, {}, {})
"""The view before the first metadata."""
