"""``kraft.version`` raised from 0 to 1 while the quorum runs: the configured voters are written into the log. Pure.

As long as the voters are those of the configuration, each reports to its leader which directory it has, where it
listens and which levels it supports (KIP-853, Kafka's ``KRaftVersionUpgrade``).

Invariant: the voters that are written are the configured ones, each with the directory that it reported.
"""

from kpybroker.machines.raft.errors import CannotUpgrade
from kpybroker.machines.raft.voter_changes import KRAFT_VERSION, RECONFIGURABLE_FROM, VotersRefusal
from kpybroker.machines.raft.voters import Voter, VoterHistory, Voters, voter_set
from kpywire import error_codes

NOTHING_KNOWN = (0, 0)
"""The levels of a voter that has not reported any."""


def known_at_first(history: VoterHistory, local: Voter) -> Voters:
    """The configured voters as a leader knows them when it begins to lead: only itself in full. Empty if the voters are
    in the log."""
    if history.kraft_version >= RECONFIGURABLE_FROM:
        return {}
    silent = [each._replace(kraft_versions=NOTHING_KNOWN) for each in history.voters.values()]
    return voter_set(local if each.id == local.id else each for each in silent)


def with_update(known: Voters, voter: Voter) -> Voters | VotersRefusal:
    """Return the voters with the report of one of them (``UpdateVoterHandler`` of ``kraft.version`` 0)."""
    lowest, highest = voter.kraft_versions
    if not lowest <= 0 <= highest:
        return VotersRefusal(error_codes.INVALID_REQUEST)
    if voter.id not in known:
        return VotersRefusal(error_codes.VOTER_NOT_FOUND)
    return voter_set(voter if each.id == voter.id else each for each in known.values())


def upgraded(history: VoterHistory, known: Voters, level: int) -> Voters | None:
    """The voters to write with a level; None if it is the present level. Raises CannotUpgrade."""
    if level == history.kraft_version:
        return None
    if any(not voter.kraft_versions[0] <= level <= voter.kraft_versions[1] for voter in known.values()):
        named = f"{KRAFT_VERSION} to KRAFT_VERSION_{level}"
        raise CannotUpgrade(f"Invalid upgrade of {named} because not all of the voters support it")
    return known
