"""The topics that the group coordinator sees, in step with the committed metadata (Kafka: ``onMetadataUpdate``)."""

from collections.abc import Mapping
from typing import Final

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic_view import NO_TOPICS, TopicView

_CHANGES_KEPT: Final = 10_000
"""How many changes are remembered, beyond two for each topic."""

GROUP_RESOURCE: Final = 32


class FollowedTopics:
    """Makes a view for each change that members of groups can notice: topics, partitions or replicas."""

    def __init__(self) -> None:
        self._view = NO_TOPICS
        self._configs: Mapping[tuple[int, str], Mapping[str, str]] = {}
        self._hashes: dict[bytes, int] = {}
        self._created_version = 0
        self._changes: dict[str, int] = {}

    def now(self) -> TopicView:
        """The view of the committed metadata."""
        return self._view

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """The configs that were set on a group."""
        return self._configs.get((GROUP_RESOURCE, group_id), {})

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change."""
        self._configs = image.configs
        changed = _changed(image, delta)
        if not (changed or delta.removed_topics) and self._view is not NO_TOPICS:
            return
        version = image.next_offset - 1
        if delta.created_topics:
            self._created_version = version
        for topic_id in (*changed, *delta.removed_topics):
            self._hashes.pop(topic_id, None)
        for name in (*(image.topics_by_id[topic_id].name for topic_id in changed), *delta.removed_topics.values()):
            self._changes.pop(name, None)
            self._changes[name] = version
        self._forget_changes(len(image.topics))
        self._view = TopicView(
            image.topics,
            image.topics_by_id,
            image.brokers,
            version,
            self._created_version,
            self._hashes,
            self._changes,
        )

    def _forget_changes(self, topics: int) -> None:
        """Forget the oldest deletions. A group that has not sent a heartbeat since then misses one at most, and
        notices it with the next change of its topics."""
        while len(self._changes) > 2 * topics + _CHANGES_KEPT:
            del self._changes[next(iter(self._changes))]


def _changed(image: MetadataImage, delta: MetadataDelta) -> list[bytes]:
    """The ids of topics with other partitions or replicas than before."""
    return [
        topic_id
        for topic_id, partitions in delta.partitions.items()
        if any(
            before is None or before.replicas != image.topics_by_id[topic_id].partitions[index].replicas
            for index, before in partitions.items()
        )
    ]
