"""The control batches of the metadata log and its snapshots, as Kafka writes them."""

from collections.abc import Sequence

from kpybroker.machines.raft.voters import VoterHistory, Voters, from_record, to_record
from kpywire.batch import BatchHeader
from kpywire.control_record import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    VERSION,
    ControlRecord,
    control_batch,
    read_control_record,
)
from kpywire.messages.kraft_version_record import KRaftVersionRecord
from kpywire.messages.leader_change_message import LeaderChangeMessage
from kpywire.messages.leader_change_message import Voter as ElectionVoter
from kpywire.messages.snapshot_footer_record import SnapshotFooterRecord
from kpywire.messages.snapshot_header_record import SnapshotHeaderRecord
from kpywire.record import read_batch

__all__ = [
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
    "SNAPSHOT_FOOTER",
    "ControlRecord",
    "control_batch",
    "kraft_version",
    "kraft_voters",
    "leader_change",
    "read_control_batch",
    "read_control_record",
    "snapshot_footer",
    "snapshot_header",
    "voters_of",
]


def leader_change(leader_id: int, voters: Voters, granting: Sequence[int]) -> ControlRecord:
    """The first record of an epoch: its leader, its voters, and the voters that elected the leader."""
    message = LeaderChangeMessage(
        version=VERSION,
        leader_id=leader_id,
        voters=[ElectionVoter(voter_id=voter_id) for voter_id in voters],
        granting_voters=[ElectionVoter(voter_id=voter_id) for voter_id in granting],
    )
    return ControlRecord(LEADER_CHANGE, message)


def kraft_version(version: int) -> ControlRecord:
    """The finalised level of ``kraft.version``."""
    return ControlRecord(KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=version))


def kraft_voters(voters: Voters) -> ControlRecord:
    """The record of the voters from this offset on."""
    return ControlRecord(KRAFT_VOTERS, to_record(voters))


def snapshot_header(last_contained_timestamp_ms: int) -> ControlRecord:
    """The first record of a snapshot: the age of its contents."""
    message = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_timestamp_ms)
    return ControlRecord(SNAPSHOT_HEADER, message)


def snapshot_footer() -> ControlRecord:
    """The last record of a snapshot; a snapshot without it is not complete."""
    return ControlRecord(SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))


def voters_of(record: ControlRecord) -> Voters:
    """The voters that a KRAFT_VOTERS record names."""
    return from_record(record.message)


def read_control_batch(
    header: BatchHeader, batch: bytes, history: VoterHistory, snapshot_offset: int | None = None
) -> bool:
    """Take voters and ``kraft.version`` from a control batch. Return whether it ends a snapshot.

    All records of a snapshot are valid from ``snapshot_offset`` on, each record of the log from its own offset on.
    """
    ends = False
    for record in read_batch(batch, header):
        control = read_control_record(record)
        offset = record.offset if snapshot_offset is None else snapshot_offset
        if control is None:
            continue
        if control.type == KRAFT_VERSION:
            history.add_kraft_version(offset, control.message.kraft_version)
        elif control.type == KRAFT_VOTERS:
            history.add_voters(offset, voters_of(control))
        ends = ends or control.type == SNAPSHOT_FOOTER
    return ends
