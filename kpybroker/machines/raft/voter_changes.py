"""Voters added, removed and moved while the quorum runs (KIP-853): the leader's decision on such a request. Pure.

Invariant: one change at a time, and none before the last one and a record of the leader's own epoch are committed. So
any majority of the old voters meets any majority of the new ones.
"""

from typing import NamedTuple

from kpybroker.machines.raft.leading import caught_up
from kpybroker.machines.raft.messages import AddVoter, RemoveVoter, ReplicaKey, UpdateVoter
from kpybroker.machines.raft.roles import Leader
from kpybroker.machines.raft.voters import Voter, VoterHistory, Voters, voter_set
from kpywire import error_codes, uuid

KRAFT_VERSION = "kraft.version"
RECONFIGURABLE_FROM = 1
ANOTHER_IS_PENDING = "Request timed out waiting for leader to handle previous voter change request"
NOTHING_IS_COMMITTED = "Request timed out waiting for leader to establish HWM and fence previous voter changes"

VoterChange = AddVoter | RemoveVoter | UpdateVoter


class VotersRefusal(NamedTuple):
    """The reason why the voters stay as they are."""

    error_code: int
    message: str | None = None


def refusal(leader: Leader, history: VoterHistory, change: VoterChange) -> VotersRefusal | None:
    """The error of a change, before the new voter is contacted; None if there is none."""
    voters = _changed(leader, history, change)
    return voters if isinstance(voters, VotersRefusal) else None


def changed(leader: Leader, history: VoterHistory, change: VoterChange, now_ms: float) -> Voters | VotersRefusal:
    """The voters after a change (Kafka's AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler), or the refusal.

    An update that reports what is already known returns the same voters.
    """
    voters = _changed(leader, history, change)
    if isinstance(change, AddVoter) and not isinstance(voters, VotersRefusal):
        key = ReplicaKey(change.voter.id, change.voter.directory_id)
        if not caught_up(leader, key, now_ms):
            message = f"Aborted add voter operation for {_named(key)} since it is lagging behind"
            return VotersRefusal(error_codes.REQUEST_TIMED_OUT, message)
    return voters


def _changed(leader: Leader, history: VoterHistory, change: VoterChange) -> Voters | VotersRefusal:
    if leader.change is not None:
        return VotersRefusal(error_codes.REQUEST_TIMED_OUT, ANOTHER_IS_PENDING)
    if leader.high_watermark is None:
        return VotersRefusal(error_codes.REQUEST_TIMED_OUT, NOTHING_IS_COMMITTED)
    if isinstance(change, UpdateVoter) and history.kraft_version < RECONFIGURABLE_FROM:
        known = change.voter.id in history.voters
        return history.voters if known else VotersRefusal(error_codes.VOTER_NOT_FOUND)
    if history.kraft_version < RECONFIGURABLE_FROM:
        doing = "adding" if isinstance(change, AddVoter) else "removing"
        message = (
            f"Cluster doesn't support {doing} voter because the {KRAFT_VERSION} feature is {history.kraft_version}"
        )
        return VotersRefusal(error_codes.UNSUPPORTED_VERSION, message)
    offset = history.voters_offset
    if offset is None or offset >= leader.high_watermark:
        message = (
            f"Request timed out waiting for voters to commit the latest voter change at {offset} with HWM "
            f"{leader.high_watermark}"
        )
        return VotersRefusal(error_codes.REQUEST_TIMED_OUT, message)
    match change:
        case AddVoter():
            return _added(history, change.voter)
        case RemoveVoter():
            return _removed(history.voters, change.replica)
    return _updated(history, change.voter)


def _added(history: VoterHistory, voter: Voter) -> Voters | VotersRefusal:
    voters, key = history.voters, ReplicaKey(voter.id, voter.directory_id)
    if voter.id in voters:
        message = f"The voter id for {_named(key)} is already part of the set of voters {_all_named(voters)}."
        return VotersRefusal(error_codes.DUPLICATE_VOTER, message)
    lowest, highest = voter.kraft_versions
    if not lowest <= history.kraft_version <= highest:
        message = (
            f"Aborted add voter operation for {_named(key)} since the {KRAFT_VERSION} range (min: {lowest}, max: "
            f"{highest} doesn't support the finalized version {history.kraft_version}"
        )
        return VotersRefusal(error_codes.INVALID_REQUEST, message)
    return voter_set([*voters.values(), voter])


def _removed(voters: Voters, replica: ReplicaKey) -> Voters | VotersRefusal:
    known = voters.get(replica.id)
    if known is None or known.directory_id != replica.directory_id or len(voters) == 1:
        message = f"Cannot remove voter {_named(replica)} from the set of voters {_all_named(voters)}"
        return VotersRefusal(error_codes.VOTER_NOT_FOUND, message)
    return voter_set(voter for voter in voters.values() if voter.id != replica.id)


def _updated(history: VoterHistory, voter: Voter) -> Voters | VotersRefusal:
    lowest, highest = voter.kraft_versions
    if not lowest <= history.kraft_version <= highest:
        return VotersRefusal(error_codes.INVALID_REQUEST)
    known = history.voters.get(voter.id)
    if known is None or known.directory_id != voter.directory_id:
        return VotersRefusal(error_codes.VOTER_NOT_FOUND)
    if known == voter:
        return history.voters
    return voter_set(voter if each.id == voter.id else each for each in history.voters.values())


def _named(replica: ReplicaKey) -> str:
    return f"ReplicaKey(id={replica.id}, directoryId={uuid.to_string(replica.directory_id)})"


def _all_named(voters: Voters) -> str:
    keys = [_named(ReplicaKey(voter.id, voter.directory_id)) for voter in voters.values()]
    return f"[{', '.join(keys)}]"
