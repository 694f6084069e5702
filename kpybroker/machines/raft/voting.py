"""Whether a vote is granted (Kafka's EpochState.canGrantVote of each role; KIP-595, KIP-996). Pure."""

from kpybroker.machines.raft.messages import OffsetAndEpoch, Vote
from kpybroker.machines.raft.roles import NO_NODE, Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kpywire.uuid import ZERO_UUID


def would_grant(role: Role, vote: Vote, end: OffsetAndEpoch) -> bool:
    """Whether a node in ``role``, whose log ends at ``end``, grants a vote asked for in its own epoch.

    A node votes for one replica in an epoch, and only for one whose log holds everything that may be committed. The
    question before a vote has no lasting effect, but a node that follows a living leader answers it with no.
    """
    is_complete = (vote.end.epoch, vote.end.offset) >= (end.epoch, end.offset)
    match role:
        case Leader():
            return False
        case Follower():
            return vote.pre_vote and is_complete and not role.has_fetched
        case Candidate() | Resigned():
            return vote.pre_vote and is_complete
        case Unattached() | Prospective():
            return is_complete if vote.pre_vote else _grants_for_good(role, vote, is_complete=is_complete)


def _grants_for_good(role: Unattached | Prospective, vote: Vote, *, is_complete: bool) -> bool:
    election = role.election
    if election.voted_id != NO_NODE:
        same_disk = election.voted_directory_id in (ZERO_UUID, vote.replica.directory_id)
        return election.voted_id == vote.replica.id and same_disk
    return election.leader_id == NO_NODE and is_complete
