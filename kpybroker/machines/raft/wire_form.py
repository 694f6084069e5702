"""The quorum's messages as Kafka's requests and responses: one topic, ``__cluster_metadata``, and its one partition.

Pure. A request for anything else, or of another cluster, is answered here; the quorum never sees it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kpybroker.machines.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Known,
    OffsetAndEpoch,
    ReplicaKey,
    Request,
    Response,
    UpdateVoter,
    Vote,
    VoteResponse,
    VoterResponse,
)
from kpybroker.machines.raft.roles import NO_NODE
from kpybroker.machines.raft.voter_wire import answer_to_wire, update_response_from_wire, update_to_wire
from kpybroker.machines.raft.voters import VoterEndpoint
from kpywire import error_codes
from kpywire.messages import begin_quorum_epoch as begin
from kpywire.messages import end_quorum_epoch as end
from kpywire.messages import fetch, fetch_snapshot, update_raft_voter
from kpywire.messages import vote as voting
from kpywire.uuid import ONE_UUID, ZERO_UUID

CLUSTER_METADATA = "__cluster_metadata"
WithEndpoints = Mapping[int, VoterEndpoint]


class RefusedRequest(NamedTuple):
    """The error of a request that does not reach the quorum; ``is_whole`` if the request is wrong as a whole."""

    error_code: int
    is_whole: bool


# Requests on their way out.


def to_wire(request: Request, cluster_id: str, endpoints: tuple[VoterEndpoint, ...]) -> Any:
    """The request of Kafka for a message of the quorum; ``endpoints`` are where this node listens, for requests that
    contain them."""
    match request:
        case Vote():
            return _vote(request, cluster_id)
        case BeginQuorumEpoch():
            return begin.BeginQuorumEpochRequest(
                cluster_id=cluster_id,
                voter_id=request.voter.id,
                topics=[
                    begin.BeginQuorumEpochRequestTopicData(
                        topic_name=CLUSTER_METADATA,
                        partitions=[
                            begin.BeginQuorumEpochRequestPartitionData(
                                partition_index=0,
                                voter_directory_id=request.voter.directory_id,
                                leader_id=request.leader_id,
                                leader_epoch=request.epoch,
                            )
                        ],
                    )
                ],
                leader_endpoints=[
                    begin.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints
                ],
            )
        case EndQuorumEpoch():
            return _end(request, cluster_id, endpoints)
        case Fetch():
            return _fetch(request, cluster_id)
        case FetchSnapshot():
            return _fetch_snapshot(request, cluster_id)
        case UpdateVoter():
            return update_to_wire(request, cluster_id)
    raise TypeError(f"no node of the quorum sends {type(request).__name__}")


def _vote(vote: Vote, cluster_id: str) -> voting.VoteRequest:
    partition = voting.VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=vote.epoch,
        replica_id=vote.replica.id,
        replica_directory_id=vote.replica.directory_id,
        voter_directory_id=vote.voter.directory_id,
        last_offset_epoch=vote.end.epoch,
        last_offset=vote.end.offset,
        pre_vote=vote.pre_vote,
    )
    topic = voting.VoteRequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    return voting.VoteRequest(cluster_id=cluster_id, voter_id=vote.voter.id, topics=[topic])


def _end(request: EndQuorumEpoch, cluster_id: str, endpoints: tuple[VoterEndpoint, ...]) -> end.EndQuorumEpochRequest:
    partition = end.EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[each.id for each in request.preferred_candidates],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.directory_id)
            for each in request.preferred_candidates
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[end.EndQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        leader_endpoints=[end.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints],
    )


def _fetch(request: Fetch, cluster_id: str) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=0,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=[fetch.FetchTopic(topic=CLUSTER_METADATA, topic_id=ONE_UUID, partitions=[partition])],
    )


def _fetch_snapshot(request: FetchSnapshot, cluster_id: str) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.FetchSnapshotRequestSnapshotId(
            end_offset=request.snapshot.offset, epoch=request.snapshot.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
    )


# Requests that came in.


def from_wire(message: Any, cluster_id: str) -> Request | RefusedRequest:
    """The message of the quorum in a request of Kafka.

    INCONSISTENT_CLUSTER_ID, or INVALID_REQUEST for a request about anything but the one partition of the metadata log.
    """
    if message.cluster_id not in (None, cluster_id):
        return RefusedRequest(error_codes.INCONSISTENT_CLUSTER_ID, is_whole=True)
    partition = _only_partition(message)
    if partition is None:
        is_snapshot = isinstance(message, fetch_snapshot.FetchSnapshotRequest)
        if is_snapshot and len(message.topics) == 1 and len(message.topics[0].partitions) == 1:
            return RefusedRequest(error_codes.UNKNOWN_TOPIC_OR_PARTITION, is_whole=False)
        return RefusedRequest(error_codes.INVALID_REQUEST, is_whole=True)
    match message:
        case voting.VoteRequest():
            return Vote(
                partition.replica_epoch,
                ReplicaKey(partition.replica_id, partition.replica_directory_id),
                OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
                partition.pre_vote,
                ReplicaKey(message.voter_id, partition.voter_directory_id),
            )
        case begin.BeginQuorumEpochRequest():
            voter = ReplicaKey(message.voter_id, partition.voter_directory_id)
            return BeginQuorumEpoch(partition.leader_epoch, partition.leader_id, voter)
        case end.EndQuorumEpochRequest():
            candidates = [
                ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates
            ]
            candidates = candidates or [ReplicaKey(each) for each in partition.preferred_successors]
            return EndQuorumEpoch(partition.leader_epoch, partition.leader_id, tuple(candidates))
        case fetch_snapshot.FetchSnapshotRequest():
            return FetchSnapshot(
                partition.current_leader_epoch,
                ReplicaKey(message.replica_id, partition.replica_directory_id),
                OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
                partition.position,
                message.max_bytes,
            )
    if partition.fetch_offset < 0 or partition.last_fetched_epoch < 0 or partition.current_leader_epoch < 0:
        return RefusedRequest(error_codes.INVALID_REQUEST, is_whole=False)
    replica_id = message.replica_state.replica_id if message.replica_state.replica_id >= 0 else message.replica_id
    return Fetch(
        partition.current_leader_epoch,
        ReplicaKey(replica_id, partition.replica_directory_id),
        partition.fetch_offset,
        partition.last_fetched_epoch,
        partition.high_watermark,
        message.max_wait_ms,
        message.max_bytes,
    )


def _only_partition(message: Any) -> Any:
    """The partition's part of a request or response; None if it contains any other partition."""
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    (topic,) = message.topics
    partition = topic.partitions[0]
    if isinstance(topic, fetch.FetchTopic):
        is_ours = topic.topic_id == ONE_UUID or (topic.topic_id == ZERO_UUID and topic.topic == CLUSTER_METADATA)
        return partition if is_ours and partition.partition == 0 else None
    if isinstance(topic, fetch_snapshot.FetchSnapshotRequestTopicSnapshot):
        return partition if topic.name == CLUSTER_METADATA and partition.partition == 0 else None
    return partition if topic.topic_name == CLUSTER_METADATA and partition.partition_index == 0 else None


# Responses on their way out.


def refusal(message: Any, refused: RefusedRequest) -> Any:
    """The response that reports the error of a request."""
    code = refused.error_code
    match message:
        case voting.VoteRequest():
            return voting.VoteResponse(error_code=code, topics=[])
        case begin.BeginQuorumEpochRequest():
            return begin.BeginQuorumEpochResponse(error_code=code, topics=[])
        case end.EndQuorumEpochRequest():
            return end.EndQuorumEpochResponse(error_code=code, topics=[])
        case fetch_snapshot.FetchSnapshotRequest():
            return _no_snapshot(message, refused)
    if refused.is_whole:
        return fetch.FetchResponse(throttle_time_ms=0, error_code=code, session_id=0, responses=[])
    return _fetch_response(FetchResponse(Known(-1, NO_NODE, code)), None, {})


def _no_snapshot(message: Any, refused: RefusedRequest) -> fetch_snapshot.FetchSnapshotResponse:
    if refused.is_whole:
        return fetch_snapshot.FetchSnapshotResponse(throttle_time_ms=0, error_code=refused.error_code, topics=[])
    (topic,) = message.topics
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=topic.partitions[0].partition,
        error_code=refused.error_code,
        snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(end_offset=0, epoch=0),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        size=0,
        position=0,
        unaligned_records=b"",
    )
    answered = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=topic.name, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(throttle_time_ms=0, error_code=error_codes.NONE, topics=[answered])


def response_to_wire(message: Any, response: Response, endpoints: WithEndpoints, records: bytes | None = None) -> Any:
    """The response of Kafka to ``message`` for a response of the quorum; ``records`` are whole batches, for a Fetch."""
    known = response.known
    if isinstance(response, VoterResponse):
        return answer_to_wire(message, response, endpoints.get(known.leader_id))
    match message:
        case voting.VoteRequest():
            granted = isinstance(response, VoteResponse) and response.granted
            vote = voting.VoteResponsePartitionData(
                partition_index=0,
                error_code=known.error_code,
                leader_id=known.leader_id,
                leader_epoch=known.epoch,
                vote_granted=granted,
            )
            return voting.VoteResponse(
                error_code=error_codes.NONE,
                topics=[voting.VoteResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[vote])],
                node_endpoints=_endpoints(voting.NodeEndpoint, known, endpoints),
            )
        case begin.BeginQuorumEpochRequest():
            return _epoch_response(begin, "BeginQuorumEpoch", known, endpoints)
        case end.EndQuorumEpochRequest():
            return _epoch_response(end, "EndQuorumEpoch", known, endpoints)
    if isinstance(response, FetchSnapshotResponse):
        return _fetch_snapshot_response(response, endpoints)
    assert isinstance(response, FetchResponse)
    return _fetch_response(response, records, endpoints)


def _epoch_response(module: Any, name: str, known: Known, endpoints: WithEndpoints) -> Any:
    partition = getattr(module, f"{name}ResponsePartitionData")(
        partition_index=0, error_code=known.error_code, leader_id=known.leader_id, leader_epoch=known.epoch
    )
    topic = getattr(module, f"{name}ResponseTopicData")(topic_name=CLUSTER_METADATA, partitions=[partition])
    return getattr(module, f"{name}Response")(
        error_code=error_codes.NONE, topics=[topic], node_endpoints=_endpoints(module.NodeEndpoint, known, endpoints)
    )


def _endpoints(endpoint_class: Any, known: Known, endpoints: WithEndpoints) -> list[Any]:
    """The leader's endpoints, for a node that does not know them."""
    found = endpoints.get(known.leader_id)
    return [] if found is None else [endpoint_class(node_id=known.leader_id, host=found.host, port=found.port)]


def _fetch_response(response: FetchResponse, records: bytes | None, endpoints: WithEndpoints) -> fetch.FetchResponse:
    known, diverging, snapshot = response.known, response.diverging, response.snapshot
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=known.error_code,
        high_watermark=response.high_watermark,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=known.leader_id, leader_epoch=known.epoch),
        aborted_transactions=None,
        records=records,
    )
    if diverging is not None:
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset)
    if snapshot is not None:
        partition.snapshot_id = fetch.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch)
    topic = fetch.FetchableTopicResponse(topic=CLUSTER_METADATA, topic_id=ONE_UUID, partitions=[partition])
    return fetch.FetchResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        session_id=0,
        responses=[topic],
        node_endpoints=[
            fetch.NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port)
            for each in _endpoints(voting.NodeEndpoint, known, endpoints)
        ],
    )


def _fetch_snapshot_response(
    response: FetchSnapshotResponse, endpoints: WithEndpoints
) -> fetch_snapshot.FetchSnapshotResponse:
    known = response.known
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=0,
        error_code=known.error_code,
        snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(
            end_offset=response.snapshot.offset, epoch=response.snapshot.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=known.leader_id, leader_epoch=known.epoch),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        topics=[topic],
        node_endpoints=_endpoints(fetch_snapshot.NodeEndpoint, known, endpoints),
    )


# Responses that came in.


def response_from_wire(message: Any) -> tuple[Response, bytes]:
    """The response of the quorum in one of Kafka, and the record batches that came with it.

    A response that is wrong as a whole has no epoch (-1).
    """
    if isinstance(message, update_raft_voter.UpdateRaftVoterResponse):
        return update_response_from_wire(message), b""
    is_fetch = isinstance(message, fetch.FetchResponse)
    topics = message.responses if is_fetch else message.topics
    if message.error_code != error_codes.NONE or len(topics) != 1 or len(topics[0].partitions) != 1:
        known = Known(-1, NO_NODE, message.error_code or error_codes.INVALID_REQUEST)
        if isinstance(message, fetch_snapshot.FetchSnapshotResponse):
            return FetchSnapshotResponse(known, OffsetAndEpoch(-1, -1)), b""
        kinds = {voting.VoteResponse: VoteResponse, fetch.FetchResponse: FetchResponse}
        return kinds.get(type(message), EpochResponse)(known), b""
    partition = topics[0].partitions[0]
    if isinstance(message, fetch_snapshot.FetchSnapshotResponse):
        return _snapshot_part(partition), b""
    if not is_fetch:
        known = Known(partition.leader_epoch, partition.leader_id, partition.error_code)
        if isinstance(message, voting.VoteResponse):
            return VoteResponse(known, partition.vote_granted), b""
        return EpochResponse(known), b""
    leader, diverging, snapshot = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    return (
        FetchResponse(
            Known(leader.leader_epoch, leader.leader_id, partition.error_code),
            partition.high_watermark,
            None if diverging.epoch < 0 else OffsetAndEpoch(diverging.end_offset, diverging.epoch),
            None if snapshot.epoch < 0 else OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        ),
        bytes(partition.records or b""),
    )


def _snapshot_part(partition: Any) -> FetchSnapshotResponse:
    leader, snapshot = partition.current_leader, partition.snapshot_id
    return FetchSnapshotResponse(
        Known(leader.leader_epoch, leader.leader_id, partition.error_code),
        OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        partition.position,
        partition.size,
        bytes(partition.unaligned_records or b""),
    )


def endpoints_in(message: Any, listener_name: str) -> dict[int, list[VoterEndpoint]]:
    """The endpoints of nodes that a request or response of the quorum contains. Those in a response have no name: they
    are of the listener that was asked, ``listener_name``."""
    if isinstance(message, begin.BeginQuorumEpochRequest | end.EndQuorumEpochRequest):
        partition = _only_partition(message)
        listeners = [VoterEndpoint(each.name, each.host, each.port) for each in message.leader_endpoints]
        return {partition.leader_id: listeners} if partition is not None and listeners else {}
    if isinstance(message, update_raft_voter.UpdateRaftVoterResponse):
        leader = message.current_leader
        return {leader.leader_id: [VoterEndpoint(listener_name, leader.host, leader.port)]} if leader.host else {}
    endpoints = getattr(message, "node_endpoints", ())
    return {each.node_id: [VoterEndpoint(listener_name, each.host, each.port)] for each in endpoints}
