"""Which replicas of a partition are offline, as Metadata and DescribeTopicPartitions say it.

Their broker is gone or fenced, or the log directory they lie in is offline (``KRaftMetadataCache.isReplicaOffline``).
"""

from kpybroker.handlers.context import Context
from kpybroker.metadata.topic import Partition, directory_is_online


def offline_replicas(broker: Context, partition: Partition) -> list[int]:
    """Their brokers."""
    alive, registered = broker.alive_brokers, broker.image.brokers
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if replica not in alive or not directory_is_online(directory, registered[replica].directories)
    ]
