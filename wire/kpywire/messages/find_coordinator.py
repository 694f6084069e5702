"""FindCoordinator: API key 10."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Version 1 adds KeyType.
    Version 3 is the first flexible version.
    Version 4 adds support for batching via CoordinatorKeys (KIP-699)
    Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 6 adds support for share groups (KIP-932). For key type SHARE (2), the coordinator key format is
    "groupId:topicId:partition".
    """

    key: string = field("0-3", default="")  # The coordinator key.
    key_type: i8 = field("1+", default=0)  # The coordinator key type. (group, transaction, share).
    coordinator_keys: list[string] = field("4+", default=[])  # The coordinator keys.


@struct
class Coordinator:
    key: string  # The coordinator key.
    node_id: i32  # The node id.
    host: string  # The host name.
    port: i32  # The port.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The error message, or null if there was no error.


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """Version 1 adds throttle time and error messages.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Version 3 is the first flexible version.
    Version 4 adds support for batching via Coordinators (KIP-699)
    Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 6 adds support for share groups (KIP-932).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("1+", default=0, ignorable=True)
    error_code: i16 = field("0-3", default=0)  # The error code, or 0 if there was no error.
    # The error message, or null if there was no error.
    error_message: string | None = field("1-3", default="", ignorable=True)
    node_id: i32 = field("0-3", default=0)  # The node id.
    host: string = field("0-3", default="")  # The host name.
    port: i32 = field("0-3", default=0)  # The port.
    coordinators: list[Coordinator] = field("4+", default=[])  # Each coordinator result in the response.
