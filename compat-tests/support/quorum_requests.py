"""Requests of the quorum's nodes to one another, with one thing wrong in each."""

from typing import Any

from kpywire import api
from kpywire.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from kpywire.uuid import ONE_UUID, ZERO_UUID

METADATA = "__cluster_metadata"
UNKNOWN_ID = 77
DISK = bytes(range(100, 116))


def vote_of(epoch: int, **changes: Any) -> vote.VoteRequest:
    """A candidate that nobody knows asks for a vote; ``changes`` are of the partition, or of the whole."""
    partition = vote.VoteRequestPartitionData(
        partition_index=changes.pop("partition", 0),
        replica_epoch=epoch,
        replica_id=changes.pop("replica_id", UNKNOWN_ID),
        replica_directory_id=DISK,
        voter_directory_id=changes.pop("voter_directory_id", ZERO_UUID),
        last_offset_epoch=changes.pop("last_offset_epoch", 0),
        last_offset=changes.pop("last_offset", 0),
        pre_vote=changes.pop("pre_vote", True),
    )
    topic = vote.VoteRequestTopicData(topic_name=changes.pop("topic", METADATA), partitions=[partition])
    return vote.VoteRequest(topics=[topic], **{"cluster_id": None, "voter_id": 1, **changes})


def begin_of(epoch: int, leader_id: int, **changes: Any) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """Somebody says that it leads."""
    partition = begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
        partition_index=0,
        voter_directory_id=changes.pop("voter_directory_id", ZERO_UUID),
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochRequestTopicData(
        topic_name=changes.pop("topic", METADATA), partitions=[partition]
    )
    whole = {"cluster_id": None, "voter_id": 1, "leader_endpoints": [], **changes}
    return begin_quorum_epoch.BeginQuorumEpochRequest(topics=[topic], **whole)


def end_of(epoch: int, leader_id: int, **changes: Any) -> end_quorum_epoch.EndQuorumEpochRequest:
    """Somebody says that it does not lead any more."""
    partition = end_quorum_epoch.EndQuorumEpochRequestPartitionData(
        partition_index=0, leader_id=leader_id, leader_epoch=epoch, preferred_successors=[], preferred_candidates=[]
    )
    topic = end_quorum_epoch.EndQuorumEpochRequestTopicData(
        topic_name=changes.pop("topic", METADATA), partitions=[partition]
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        topics=[topic], **{"cluster_id": None, "leader_endpoints": [], **changes}
    )


def fetch_of(epoch: int, offset: int = 0, **changes: Any) -> fetch.FetchRequest:
    """An observer asks for the metadata log."""
    partition = fetch.FetchPartition(
        partition=changes.pop("partition", 0),
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=changes.pop("last_fetched_epoch", 0),
        partition_max_bytes=1 << 20,
        replica_directory_id=DISK,
    )
    topic = fetch.FetchTopic(topic=METADATA, topic_id=changes.pop("topic_id", ONE_UUID), partitions=[partition])
    state = fetch.ReplicaState(replica_id=UNKNOWN_ID)
    whole = {"cluster_id": None, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "replica_state": state}
    return fetch.FetchRequest(topics=[topic], **{**whole, **changes})


def snapshot_of(
    epoch: int, end_offset: int, snapshot_epoch: int, **changes: Any
) -> fetch_snapshot.FetchSnapshotRequest:
    """An observer asks for a part of a snapshot."""
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.FetchSnapshotRequestSnapshotId(end_offset=end_offset, epoch=snapshot_epoch),
        position=changes.pop("position", 0),
        replica_directory_id=DISK,
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(
        name=changes.pop("topic", METADATA), partitions=[partition]
    )
    return fetch_snapshot.FetchSnapshotRequest(
        topics=[topic], **{"cluster_id": None, "replica_id": UNKNOWN_ID, "max_bytes": 1000, **changes}
    )


def addition_of(voter_id: int, listener: str = "CONTROLLER", **changes: Any) -> add_raft_voter.AddRaftVoterRequest:
    """Somebody wants another voter."""
    here = add_raft_voter.Listener(name=listener, host="127.0.0.1", port=1)
    whole = {"cluster_id": None, "timeout_ms": 1000, "voter_directory_id": DISK, "listeners": [here], **changes}
    return add_raft_voter.AddRaftVoterRequest(voter_id=voter_id, **whole)


def removal_of(voter_id: int, directory_id: bytes = DISK, **changes: Any) -> remove_raft_voter.RemoveRaftVoterRequest:
    """Somebody wants a voter to go."""
    return remove_raft_voter.RemoveRaftVoterRequest(
        voter_id=voter_id, voter_directory_id=directory_id, **{"cluster_id": None, **changes}
    )


def update_of(epoch: int, voter_id: int, **changes: Any) -> update_raft_voter.UpdateRaftVoterRequest:
    """A voter says where it is."""
    whole = {
        "cluster_id": None,
        "voter_directory_id": DISK,
        "listeners": [update_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
        "kraft_version_feature": update_raft_voter.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
        **changes,
    }
    return update_raft_voter.UpdateRaftVoterRequest(current_leader_epoch=epoch, voter_id=voter_id, **whole)


def plausible_quorum() -> dict[int, Any]:
    """By API key; nothing that these ask for changes a quorum."""
    return {
        api.ADD_RAFT_VOTER: addition_of(1),
        api.REMOVE_RAFT_VOTER: removal_of(UNKNOWN_ID),
        api.VOTE: vote_of(0),
        api.BEGIN_QUORUM_EPOCH: begin_of(0, UNKNOWN_ID),
        api.END_QUORUM_EPOCH: end_of(0, UNKNOWN_ID),
        api.FETCH: fetch_of(0),
        api.FETCH_SNAPSHOT: snapshot_of(0, 0, 0),
        api.UPDATE_RAFT_VOTER: update_of(0, UNKNOWN_ID),
    }
