"""Elections that may have lost records, counted from the changes of the metadata. Pure."""

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import NO_LEADER, Partition


def unclean_elections(image: MetadataImage, delta: MetadataDelta) -> int:
    """Count the partitions that got a leader that was neither in sync before nor eligible (KIP-966)."""
    count = 0
    for topic_id, changed in delta.partitions.items():
        if topic_id in delta.created_topics:
            continue
        topic = image.topics_by_id.get(topic_id)
        if topic is not None:
            count += sum(
                before is not None and _is_unclean(before, topic.partitions[index]) for index, before in changed.items()
            )
    return count


def _is_unclean(before: Partition, after: Partition) -> bool:
    return after.leader != NO_LEADER and after.leader not in before.isr and after.leader not in before.elr
