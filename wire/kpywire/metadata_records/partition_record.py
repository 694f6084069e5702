"""PartitionRecord: type 3 in the metadata log."""

from __future__ import annotations

from kpywire.schema import field, i8, i32, message, uuid


@message(key=3, versions="0-2", flexible="0+")
class PartitionRecord:
    """Version 1 adds Directories for KIP-858
    Version 2 implements Eligible Leader Replicas and LastKnownElr as described in KIP-966.
    """

    partition_id: i32 = field(default=-1)  # The partition id.
    topic_id: uuid  # The unique ID of this topic.
    replicas: list[i32]  # The replicas of this partition, sorted by preferred order.
    isr: list[i32]  # The in-sync replicas of this partition
    removing_replicas: list[i32]  # The replicas that we are in the process of removing.
    adding_replicas: list[i32]  # The replicas that we are in the process of adding.
    leader: i32 = field(default=-1)  # The lead replica, or -1 if there is no leader.
    # 1 if the partition is recovering from an unclean leader election; 0 otherwise.
    leader_recovery_state: i8 = field(tag=0, default=0)
    leader_epoch: i32 = field(default=-1)  # The epoch of the partition leader.
    # An epoch that gets incremented each time we change anything in the partition.
    partition_epoch: i32 = field(default=-1)
    # The log directory hosting each replica, sorted in the same exact order as the Replicas field.
    directories: list[uuid] = field("1+", default=[])
    # The eligible leader replicas of this partition.
    eligible_leader_replicas: list[i32] | None = field("2+", tag=1, default=None)
    # The last known eligible leader replicas of this partition.
    last_known_elr: list[i32] | None = field("2+", tag=2, default=None)
