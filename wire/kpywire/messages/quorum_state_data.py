"""QuorumStateData."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class Voter:
    voter_id: i32  # The voter id.


@message(versions="0-1", flexible="0+")
class QuorumStateData:
    cluster_id: string = field("0", default="")  # The cluster id.
    leader_id: i32 = field(default=-1)  # The leader id.
    leader_epoch: i32 = field(default=-1)  # The leader epoch.
    voted_id: i32 = field(default=-1)  # The voted id.
    voted_directory_id: uuid = field("1+", default=ZERO_UUID)  # The voted directory id.
    applied_offset: i64 = field("0", default=0)  # The applied offset.
    current_voters: list[Voter] | None = field("0", default=[])  # The current voters.
