"""LeaderChangeMessage."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class Voter:
    voter_id: i32  # The ID of the voter.
    voter_directory_id: uuid = field("1+", default=ZERO_UUID)  # The directory id of the voter.


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    """Version 1 adds VoterDirectoryId (KIP-853)"""

    version: i16  # The version of the leader change message.
    leader_id: i32  # The ID of the newly elected leader.
    voters: list[Voter]  # The set of voters in the quorum for this epoch.
    granting_voters: list[Voter]  # The voters who voted for the leader at the time of election.
