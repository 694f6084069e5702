"""The topics that the group coordinator sees, in step with the committed metadata (Kafka: ``onMetadataUpdate``)."""

from kpybroker.groups.topic_view import NO_TOPICS, TopicView
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage


class FollowedTopics:
    """Makes a view for each change that members of groups can notice: topics, partitions or replicas."""

    def __init__(self) -> None:
        self._view = NO_TOPICS
        self._hashes: dict[bytes, int] = {}
        self._created_version = 0

    def now(self) -> TopicView:
        """The view of the committed metadata."""
        return self._view

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change."""
        changed = _changed(image, delta)
        if not (changed or delta.removed_topics) and self._view is not NO_TOPICS:
            return
        version = image.next_offset - 1
        if delta.created_topics:
            self._created_version = version
        for topic_id in (*changed, *delta.removed_topics):
            self._hashes.pop(topic_id, None)
        self._view = TopicView(
            image.topics, image.topics_by_id, image.brokers, version, self._created_version, self._hashes
        )


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
