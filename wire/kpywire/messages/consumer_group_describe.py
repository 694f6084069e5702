"""ConsumerGroupDescribe: API key 69."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct, uuid


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Version 1 adds MemberType field to ConsumerGroupDescribeResponse (KIP-1099). For ConsumerGroupDescribeRequest,
    version 1 is same as version 0.
    """

    group_ids: list[string]  # The ids of the groups to describe.
    include_authorized_operations: bool  # Whether to include authorized operations.


@struct
class TopicPartitions:
    topic_id: uuid  # The topic ID.
    topic_name: string  # The topic name.
    partitions: list[i32]  # The partitions.


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]  # The assigned topic-partitions to the member.


@struct
class Member:
    member_id: string  # The member ID.
    instance_id: string | None = field(default=None)  # The member instance ID.
    rack_id: string | None = field(default=None)  # The member rack ID.
    member_epoch: i32  # The current member epoch.
    client_id: string  # The client ID.
    client_host: string  # The client host.
    subscribed_topic_names: list[string]  # The subscribed topic names.
    # the subscribed topic regex otherwise or null of not provided.
    subscribed_topic_regex: string | None = field(default=None)
    assignment: Assignment  # The current assignment.
    target_assignment: Assignment  # The target assignment.
    # -1 for unknown. 0 for classic member. +1 for consumer member.
    member_type: i8 = field("1+", default=-1, ignorable=True)


@struct
class DescribedGroup:
    error_code: i16  # The describe error, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
    group_id: string  # The group ID string.
    group_state: string  # The group state string, or the empty string.
    group_epoch: i32  # The group epoch.
    assignment_epoch: i32  # The assignment epoch.
    assignor_name: string  # The selected assignor.
    members: list[Member]  # The members.
    # 32-bit bitfield to represent authorized operations for this group.
    authorized_operations: i32 = field(default=-0x8000_0000)


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """Version 1 adds MemberType field (KIP-1099).
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - INVALID_REQUEST (version 0+)
    - INVALID_GROUP_ID (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    groups: list[DescribedGroup]  # Each described group.
