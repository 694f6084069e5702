"""DescribeQuorum as the quorum itself answers it: only a leader tells, and each version has room for other things."""

from kpybroker.machines.raft.description import CLUSTER_METADATA, describe_quorum
from kpybroker.machines.raft.events import Asked, ElectionPersisted, LogSynced
from kpybroker.machines.raft.log_view import log_view
from kpybroker.machines.raft.messages import Fetch, ReplicaKey
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import ElectionState, Leader
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory, voter_set
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
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
    response = describe_quorum(quorum, ASKED, version, 0, NOW_MS)
    encode(response, version)
    return response


def test_only_the_leader_describes_the_quorum() -> None:
    for version in range(3):
        response = describe(new_quorum(), version)
        (partition,) = response.topics[0].partitions
        assert (response.error_code, partition.error_code) == (error_codes.NONE, error_codes.NOT_LEADER_OR_FOLLOWER)


def test_a_leader_tells_how_far_it_is_before_and_after_its_first_commit() -> None:
    quorum = new_quorum()
    quorum.start()
    vote = quorum.ready()
    assert vote is not None
    assert vote.election is not None
    quorum.step(ElectionPersisted(vote.election), 0)
    for high_watermark in (-1, 1):
        for version in range(3):
            response = describe(quorum, version)
            partition = response.topics[0].partitions[0]
            (voter,) = partition.current_voters
            assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (4, 1, high_watermark)
            assert (voter.replica_id, voter.log_end_offset, voter.last_fetch_timestamp) == (4, 1, NOW_MS)
            assert [node.node_id for node in response.nodes] == ([4] if version == 2 else [])
        quorum.step(LogSynced(1), 0)


def test_the_description_has_the_offset_of_each_replicas_last_fetch() -> None:
    voters = [ME, Voter(5, b"5" * 16), Voter(6, b"6" * 16)]
    history = VoterHistory()
    history.add_kraft_version(-1, 1)
    history.add_voters(-1, voter_set(voters))
    quorum = Quorum(ME, history, ElectionState(3, voted_id=4), log_view(7, 3))
    quorum.role = Leader(ElectionState(4, 4), 7, [4, 5], 0)
    fetches = [
        (1_000, 5, b"5" * 16, 7),
        (2_000, 5, b"5" * 16, 6),
        (2_000, 9, b"9" * 16, 3),
        (2_500, 6, b"-" * 16, 7),
    ]
    for wall_ms, replica_id, directory_id, offset in fetches:
        fetch = Fetch(4, ReplicaKey(replica_id, directory_id), offset, 3, -1)
        quorum.step(Asked(None, fetch), wall_ms, wall_ms)
    partition = describe(quorum, 2).topics[0].partitions[0]

    def seen(states: list[ReplicaState]) -> list[tuple[int, int, int, int]]:
        return [
            (each.replica_id, each.log_end_offset, each.last_fetch_timestamp, each.last_caught_up_timestamp)
            for each in states
        ]

    assert seen(partition.current_voters) == [(4, 7, NOW_MS, NOW_MS), (5, 6, 2_000, 1_000), (6, -1, -1, -1)]
    assert seen(partition.observers) == [(6, 7, 2_500, 2_500), (9, 3, 2_000, -1)], "another disk is no voter"
    assert [each.replica_directory_id for each in partition.observers] == [b"-" * 16, b"9" * 16]
    later = describe_quorum(quorum, ASKED, 2, 400_000, NOW_MS)
    assert later.topics[0].partitions[0].observers == [], "who has been silent for five minutes is gone"
