"""The contents of Kafka's own records: those of the metadata log, of coordinators, and control records. Pure.

A decoder takes a record and returns its key and its payload as JSON; where it cannot read them, a message takes their
place, and the dump continues.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from kpybroker.machines.transactions.transaction import STATE_NAMES
from kpywire import control_record, group_records, metadata_records, share_records, transaction_records
from kpywire.codec import decode
from kpywire.errors import Malformed, OfNewerVersion
from kpywire.group_records import table as group_types
from kpywire.message_json import as_json
from kpywire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kpywire.metadata_records import table as metadata_types
from kpywire.record import Record
from kpywire.varint import decode_unsigned_varint

DELETED = "<DELETE>"
CONSUMER_PROTOCOL = "consumer"
_VERSION_BYTES = 2
_NEWEST_PROTOCOL = 3
_CONTROL_NAMES = {
    control_record.LEADER_CHANGE: "LeaderChange",
    control_record.SNAPSHOT_HEADER: "SnapshotHeader",
    control_record.SNAPSHOT_FOOTER: "SnapshotFooter",
    control_record.KRAFT_VERSION: "KRaftVersion",
    control_record.KRAFT_VOTERS: "KRaftVoters",
}
_MARKERS = {control_record.ABORT: "ABORT", control_record.COMMIT: "COMMIT"}


class DecodedRecord(NamedTuple):
    """The decoded contents of a record: JSON, text, or None where there is nothing."""

    key: Any
    payload: Any


Decoder = Callable[[Record], DecodedRecord]


def text(record: Record) -> DecodedRecord:
    """The key and value as UTF-8, as far as they are valid."""
    return DecodedRecord(_text(record.key), _text(record.value))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def metadata(record: Record) -> DecodedRecord:
    """A record of ``__cluster_metadata``."""
    if record.value is None:
        return DecodedRecord(None, None)
    try:
        _, position = decode_unsigned_varint(record.value, 0)
        number, position = decode_unsigned_varint(record.value, position)
        version, _ = decode_unsigned_varint(record.value, position)
        message = metadata_records.decode_record(record.value)
    except Malformed as error:
        return DecodedRecord(None, _unreadable(error))
    name = metadata_types.MODULES[number].upper()
    return DecodedRecord(None, {"type": name, "version": version, "data": as_json(message, version)})


def groups(record: Record) -> DecodedRecord:
    """A record of ``__consumer_offsets``."""
    return _coordinators(group_records, record)


def transactions(record: Record) -> DecodedRecord:
    """A record of ``__transaction_state``."""
    return _coordinators(transaction_records, record)


def shares(record: Record) -> DecodedRecord:
    """A record of ``__share_group_state``."""
    return _coordinators(share_records, record)


DECODERS: dict[str, Decoder] = {
    "__cluster_metadata": metadata,
    "__consumer_offsets": groups,
    "__transaction_state": transactions,
    "__share_group_state": shares,
}
"""The decoders by the topic that holds such records."""


def _coordinators(records: Any, record: Record) -> DecodedRecord:
    try:
        number = records.record_type(record.key or b"")
        key = {"type": str(number), "data": as_json(records.decode_key(record.key), 0)}
    except Malformed as error:
        return DecodedRecord(_unreadable(error), _text(record.value))
    if record.value is None:
        return DecodedRecord(key, DELETED)
    try:
        message = records.decode_value(number, record.value)
        version = int.from_bytes(record.value[:_VERSION_BYTES], "big")
        payload = as_json(message, version)
        if records is group_records and number == group_types.GROUP_METADATA:
            _open_members(payload, message)
        elif records is transaction_records:
            status = message.transaction_status
            payload["transactionStatus"] = STATE_NAMES.get(status, str(status))
    except Malformed as error:
        return DecodedRecord(key, _unreadable(error))
    return DecodedRecord(key, {"version": str(version), "data": payload})


def _open_members(payload: dict[str, Any], message: Any) -> None:
    """Consumers' subscriptions and assignments are messages of their own; those of others stay base64."""
    if message.protocol_type != CONSUMER_PROTOCOL:
        return
    for shown, member in zip(payload["members"], message.members, strict=True):
        for name, cls in (("subscription", ConsumerProtocolSubscription), ("assignment", ConsumerProtocolAssignment)):
            data = getattr(member, name)
            if len(data) < _VERSION_BYTES:
                continue
            version = min(int.from_bytes(data[:_VERSION_BYTES], "big"), _NEWEST_PROTOCOL)
            shown[name] = as_json(decode(cls, version, data, _VERSION_BYTES), version)


def control(record: Record) -> tuple[str, Any]:
    """The kind of a control record and its contents, such as ("endTxnMarker", {"type": "COMMIT", ...})."""
    try:
        found = control_record.read_control_record(record)
        if found is None:
            return "controlType", control_record.control_type(record)
    except Malformed as error:
        return "control", _unreadable(error)
    if found.type in _MARKERS:
        message: Any = found.message
        return "endTxnMarker", {"type": _MARKERS[found.type], "coordinatorEpoch": message.coordinator_epoch}
    return _CONTROL_NAMES[found.type], as_json(found.message, control_record.VERSION)


def as_line(found: Any) -> str:
    """A key or payload on one line, JSON as Kafka's tools write it."""
    return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def _unreadable(error: Malformed) -> str:
    return f"<{error}>" if isinstance(error, OfNewerVersion) else f"<unreadable: {error}>"
