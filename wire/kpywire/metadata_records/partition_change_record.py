"""PartitionChangeRecord: type 5 in the metadata log."""

from __future__ import annotations

from kpywire.schema import field, i8, i32, message, uuid


@message(key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord:
    """Version 1 adds Directories for KIP-858.
    Version 2 implements Eligible Leader Replicas and LastKnownElr as described in KIP-966.
    """

    partition_id: i32 = field(default=-1)  # The partition id.
    topic_id: uuid  # The unique ID of this topic.
    # null if the ISR didn't change; the new in-sync replicas otherwise.
    isr: list[i32] | None = field(tag=0, default=None)
    # -1 if there is now no leader; -2 if the leader didn't change; the new leader otherwise.
    leader: i32 = field(tag=1, default=-2)
    # null if the replicas didn't change; the new replicas otherwise.
    replicas: list[i32] | None = field(tag=2, default=None)
    # null if the removing replicas didn't change; the new removing replicas otherwise.
    removing_replicas: list[i32] | None = field(tag=3, default=None)
    # null if the adding replicas didn't change; the new adding replicas otherwise.
    adding_replicas: list[i32] | None = field(tag=4, default=None)
    # -1 if it didn't change; 0 if the leader was elected from the ISR or recovered from an unclean election; 1 if the
    # leader that was elected using unclean leader election and it is still recovering.
    leader_recovery_state: i8 = field(tag=5, default=-1)
    # null if the log dirs didn't change; the new log directory for each replica otherwise.
    directories: list[uuid] | None = field("1+", tag=8, default=None)
    # null if the ELR didn't change; the new eligible leader replicas otherwise.
    eligible_leader_replicas: list[i32] | None = field("2+", tag=6, default=None)
    # null if the LastKnownElr didn't change; the last known eligible leader replicas otherwise.
    last_known_elr: list[i32] | None = field("2+", tag=7, default=None)
