"""The control batches of the metadata log and its snapshots, as Kafka writes them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.raft.voters import Voters, from_record, to_record
from kpywire.codec import decode, encode
from kpywire.messages.kraft_version_record import KRaftVersionRecord
from kpywire.messages.leader_change_message import LeaderChangeMessage
from kpywire.messages.leader_change_message import Voter as ElectionVoter
from kpywire.messages.snapshot_footer_record import SnapshotFooterRecord
from kpywire.messages.snapshot_header_record import SnapshotHeaderRecord
from kpywire.messages.voters_record import VotersRecord
from kpywire.record import Record, build_batch

LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(2, 7)
LEADER_CHANGE_VERSION = 0
_TYPES: dict[int, tuple[type, int]] = {
    LEADER_CHANGE: (LeaderChangeMessage, LEADER_CHANGE_VERSION),
    SNAPSHOT_HEADER: (SnapshotHeaderRecord, 0),
    SNAPSHOT_FOOTER: (SnapshotFooterRecord, 0),
    KRAFT_VERSION: (KRaftVersionRecord, 0),
    KRAFT_VOTERS: (VotersRecord, 0),
}


class ControlRecord(NamedTuple):
    """One control record of a quorum's log."""

    type: int
    message: Any


def control_batch(records: Sequence[ControlRecord], base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """One control batch."""
    return build_batch(
        [
            Record(timestamp=timestamp_ms, key=_key(record.type), value=encode(record.message, _TYPES[record.type][1]))
            for record in records
        ],
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        control=True,
    )


def read_control_record(record: Record) -> ControlRecord | None:
    """What a record of a control batch says; None for a type that quorums do not use. Raises Malformed."""
    key = record.key or b""
    kind = int.from_bytes(key[2:4], "big")
    if kind not in _TYPES:
        return None
    message_class, version = _TYPES[kind]
    value = record.value or b""
    version = min(version, int.from_bytes(value[:2], "big"))  # each begins with its own version
    return ControlRecord(kind, decode(message_class, version, value))


def leader_change(leader_id: int, voters: Voters, granting: Sequence[int]) -> ControlRecord:
    """The first record of an epoch: who leads, who may vote and who voted for it."""
    message = LeaderChangeMessage(
        version=LEADER_CHANGE_VERSION,
        leader_id=leader_id,
        voters=[ElectionVoter(voter_id=voter_id) for voter_id in voters],
        granting_voters=[ElectionVoter(voter_id=voter_id) for voter_id in granting],
    )
    return ControlRecord(LEADER_CHANGE, message)


def kraft_version(version: int) -> ControlRecord:
    """The finalised level of ``kraft.version``."""
    return ControlRecord(KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=version))


def kraft_voters(voters: Voters) -> ControlRecord:
    """The voters from here on."""
    return ControlRecord(KRAFT_VOTERS, to_record(voters))


def snapshot_header(last_contained_timestamp_ms: int) -> ControlRecord:
    """The first record of a snapshot: how old what it contains is."""
    message = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_timestamp_ms)
    return ControlRecord(SNAPSHOT_HEADER, message)


def snapshot_footer() -> ControlRecord:
    """The last record of a snapshot; one without it is not whole."""
    return ControlRecord(SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))


def voters_of(record: ControlRecord) -> Voters:
    """The voters that a KRAFT_VOTERS record names."""
    return from_record(record.message)


def _key(kind: int) -> bytes:
    return bytes((0, 0, 0, kind))
