"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter as Kafka's requests and responses (KIP-853). Pure.

Not here: the checks of a request before the quorum sees it; those are in `kpybroker.hosts.quorum.voter_requests`.
"""

from typing import Any

from kpybroker.machines.raft.messages import AddVoter, Known, RemoveVoter, ReplicaKey, UpdateVoter, VoterResponse
from kpybroker.machines.raft.voters import Voter, VoterEndpoint
from kpywire import error_codes
from kpywire.messages import add_raft_voter, remove_raft_voter, update_raft_voter

REMOVAL_TIMEOUT_MS = 5_000
"""RemoveRaftVoter has no timeout of its own."""


def update_to_wire(request: UpdateVoter, cluster_id: str) -> update_raft_voter.UpdateRaftVoterRequest:
    """The request that a voter that moved sends to the leader."""
    voter = request.voter
    lowest, highest = voter.kraft_versions
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.id,
        voter_directory_id=voter.directory_id,
        listeners=[update_raft_voter.Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=lowest, max_supported_version=highest
        ),
    )


def voter_from_wire(message: Any, kraft_versions: tuple[int, int]) -> Voter:
    """The voter that AddRaftVoter or UpdateRaftVoter describes."""
    endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in message.listeners)
    return Voter(message.voter_id, message.voter_directory_id, endpoints, kraft_versions)


def change_from_wire(message: Any, kraft_versions: tuple[int, int]) -> AddVoter | RemoveVoter | UpdateVoter:
    """The change that a request asks for."""
    match message:
        case add_raft_voter.AddRaftVoterRequest():
            voter = voter_from_wire(message, kraft_versions)
            return AddVoter(voter, message.timeout_ms, message.ack_when_committed)
        case remove_raft_voter.RemoveRaftVoterRequest():
            return RemoveVoter(ReplicaKey(message.voter_id, message.voter_directory_id), REMOVAL_TIMEOUT_MS)
    return UpdateVoter(message.current_leader_epoch, voter_from_wire(message, kraft_versions))


def answer_to_wire(message: Any, response: VoterResponse, leader: VoterEndpoint | None) -> Any:
    """The response to ``message``; ``leader`` is the endpoint of the leader that the response names."""
    known = response.known
    match message:
        case add_raft_voter.AddRaftVoterRequest():
            return add_raft_voter.AddRaftVoterResponse(
                throttle_time_ms=0, error_code=known.error_code, error_message=_text(response)
            )
        case remove_raft_voter.RemoveRaftVoterRequest():
            return remove_raft_voter.RemoveRaftVoterResponse(
                throttle_time_ms=0, error_code=known.error_code, error_message=_text(response)
            )
    named = update_raft_voter.CurrentLeader(
        leader_id=known.leader_id,
        leader_epoch=known.epoch,
        host="" if leader is None else leader.host,
        port=0 if leader is None else leader.port,
    )
    return update_raft_voter.UpdateRaftVoterResponse(
        throttle_time_ms=0, error_code=known.error_code, current_leader=named
    )


def _text(response: VoterResponse) -> str | None:
    code = response.known.error_code
    return None if code == error_codes.NONE else response.message or error_codes.message(code)


def update_response_from_wire(message: update_raft_voter.UpdateRaftVoterResponse) -> VoterResponse:
    """The leader's response to a voter that moved."""
    leader = message.current_leader
    return VoterResponse(Known(leader.leader_epoch, leader.leader_id, message.error_code))
