"""A node's own view of the quorum and of its place in it, leader or not (KIP-595's raft-metrics). Pure."""

from typing import NamedTuple

from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import NO_NODE, Candidate, Follower, Leader, Prospective

UNKNOWN_OFFSET = -1


class LocalState(NamedTuple):
    """The state of the quorum for metrics. ``leader_id`` and ``voted_id`` are -1 for no node, ``high_watermark`` is -1
    if unknown."""

    role: str
    """The role's name in Kafka's metrics."""
    leader_id: int
    epoch: int
    voted_id: int
    high_watermark: int
    next_offset: int
    early_fencings: int = 0
    """The brokers that this node's controller fenced before their sessions ended."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the quorum."""
        return self.role == "leader"


def local_state(quorum: Quorum) -> LocalState:
    """The state of this node's quorum now."""
    known = quorum.high_watermark
    votes_for_itself = isinstance(quorum.role, Leader | Candidate)
    return LocalState(
        _role(quorum),
        quorum.leader_id,
        quorum.epoch,
        quorum.local.id if votes_for_itself else quorum.role.election.voted_id,
        UNKNOWN_OFFSET if known is None else known,
        quorum.next_offset,
    )


def _role(quorum: Quorum) -> str:
    role = quorum.role
    has_voted = role.election.voted_id != NO_NODE
    match role:
        case Leader():
            return "leader"
        case Candidate():
            return "candidate"
        case Prospective():
            return "prospective-voted" if has_voted else "prospective"
        case Follower():
            return "follower" if quorum.is_voter else "observer"
    return "unattached-voted" if has_voted else "unattached"
