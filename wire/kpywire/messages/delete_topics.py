"""DeleteTopics: API key 20."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class DeleteTopicState:
    name: string | None = field(default=None)  # The topic name.
    topic_id: uuid  # The unique topic ID.


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """Version 4 is the first flexible version.
    Version 5 adds ErrorMessage in the response and may return a THROTTLING_QUOTA_EXCEEDED error in the response
    if the topics deletion is throttled (KIP-599).
    Version 6 reorganizes topics, adds topic IDs and allows topic names to be null.
    """

    topics: list[DeleteTopicState] = field("6+", default=[])  # The name or topic ID of the topic.
    topic_names: list[string] = field("0-5", default=[], ignorable=True)  # The names of the topics to delete.
    timeout_ms: i32  # The length of time in milliseconds to wait for the deletions to complete.


@struct
class DeletableTopicResult:
    name: string | None = field(nullable="6+")  # The topic name.
    topic_id: uuid = field("6+", default=ZERO_UUID, ignorable=True)  # The unique topic ID.
    error_code: i16  # The deletion error, or 0 if the deletion succeeded.
    # The error message, or null if there was no error.
    error_message: string | None = field("5+", default=None, ignorable=True)


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    """Version 1 adds the throttle time.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Starting in version 3, a TOPIC_DELETION_DISABLED error code may be returned.
    Version 4 is the first flexible version.
    Version 5 adds ErrorMessage in the response and may return a THROTTLING_QUOTA_EXCEEDED error in the response
    if the topics deletion is throttled (KIP-599).
    Version 6 adds topic ID to responses. An UNSUPPORTED_VERSION error code will be returned when attempting to
    delete using topic IDs when IBP < 2.8. UNKNOWN_TOPIC_ID error code will be returned when IBP is at least 2.8,
    but the topic ID was not found.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    responses: list[DeletableTopicResult]  # The results for each topic we tried to delete.
