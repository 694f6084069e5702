"""The offline replicas of a partition, for Metadata and DescribeTopicPartitions.

A replica is offline if its broker is gone or fenced, or its log directory is offline
(``KRaftMetadataCache.isReplicaOffline``).
"""

from kpybroker.machines.metadata.topic import Partition, directory_is_online
from kpybroker.requests.serving.context import Context


def offline_replicas(broker: Context, partition: Partition) -> list[int]:
    """The ids of the brokers whose replicas of a partition are offline."""
    alive, registered = broker.alive_brokers, broker.image.brokers
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if replica not in alive or not directory_is_online(directory, registered[replica].directories)
    ]
