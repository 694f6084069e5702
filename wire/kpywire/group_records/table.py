"""The types of records here, and the module that declares each. Written by `kpywire.generator`."""

from typing import Final

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
CONSUMER_GROUP_METADATA: Final = 3
CONSUMER_GROUP_PARTITION_METADATA: Final = 4
CONSUMER_GROUP_MEMBER_METADATA: Final = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 8
SHARE_GROUP_MEMBER_METADATA: Final = 10
SHARE_GROUP_METADATA: Final = 11
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 12
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 13
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 14
SHARE_GROUP_STATE_PARTITION_METADATA: Final = 15
CONSUMER_GROUP_REGULAR_EXPRESSION: Final = 16
STREAMS_GROUP_METADATA: Final = 17
STREAMS_GROUP_MEMBER_METADATA: Final = 19
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 20
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 21
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 22
STREAMS_GROUP_TOPOLOGY: Final = 23

MODULES: dict[int, str] = {
    LEGACY_OFFSET_COMMIT: "legacy_offset_commit",
    OFFSET_COMMIT: "offset_commit",
    GROUP_METADATA: "group_metadata",
    CONSUMER_GROUP_METADATA: "consumer_group_metadata",
    CONSUMER_GROUP_PARTITION_METADATA: "consumer_group_partition_metadata",
    CONSUMER_GROUP_MEMBER_METADATA: "consumer_group_member_metadata",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: "consumer_group_target_assignment_metadata",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: "consumer_group_target_assignment_member",
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: "consumer_group_current_member_assignment",
    SHARE_GROUP_MEMBER_METADATA: "share_group_member_metadata",
    SHARE_GROUP_METADATA: "share_group_metadata",
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: "share_group_target_assignment_metadata",
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: "share_group_target_assignment_member",
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: "share_group_current_member_assignment",
    SHARE_GROUP_STATE_PARTITION_METADATA: "share_group_state_partition_metadata",
    CONSUMER_GROUP_REGULAR_EXPRESSION: "consumer_group_regular_expression",
    STREAMS_GROUP_METADATA: "streams_group_metadata",
    STREAMS_GROUP_MEMBER_METADATA: "streams_group_member_metadata",
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: "streams_group_target_assignment_metadata",
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: "streams_group_target_assignment_member",
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: "streams_group_current_member_assignment",
    STREAMS_GROUP_TOPOLOGY: "streams_group_topology",
}
