"""Several nodes of a quorum in one thread: virtual time, a network that loses and delays, disks that forget.

Everything random comes from one seed, so a failure is repeated by its number. What the world checks after every event:
an epoch has one leader; nobody's epoch goes back, and nobody says anything that its vote on disk does not back; a high
watermark never falls; all nodes have the same records below their high watermarks, and what was committed once is
committed with the same content for ever; each node counts with the voters that its log names last, and who is not among
them leads no longer than until that is committed (KIP-853).
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple

from kpybroker.machines.raft.control_records import read_control_batch
from kpybroker.machines.raft.errors import NotLeader
from kpybroker.machines.raft.events import (
    Answer,
    Answered,
    Asked,
    ElectionPersisted,
    LogSynced,
    LogTruncated,
    Message,
    Ready,
    Send,
    Tick,
    Unanswered,
)
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import AddVoter, FetchResponse, RemoveVoter, ReplicaKey, Vote, VoteResponse
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import NEVER, NO_NODE, ElectionState
from kpybroker.machines.raft.voters import BOOTSTRAP_OFFSET, Voter, VoterHistory, Voters, voter_set
from kpystorage.leader_epochs import LeaderEpochs
from kpywire.batch import parse_header

REQUEST_TIMEOUT_MS = 2000


class Faults(NamedTuple):
    """How bad the world is. Probabilities per message or per event."""

    loss: float = 0.0
    most_delay_ms: float = 5.0
    crash: float = 0.0
    blackout: float = 0.0
    """All nodes crash at once."""
    partition: float = 0.0
    most_sync_ms: float = 4.0
    most_restart_ms: float = 3000.0
    jitter: float = 1.0
    """How much of the randomness of election timeouts there is: with little, nodes stand at the same time."""
    chunk_batches: int = 3
    """How many of them an answer takes along."""
    leaders: float = 0.0
    """How often it is the leader who crashes."""
    change: float = 0.0
    """Somebody asks the leader to take in a voter, or to let one go."""

    @classmethod
    def drawn(cls, rng: Random) -> "Faults":
        """A world of its own kind: in each some things go wrong often and others never."""
        return cls(
            loss=rng.choice((0.0, 0.02, 0.2)),
            most_delay_ms=rng.choice((2.0, 40.0, 300.0)),
            crash=rng.choice((0.0, 0.002, 0.02)),
            blackout=rng.choice((0.0, 0.001, 0.01)),
            partition=rng.choice((0.0, 0.002, 0.02)),
            most_sync_ms=rng.choice((1.0, 20.0, 300.0)),
            most_restart_ms=rng.choice((5.0, 300.0, 3000.0)),
            jitter=rng.choice((0.02, 1.0)),
            chunk_batches=rng.choice((1, 3)),
            leaders=rng.choice((0.0, 0.8)),
        )


class StoredBatch(NamedTuple):
    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


class Disk:
    """The writes of a node, and how much of them would survive a crash."""

    def __init__(self) -> None:
        self.election = ElectionState()
        self.log: list[StoredBatch] = []
        self.voters: list[tuple[int, Voters]] = []
        """The voters that batches of the log name, each with its offset."""
        self.synced_offset = 0

    @property
    def next_offset(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    def append(self, data: bytes) -> None:
        header = parse_header(data)
        assert header.base_offset == self.next_offset, "a batch leaves no gap and overwrites nothing"
        self.log.append(StoredBatch(header.base_offset, header.next_offset, header.partition_leader_epoch, data))
        if header.is_control:
            outgoing = VoterHistory()
            read_control_batch(header, data, outgoing)
            if outgoing.voters:
                self.voters.append((header.base_offset, outgoing.voters))

    def truncate_to(self, offset: int) -> None:
        while self.log and self.log[-1].next_offset > offset:
            self.log.pop()
        assert self.next_offset == offset, "logs part between batches"
        self.synced_offset = min(self.synced_offset, offset)
        self._forget_voters()

    def crash(self, rng: Random) -> None:
        """Any number of the batches that were not synced is lost, from the end."""
        unsynced = [batch for batch in self.log if batch.next_offset > self.synced_offset]
        lost = rng.randint(0, len(unsynced))
        del self.log[len(self.log) - lost :]
        self._forget_voters()

    def _forget_voters(self) -> None:
        self.voters = [entry for entry in self.voters if entry[0] < self.next_offset]


class Node:
    """One node: its part of the quorum while it runs, its disk always."""

    def __init__(self, world: "World", voter: Voter) -> None:
        self.world = world
        self.voter = voter
        self.disk = Disk()
        self.quorum: Quorum | None = None
        self.incarnation = 0
        self.busy = False
        self.flushing = False
        self.tick_ms = NEVER

    @property
    def id(self) -> int:
        return self.voter.id

    def start(self) -> None:
        epochs = LeaderEpochs()
        for batch in self.disk.log:
            epochs.assign(batch.epoch, batch.base_offset)
        log = LogView(self.disk.next_offset, epochs, synced_offset=self.disk.synced_offset)
        history = self.world.formatted()
        for batch in self.disk.log:
            header = parse_header(batch.data)
            if header.is_control:
                read_control_batch(header, batch.data, history)
        self.quorum = Quorum(self.voter, history, self.disk.election, log, draw=self.world.draw)
        self.quorum.start(self.world.now_ms)
        self.busy = self.flushing = False
        self.tick_ms = NEVER
        self.pump()
        self.flush()

    def crash(self) -> None:
        self.quorum = None
        self.incarnation += 1
        self.disk.crash(self.world.rng)

    def step(self, message: Message) -> None:
        if self.quorum is not None:
            self.quorum.step(message, self.world.now_ms)
            self.pump()

    def later(self, delay_ms: float, work: Callable[[], None]) -> None:
        """Do something then, unless this node has crashed meanwhile."""
        incarnation = self.incarnation

        def do() -> None:
            if self.incarnation == incarnation:
                work()

        self.world.later(delay_ms, do)

    def pump(self) -> None:
        assert self.quorum is not None
        if not self.busy:
            ready = self.quorum.ready()
            if ready is not None:
                self.busy = True
                self.carry_out(ready)
                return
        self.world.check(self)
        deadline_ms = self.quorum.deadline_ms
        if deadline_ms != NEVER and (self.tick_ms == NEVER or deadline_ms < self.tick_ms):
            self.tick_ms = deadline_ms
            self.later(max(deadline_ms - self.world.now_ms, 0), self.tick)

    def tick(self) -> None:
        self.tick_ms = NEVER
        self.step(Tick())

    def carry_out(self, ready: Ready) -> None:
        assert self.quorum is not None
        election = ready.election
        if election is None:
            self.write(ready)
            return
        assert not ready.outgoing, "nothing is said before the election it rests on is on disk"

        def persisted() -> None:
            self.disk.election = election
            assert self.quorum is not None
            self.quorum.step(ElectionPersisted(election), self.world.now_ms)
            self.write(ready)

        self.later(self.world.rng.uniform(0, self.world.faults.most_sync_ms), persisted)

    def write(self, ready: Ready) -> None:
        assert self.quorum is not None
        if ready.truncate_to is not None:
            self.disk.truncate_to(ready.truncate_to)
            self.quorum.step(LogTruncated(), self.world.now_ms)
        for batch in ready.batches:
            self.disk.append(batch)
        self.busy = False
        if ready.batches:
            self.flush()
        for outgoing in ready.outgoing:
            self.world.say(self, outgoing)
        self.pump()

    def flush(self) -> None:
        if self.flushing:
            return
        self.flushing = True
        end_offset = self.disk.next_offset

        def flushed() -> None:
            self.flushing = False
            self.disk.synced_offset = max(self.disk.synced_offset, min(end_offset, self.disk.next_offset))
            self.step(LogSynced(self.disk.synced_offset))
            if self.disk.synced_offset < self.disk.next_offset:
                self.flush()

        self.later(self.world.rng.uniform(0, self.world.faults.most_sync_ms), flushed)

    def read(self, offset: int) -> list[bytes]:
        return [batch.data for batch in self.disk.log if batch.base_offset >= offset][: self.world.faults.chunk_batches]


def is_backed(node: Node, outgoing: Send | Answer) -> bool:
    """Whether the vote that something rests on is on disk, or a later epoch, in which it does not count any more."""
    election = node.disk.election
    if isinstance(outgoing, Send):
        epoch, voted_id, request = outgoing.request.epoch, node.id, outgoing.request  # type: ignore[union-attr]
    else:
        epoch, request = outgoing.response.known.epoch, outgoing.ticket[1]
        voted_id = request.replica.id if isinstance(request, Vote) else NO_NODE
        if not (isinstance(outgoing.response, VoteResponse) and outgoing.response.granted):
            return election.epoch >= epoch
    if not isinstance(request, Vote) or request.pre_vote:
        return election.epoch >= epoch
    return election.epoch > epoch or (election.epoch == epoch and election.voted_id == voted_id)


class World:
    """All of them."""

    def __init__(
        self, seed: int, size: int = 3, faults: Faults | None = None, observers: int = 0, *, is_dynamic: bool = False
    ) -> None:
        """``is_dynamic``: the log says who votes (``kraft.version`` 1), and that may change."""
        self.is_dynamic = is_dynamic
        self.rng = Random(seed)
        self.faults = Faults() if faults is None else faults
        self.now_ms = 0.0
        everybody = [
            Voter(node_id, bytes([node_id] * 16)) if is_dynamic else Voter(node_id)
            for node_id in range(1, size + observers + 1)
        ]
        self.voters = everybody[:size]
        """The voters that it begins with."""
        self.nodes = [Node(self, each) for each in everybody]
        self.cut_off: set[frozenset[int]] = set()
        self.leaders: dict[int, int] = {}
        self.committed: list[tuple[int, bytes]] = []
        """(epoch, bytes) of every batch that any node knows to be committed."""
        self.acknowledged: list[int] = []
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._epochs: dict[tuple[int, int], int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._values = count()
        for node in self.nodes:
            node.start()

    def formatted(self) -> VoterHistory:
        """The voters as a node knows them before its log says anything."""
        if not self.is_dynamic:
            return VoterHistory(self.voters)
        history = VoterHistory()
        history.add_kraft_version(BOOTSTRAP_OFFSET, 1)
        history.add_voters(BOOTSTRAP_OFFSET, voter_set(self.voters))
        return history

    # Time.

    def later(self, delay_ms: float, work: Callable[[], None]) -> None:
        heappush(self._events, (self.now_ms + delay_ms, next(self._numbers), work))

    def run(self, duration_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; whether ``until`` came true."""
        end_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, work = heappop(self._events)
            work()
            self._misfortune()
            if until():
                return True
        self.now_ms = max(self.now_ms, end_ms)
        return False

    def _misfortune(self) -> None:
        if self.rng.random() < self.faults.crash:
            leader = self.leader if self.rng.random() < self.faults.leaders else None
            self.crash(leader or self.rng.choice(self.nodes))
        if self.rng.random() < self.faults.blackout:
            for node in self.nodes:
                self.crash(node)
        if self.faults.change and self.rng.random() < self.faults.change:
            self.change_voters()
        if self.rng.random() < self.faults.partition:
            if self.cut_off and self.rng.random() < 0.5:
                self.cut_off.clear()
            else:
                few = self.rng.sample(self.nodes, 2) if self.is_dynamic else [self.rng.choice(self.nodes)]
                self.cut_off |= {
                    frozenset((one.id, other.id)) for one in few for other in self.nodes if other not in few
                }

    def crash(self, node: Node) -> None:
        if node.quorum is not None:
            node.crash()
            self.later(self.rng.uniform(1, self.faults.most_restart_ms), node.start)

    def draw(self, below: int) -> int:
        return self.rng.randrange(max(int(below * self.faults.jitter), 1))

    def heal(self) -> None:
        """No more faults; nodes that are down come back."""
        self.faults = Faults()
        self.cut_off.clear()

    # The network.

    def say(self, sender: Node, outgoing: Send | Answer) -> None:
        assert is_backed(sender, outgoing), "it says what a crash would make it forget"
        if isinstance(outgoing, Answer):
            response: Any = outgoing.response
            if isinstance(outgoing.read_from, int):
                response = response._replace(batches=sender.read(outgoing.read_from))
            outgoing.ticket[0](response)
            return
        receiver = self.nodes[outgoing.node_id - 1]
        answered = [False]

        def settle(message: Message) -> None:
            if not answered[0]:
                answered[0] = True
                sender.step(message)

        def answer(response: FetchResponse) -> None:
            self._carry(receiver, sender, lambda: settle(Answered(outgoing.node_id, outgoing.request, response)))

        sender.later(REQUEST_TIMEOUT_MS, lambda: settle(Unanswered(outgoing.node_id, outgoing.request)))
        if receiver.quorum is None:
            sender.later(1, lambda: settle(Unanswered(outgoing.node_id, outgoing.request, is_gone=True)))
        else:
            self._carry(sender, receiver, lambda: receiver.step(Asked((answer, outgoing.request), outgoing.request)))

    def _carry(self, sender: Node, receiver: Node, deliver: Callable[[], None]) -> None:
        is_cut = frozenset((sender.id, receiver.id)) in self.cut_off
        if not is_cut and self.rng.random() >= self.faults.loss:
            receiver.later(self.rng.uniform(0, self.faults.most_delay_ms), deliver)

    # What clients do.

    @property
    def leader(self) -> Node | None:
        """The node that leads the newest epoch."""
        leading = [node for node in self.nodes if node.quorum is not None and node.quorum.is_leader]
        return max(leading, key=lambda node: node.quorum.epoch if node.quorum else -1, default=None)

    def append(self) -> None:
        """A record for whichever nodes think that they lead."""
        for node in self.nodes:
            if node.quorum is not None and node.quorum.is_leader:
                try:
                    node.quorum.append([b"%d" % next(self._values)] * self.rng.randint(1, 3), int(self.now_ms))
                except NotLeader:
                    continue
                node.pump()

    def change_voters(self) -> None:
        """Ask a node that thinks that it leads to take in a voter, or to let one go; no answer is waited for."""
        for node in self.nodes:
            if node.quorum is None or not node.quorum.is_leader:
                continue
            chosen, voters = self.rng.choice(self.nodes).voter, node.quorum.history.voters
            request: Any = AddVoter(chosen, 1_000, self.rng.random() < 0.5)
            if chosen.id in voters:
                request = RemoveVoter(ReplicaKey(chosen.id, chosen.directory_id), 1_000)
            if chosen.id not in voters or len(voters) > 2:
                node.step(Asked((lambda _response: None, request), request))

    # What must hold.

    def check(self, node: Node) -> None:
        quorum = node.quorum
        assert quorum is not None
        epoch_key = (node.id, node.incarnation)
        assert quorum.epoch >= self._epochs.get(epoch_key, 0), "an epoch went back"
        self._epochs[epoch_key] = quorum.epoch
        if quorum.is_leader:
            known = self.leaders.setdefault(quorum.epoch, node.id)
            assert known == node.id, f"nodes {known} and {node.id} both led epoch {quorum.epoch}"
        named = node.disk.voters[-1][1] if node.disk.voters else self.formatted().voters
        assert quorum.history.voters == named, "a node counts with other voters than its log names"
        if quorum.high_watermark is None:
            return
        if quorum.is_leader and node.id not in named:
            assert node.disk.voters[-1][0] >= quorum.high_watermark, "who was voted out, for good, leads on"
        key = (node.id, node.incarnation)
        assert quorum.high_watermark >= self._high_watermarks.get(key, 0), "a high watermark fell"
        if quorum.high_watermark > self._high_watermarks.get(key, 0):
            # Others may know of voters that came later than those who committed it.
            voters = quorum.history.voters if quorum.is_leader or not self.is_dynamic else {}
            durable = [self.nodes[each - 1].disk.synced_offset >= quorum.high_watermark for each in voters]
            assert not durable or sum(durable) > len(durable) // 2, (
                "what is called committed is not on the disks of a majority"
            )
        self._high_watermarks[key] = quorum.high_watermark
        for position, batch in enumerate(node.disk.log):
            if batch.next_offset > quorum.high_watermark:
                break
            if position < len(self.committed):
                assert self.committed[position] == (batch.epoch, batch.data), "two nodes differ in what is committed"
            else:
                self.committed.append((batch.epoch, batch.data))
