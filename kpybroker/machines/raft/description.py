"""The quorum as DescribeQuorum shows it (KIP-595, KIP-836): the leader, the voters, how far each of them is, and where
they listen.

Pure: it shows what this node knows now. Only a leader can answer, and only for the metadata log.
"""

from kpybroker.machines.raft import leading
from kpybroker.machines.raft.messages import ReplicaKey
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import Leader, ReplicaProgress
from kpywire import error_codes
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from kpywire.uuid import ZERO_UUID

CLUSTER_METADATA = "__cluster_metadata"
UNKNOWN_OFFSET = -1
WITH_ADDRESSES_FROM = 2


def describe_quorum(
    quorum: Quorum, request: DescribeQuorumRequest, api_version: int, now_ms: float, wall_ms: int
) -> DescribeQuorumResponse:
    """Answer a leader's clients; on any other node the partition has NOT_LEADER_OR_FOLLOWER, as in Kafka.

    As in Kafka too, a request for anything but the one partition of the metadata log gets an error for all partitions.
    """
    asked = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
    if asked != [(CLUSTER_METADATA, 0)] or len(request.topics) > 1:
        return _refused(request, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    if not isinstance(quorum.role, Leader):
        return _refused(request, error_codes.NOT_LEADER_OR_FOLLOWER)
    partition = _partition(quorum, quorum.role, now_ms, wall_ms)
    topic = DescribeQuorumResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    response = DescribeQuorumResponse(error_code=error_codes.NONE, topics=[topic])
    if api_version < WITH_ADDRESSES_FROM:
        for state in (*partition.current_voters, *partition.observers):
            state.replica_directory_id = ZERO_UUID
    else:
        voters = quorum.history.voters
        response.nodes = [
            Node(
                node_id=voter.id,
                listeners=[Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
            )
            for voter in voters.values()
        ]
    return response


def _partition(quorum: Quorum, leader: Leader, now_ms: float, wall_ms: int) -> DescribeQuorumResponsePartitionData:
    leading.forget_silent(leader, now_ms)
    known = leader.high_watermark
    voters = quorum.history.voters.values()
    observers = [ReplicaKey(*key) for key in leader.replicas if not quorum.is_voting(ReplicaKey(*key))]
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=error_codes.NONE,
        leader_id=quorum.local.id,
        leader_epoch=quorum.epoch,
        high_watermark=UNKNOWN_OFFSET if known is None else known,
        current_voters=[
            _itself(quorum, voter.directory_id, wall_ms)
            if voter.id == quorum.local.id
            else _state(ReplicaKey(voter.id, voter.directory_id), leading.progress_of(leader, voter))
            for voter in voters
        ],
        observers=[_state(key, leader.replicas[key]) for key in sorted(observers)],
    )


def _itself(quorum: Quorum, directory_id: bytes, wall_ms: int) -> ReplicaState:
    """The state of the leader itself, which has always caught up."""
    return ReplicaState(
        replica_id=quorum.local.id,
        replica_directory_id=directory_id,
        log_end_offset=quorum.next_offset,
        last_fetch_timestamp=wall_ms,
        last_caught_up_timestamp=wall_ms,
    )


def _state(replica: ReplicaKey, progress: ReplicaProgress) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.id,
        replica_directory_id=replica.directory_id,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=progress.fetched_wall_ms,
        last_caught_up_timestamp=progress.caught_up_wall_ms,
    )


def _refused(request: DescribeQuorumRequest, code: int) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=error_codes.NONE,
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=one.partition_index,
                        error_code=code,
                        error_message=error_codes.message(code),
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=[],
                        observers=[],
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
