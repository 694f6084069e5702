"""A voter whose log lacks records that it may have helped to commit: it is not elected, and votes for nobody who lacks
them, until it has them again.
"""

from random import Random

import pytest

from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.machines.raft.events import Answer, Asked, ElectionPersisted, Tick
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import OffsetAndEpoch, ReplicaKey, Vote, VoteResponse
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import Candidate, ElectionState, Prospective, Unattached
from kpybroker.machines.raft.voters import Voter, VoterHistory
from kpystorage.directory import LogDirectory
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire.record import Record, build_batch
from kpywire.uuid import ZERO_UUID

VOTERS = [Voter(1), Voter(2), Voter(3)]
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=100)
LOST = OffsetAndEpoch(30, 3)


def voter_that_lost(voters: list[Voter]) -> Quorum:
    """Its log ended at offset 30 of epoch 3, and ends at 10 of epoch 2 now."""
    log = LogView(10, LeaderEpochs([(2, 0)]), synced_offset=10, promised=LOST)
    quorum = Quorum(VOTERS[0], VoterHistory(voters), ElectionState(3), log)
    quorum.start(0)
    return quorum


def vote_of(quorum: Quorum, end: OffsetAndEpoch, epoch: int, *, pre_vote: bool) -> bool:
    vote = Vote(epoch, ReplicaKey(2, ZERO_UUID), end, pre_vote, ReplicaKey(1, ZERO_UUID))
    quorum.step(Asked("ticket", vote), 0)
    while (ready := quorum.ready()) is not None:
        for outgoing in ready.outgoing:
            if isinstance(outgoing, Answer) and isinstance(outgoing.response, VoteResponse):
                return outgoing.response.granted
        if ready.election is not None:
            quorum.step(ElectionPersisted(ready.election), 0)
    raise AssertionError("no answer")


@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize(
    ("end", "granted"),
    [
        (OffsetAndEpoch(20, 2), False),
        (OffsetAndEpoch(29, 3), False),
        (OffsetAndEpoch(30, 3), True),
        (OffsetAndEpoch(5, 4), True),
    ],
)
def test_a_node_that_lost_records_votes_for_no_candidate_without_them(
    end: OffsetAndEpoch, granted: bool, pre_vote: bool
) -> None:
    assert vote_of(voter_that_lost(VOTERS), end, 5, pre_vote=pre_vote) is granted


def test_a_node_that_lost_its_metadata_starts_no_election_before_it_caught_up() -> None:
    quorum = voter_that_lost(VOTERS)
    for _ in range(5):
        now_ms = quorum.deadline_ms
        quorum.step(Tick(), now_ms)
        assert isinstance(quorum.role, Unattached)
        assert quorum.deadline_ms > now_ms, "and does not ask itself again at once"
    batch = build_batch([Record(timestamp=NOW_MS, value=b"x")], base_offset=10, partition_leader_epoch=4)
    quorum.log.append(batch)
    quorum.step(Tick(), quorum.deadline_ms)
    assert isinstance(quorum.role, Prospective)


def test_the_only_voter_goes_on_with_what_there_is() -> None:
    quorum = voter_that_lost(VOTERS[:1])
    assert isinstance(quorum.role, Candidate)


def filled() -> tuple[SimDisk, list[int]]:
    """A metadata log of some segments after a clean stop; where its segments begin."""
    disk = SimDisk(Random(1))
    disk.make_directory("/data")
    disk.synchronize_directory("/")
    directory, log = opened(disk, [])
    for offset in range(30):
        value = b"%d" % offset + bytes(100)
        epoch = 2 if offset < 10 else 3
        record = Record(timestamp=NOW_MS, value=value)
        log.append([build_batch([record], base_offset=offset, partition_leader_epoch=epoch)], NOW_MS)
    bases = list(log._log.base_offsets)
    directory.close()
    return disk, bases


def opened(disk: SimDisk, lines: list[str]) -> tuple[LogDirectory, MetadataLog]:
    directory = LogDirectory("/data", disk, Random(2), lines.append, CONFIG)
    directory.open(NOW_MS)
    for _ in directory.recover():
        pass
    return directory, MetadataLog(directory, CONFIG, NOW_MS)


@pytest.mark.parametrize("end", ["clean", "died", "remounted"])
def test_the_log_is_cut_at_a_gap_however_its_writer_ended_and_says_what_was_lost(end: str) -> None:
    disk, bases = filled()
    assert len(bases) > 3
    if end != "clean":
        opened(disk, [])
    disk.file(f"/data/__cluster_metadata-0/{bases[1]:020d}.log").truncate(0)
    disk.synchronize_all("/")
    lines: list[str] = []
    disk = disk.after_remount() if end == "remounted" else disk.after_process_death()
    directory, log = opened(disk, lines)
    assert log.next_offset == bases[1]
    assert log.loss is not None
    assert (log.loss.offset, log.loss.end_offset, log.loss.last_epoch) == (bases[1], 30, 3)
    assert any(f"records from offset {bases[1]} up to {bases[2]} are missing" in line for line in lines)
    directory.close()
    _, log = opened(disk, lines)
    assert log.loss is None
    assert log.next_offset == bases[1]
