"""The quorum as DescribeQuorum shows it (KIP-595, KIP-836): leader, voters, how far each of them is, where they listen.

Pure; what it says is what this node knows now. Only a leader can tell, and only of the metadata log.
"""

from kpybroker.raft.quorum import Quorum
from kpybroker.raft.roles import Leader
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

CLUSTER_METADATA = "__cluster_metadata"
UNKNOWN_OFFSET = -1
WITH_ADDRESSES_FROM = 2


def describe_quorum(
    quorum: Quorum, request: DescribeQuorumRequest, api_version: int, now_ms: int
) -> DescribeQuorumResponse:
    """Answer a leader's clients; NOT_LEADER_OR_FOLLOWER from any other node.

    As in Kafka, a request that asks for anything but the one partition of the metadata log gets an error for all.
    """
    if not isinstance(quorum.role, Leader):
        code = error_codes.NOT_LEADER_OR_FOLLOWER
        return DescribeQuorumResponse(error_code=code, error_message=error_codes.message(code), topics=[])
    asked = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
    if asked != [(CLUSTER_METADATA, 0)] or len(request.topics) > 1:
        return _unknown(request)
    partition = _partition(quorum, quorum.role, now_ms)
    topic = DescribeQuorumResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    response = DescribeQuorumResponse(error_code=error_codes.NONE, topics=[topic])
    if api_version >= WITH_ADDRESSES_FROM:
        voters = quorum.history.voters
        for state in partition.current_voters:
            state.replica_directory_id = voters[state.replica_id].directory_id
        response.nodes = [
            Node(
                node_id=voter.id,
                listeners=[Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
            )
            for voter in voters.values()
        ]
    return response


def _partition(quorum: Quorum, leader: Leader, now_ms: int) -> DescribeQuorumResponsePartitionData:
    known = leader.high_watermark
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=error_codes.NONE,
        leader_id=quorum.local.id,
        leader_epoch=quorum.epoch,
        high_watermark=UNKNOWN_OFFSET if known is None else known,
        current_voters=[
            ReplicaState(
                replica_id=voter.id,
                log_end_offset=quorum.next_offset if voter.id == quorum.local.id else UNKNOWN_OFFSET,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for voter in quorum.history.voters.values()
        ],
        observers=[],
    )


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
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
