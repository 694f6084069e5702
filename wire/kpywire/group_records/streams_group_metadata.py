"""StreamsGroupMetadata: a record of type 17, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message, string, struct


@message(key=17, versions="0")
class StreamsGroupMetadataKey:
    group_id: string  # The group ID.


@struct
class LastAssignmentConfig:
    key: string  # Key of the config.
    value: string  # Value of the config.


@message(key=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    epoch: i32  # The group epoch.
    metadata_hash: i64  # The hash of all topics in the group.
    # The topology epoch whose topics are validated to be present in a valid configuration in the metadata.
    validated_topology_epoch: i32 = field(tag=0, default=-1)
    # The last used configuration parameters as key-value pairs.
    last_assignment_configs: list[LastAssignmentConfig] | None = field(tag=1, default=[])
    # The topology epoch the plugin holds, or -1 if none. -2 (uncertain) marks an interrupted plugin operation: it
    # solicits a push like -1 and is delete-eligible like a stored epoch.
    stored_description_topology_epoch: i32 = field(tag=2, default=-1)
    # The topology epoch whose description push the plugin permanently rejected (signalled by
    # StreamsTopologyDescriptionPermanentFailureException), or -1 if none. Heartbeat-path solicitation is suppressed
    # while this equals the current topology epoch, to avoid hot-looping.
    failed_description_topology_epoch: i32 = field(tag=3, default=-1)
