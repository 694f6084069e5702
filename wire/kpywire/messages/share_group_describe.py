"""ShareGroupDescribe: API key 77."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, uuid


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    """Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
    Version 1 is the initial stable version (KIP-932).
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
    rack_id: string | None = field(default=None)  # The member rack ID.
    member_epoch: i32  # The current member epoch.
    client_id: string  # The client ID.
    client_host: string  # The client host.
    subscribed_topic_names: list[string]  # The subscribed topic names.
    assignment: Assignment  # The current assignment.


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


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    """Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
    Version 1 is the initial stable version (KIP-932).
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 1+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - INVALID_GROUP_ID (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - INVALID_REQUEST (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    groups: list[DescribedGroup]  # Each described group.
