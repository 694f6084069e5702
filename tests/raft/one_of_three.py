"""Node 1 of three, as the step-by-step tests of its turns play it: what it sends and answers, and its way to lead."""

from collections.abc import Sequence

from kpybroker.machines.raft.events import Answer, Answered, ElectionPersisted, Send, Tick
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import Known, OffsetAndEpoch, Response, VoteResponse
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import ElectionState
from kpybroker.machines.raft.timing import DEFAULT_TIMING
from kpybroker.machines.raft.voters import Voter, VoterHistory, voter_set
from kpystorage.leader_epochs import LeaderEpochs
from kpywire.record import Record, build_batch

DISK = {number: bytes([number]) * 16 for number in range(1, 10)}
VOTERS = [Voter(number, DISK[number]) for number in (1, 2, 3)]
NEW, LED = ElectionState(4), ElectionState(4, leader_id=2)
ELECTION_MS, FETCH_MS = DEFAULT_TIMING.election_timeout_ms, DEFAULT_TIMING.fetch_timeout_ms
DRAWN_MS = ELECTION_MS // 2
"""The nodes of these tests draw the middle of every range."""
SNAPSHOT = OffsetAndEpoch(50, 4)


def in_the_log(voters: Sequence[Voter] = VOTERS, offset: int = 2) -> VoterHistory:
    history = VoterHistory()
    history.add_kraft_version(offset, 1)
    history.add_voters(offset, voter_set(voters))
    return history


def node(election: ElectionState = NEW, history: VoterHistory | None = None, *, may_vote: bool = True) -> Quorum:
    """Node 1 with a log that ends at offset 20 of epoch 3, started at 0."""
    log = LogView(20, LeaderEpochs([(3, 0)]), synced_offset=20)
    known = in_the_log() if history is None else history
    quorum = Quorum(VOTERS[0], known, election, log, bootstrap=[-2], may_vote=may_vote)
    quorum.start(0)
    return quorum


def sent(quorum: Quorum, now_ms: float = 0) -> list[Send]:
    """The requests that leave now; what has to be saved first is."""
    found: list[Send] = []
    while (ready := quorum.ready()) is not None:
        found += [each for each in ready.outgoing if isinstance(each, Send)]
        if ready.election is not None:
            quorum.step(ElectionPersisted(ready.election), now_ms)
    return found


def answers(quorum: Quorum) -> dict[str, Response]:
    found: dict[str, Response] = {}
    while (ready := quorum.ready()) is not None:
        found |= {each.ticket: each.response for each in ready.outgoing if isinstance(each, Answer)}
        if ready.election is not None:
            quorum.step(ElectionPersisted(ready.election), 0)
    return found


def grant(quorum: Quorum, send: Send, now_ms: float, *, granted: bool = True, epoch: int | None = None) -> None:
    known = Known(quorum.epoch if epoch is None else epoch)
    quorum.step(Answered(send.node_id, send.request, VoteResponse(known, granted)), now_ms)


def prospective(history: VoterHistory | None = None) -> tuple[Quorum, list[Send], float]:
    quorum = node(history=history)
    now_ms = quorum.deadline_ms
    quorum.step(Tick(), now_ms)
    return quorum, sent(quorum, now_ms), now_ms


def candidate(history: VoterHistory | None = None) -> tuple[Quorum, list[Send], float]:
    quorum, asked, now_ms = prospective(history)
    grant(quorum, asked[0], now_ms)
    return quorum, sent(quorum, now_ms), now_ms


def leader(history: VoterHistory | None = None) -> tuple[Quorum, list[Send], float]:
    quorum, asked, now_ms = candidate(history)
    grant(quorum, asked[0], now_ms)
    return quorum, sent(quorum, now_ms), now_ms


def batch(base_offset: int, count: int = 1, epoch: int = 4) -> bytes:
    records = [Record(timestamp=0, value=b"r") for _ in range(count)]
    return bytes(build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch))
