"""DescribeQuorum as the quorum itself answers it: only a leader tells, and each version has room for other things."""

from kpybroker.raft.description import CLUSTER_METADATA, describe_quorum
from kpybroker.raft.events import ElectionPersisted, LogSynced
from kpybroker.raft.log_view import log_view
from kpybroker.raft.quorum import Quorum
from kpybroker.raft.roles import ElectionState
from kpybroker.raft.voters import Voter, VoterEndpoint, VoterHistory
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)

ME = Voter(4, endpoints=(VoterEndpoint("CONTROLLER", "localhost", 9093),))
NOW_MS = 1_700_000_000_000
ASKED = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequestTopicData(
            topic_name=CLUSTER_METADATA, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
    ]
)


def new_quorum() -> Quorum:
    return Quorum(ME, VoterHistory([ME]), ElectionState(), log_view(0, -1))


def describe(quorum: Quorum, version: int) -> DescribeQuorumResponse:
    response = describe_quorum(quorum, ASKED, version, NOW_MS)
    encode(response, version)
    return response


def test_who_does_not_lead_cannot_tell() -> None:
    for version in range(3):
        response = describe(new_quorum(), version)
        assert (response.error_code, response.topics) == (error_codes.NOT_LEADER_OR_FOLLOWER, [])


def test_a_leader_tells_how_far_it_is_before_and_after_its_first_commit() -> None:
    quorum = new_quorum()
    quorum.start()
    vote = quorum.ready()
    assert vote is not None
    assert vote.election is not None
    quorum.step(ElectionPersisted(vote.election), NOW_MS)
    for high_watermark in (-1, 1):
        for version in range(3):
            response = describe(quorum, version)
            partition = response.topics[0].partitions[0]
            (voter,) = partition.current_voters
            assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (4, 1, high_watermark)
            assert (voter.replica_id, voter.log_end_offset, voter.last_fetch_timestamp) == (4, 1, NOW_MS)
            assert [node.node_id for node in response.nodes] == ([4] if version == 2 else [])
        quorum.step(LogSynced(1), NOW_MS)
