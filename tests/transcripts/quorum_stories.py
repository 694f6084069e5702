"""A quorum of three nodes, as stories play it: which message arrives when, and which one is lost, is an input.

Disks write at once, except those that a story calls slow.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from rendering import Changes, Input, Play, Rendering, StoryError, title

from kpybroker.machines.raft.control_records import read_control_record
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
from kpybroker.machines.raft.local_state import local_state
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import Request
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import NO_NODE, ElectionState
from kpybroker.machines.raft.voters import BOOTSTRAP_OFFSET, Voter, VoterHistory, voter_set
from kpystorage.leader_epochs import LeaderEpochs
from kpywire.batch import parse_header
from kpywire.record import read_batch

SIZE = 3
LEFT_OUT = (
    "directory_id", "voted_directory_id", "voter_directory_id", "kraft_version_feature", "version", "max_bytes",
    "max_wait_ms", "voter",
)  # fmt: skip


class StoryNode:
    """One node: its quorum and its disk."""

    def __init__(self, voter: Voter) -> None:
        self.voter = voter
        self.batches: list[bytes] = []
        self.election = ElectionState()
        self.is_slow = False
        self.unsaved: Ready | None = None
        self.quorum = self.begun([voter])

    @property
    def id(self) -> int:
        return self.voter.id

    def begun(self, voters: list[Voter]) -> Quorum:
        """The quorum of a node whose disk is empty but for the voters (``kraft.version`` 1).

        Where Kafka draws a random time, node 1 draws the shortest and node 3 the longest.
        """
        history = VoterHistory()
        history.add_kraft_version(BOOTSTRAP_OFFSET, 1)
        history.add_voters(BOOTSTRAP_OFFSET, voter_set(voters))
        log = LogView(0, LeaderEpochs(), synced_offset=0)
        return Quorum(self.voter, history, ElectionState(), log, draw=lambda below: below * self.id // (SIZE + 1))


class QuorumStory:
    """Three voters and what is underway between them, in the order in which it was sent."""

    def __init__(self) -> None:
        self.rendering = Rendering(LEFT_OUT)
        self.changes = Changes()
        self.now_ms = 0
        voters = [Voter(node_id, bytes([node_id]) * 16) for node_id in range(1, SIZE + 1)]
        self.nodes = {voter.id: StoryNode(voter) for voter in voters}
        for node in self.nodes.values():
            node.quorum = node.begun(voters)
            node.quorum.start(0)
        self.underway: dict[tuple[int, int], deque[Message]] = {
            (sender, receiver): deque() for sender in self.nodes for receiver in self.nodes if sender != receiver
        }
        self.unanswered: dict[tuple[int, int], list[Request]] = {link: [] for link in self.underway}
        self.cut_off: set[int] = set()
        self.changes.lines(self._states())

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "tick": self.tick,
            "deadlines": self.deadlines,
            "deliver": self.deliver,
            "lose": self.lose,
            "cut-off": self.cut,
            "heal": self.heal,
            "no-answer": self.no_answer,
            "append": self.append,
            "resign": self.resign,
            "slow-disk": self.slow_disk,
            "saved": self.saved,
        }

    # Inputs.

    def tick(self, given: Input) -> list[str]:
        return self._step(given, self._node(given), Tick())

    def deadlines(self, _: Input) -> list[str]:
        return [f"* node {node.id}: tick at {node.quorum.deadline_ms:.0f} ms" for node in self.nodes.values()]

    def deliver(self, given: Input) -> list[str]:
        """The oldest message of each link that is named arrives; with ``all``, all arrive until none is underway."""
        if given.words == ["all"]:
            given.all_words()
            lines = []
            while any(self.underway.values()):
                for link, queue in self.underway.items():
                    lines += self._arrive(given, link) if queue else []
            return lines
        return [line for word in given.all_words() for line in self._arrive(given, self._link(word))]

    def lose(self, given: Input) -> list[str]:
        """The oldest message of each link that is named never arrives."""
        for link in map(self._link, given.all_words()):
            self._take(given, link)
        return []

    def cut(self, given: Input) -> list[str]:
        """Lose what is underway from and to a node, and what follows, until it heals."""
        node = self._node(given)
        self.cut_off.add(node.id)
        for link, queue in self.underway.items():
            if node.id in link:
                queue.clear()
        return []

    def heal(self, given: Input) -> list[str]:
        self.cut_off.discard(self._node(given).id)
        return []

    def no_answer(self, given: Input) -> list[str]:
        """A node gives up waiting for what it asked another one."""
        lines = []
        for sender, receiver in map(self._link, given.all_words()):
            asked, self.unanswered[sender, receiver] = self.unanswered[sender, receiver], []
            for request in asked:
                lines += self._step(given, self.nodes[sender], Unanswered(receiver, request))
        return lines

    def append(self, given: Input) -> list[str]:
        node = self._node(given)
        node.quorum.append([word.encode() for word in given.all_words()], given.now_ms)
        return self._carry_out(node) + self.changes.lines(self._states())

    def resign(self, given: Input) -> list[str]:
        node = self._node(given)
        node.quorum.resign()
        return self._carry_out(node) + self.changes.lines(self._states())

    def slow_disk(self, given: Input) -> list[str]:
        self._node(given).is_slow = True
        return []

    def saved(self, given: Input) -> list[str]:
        """A slow disk is done."""
        node = self._node(given)
        node.is_slow = False
        ready, node.unsaved = node.unsaved, None
        if ready is None or ready.election is None:
            raise StoryError(f"{given.line!r}: node {node.id} has nothing to save")
        node.quorum.step(ElectionPersisted(ready.election), given.now_ms)
        return self._write(node, ready) + self._carry_out(node) + self.changes.lines(self._states())

    def _node(self, given: Input) -> StoryNode:
        return self.nodes[int(given.word())]

    def _link(self, word: str) -> tuple[int, int]:
        sender, _, receiver = word.partition("->")
        return int(sender), int(receiver)

    # What nodes do.

    def _arrive(self, given: Input, link: tuple[int, int]) -> list[str]:
        message = self._take(given, link)
        if isinstance(message, Answered):
            asked = self.unanswered[link[1], link[0]]
            asked[:] = [request for request in asked if request is not message.request]
        return self._step(given, self.nodes[link[1]], message)

    def _take(self, given: Input, link: tuple[int, int]) -> Message:
        if not self.underway[link]:
            raise StoryError(f"{given.line!r}: nothing is underway from {link[0]} to {link[1]}")
        return self.underway[link].popleft()

    def _step(self, given: Input, node: StoryNode, message: Message) -> list[str]:
        self.now_ms = given.now_ms
        node.quorum.step(message, given.now_ms)
        return self._carry_out(node) + self.changes.lines(self._states())

    def _carry_out(self, node: StoryNode) -> list[str]:
        """Do what a node asks for, in the order in which it asks."""
        lines: list[str] = []
        while node.unsaved is None and (ready := node.quorum.ready()) is not None:
            if ready.election is not None:
                lines += self.rendering.lines(f"+ node {node.id} quorum-state", ready.election)
                if node.is_slow:
                    node.unsaved = ready
                    return lines
                node.quorum.step(ElectionPersisted(ready.election), self.now_ms)
            lines += self._write(node, ready)
        return lines

    def _write(self, node: StoryNode, ready: Ready) -> list[str]:
        lines = []
        if ready.truncate_to is not None:
            while node.batches and parse_header(node.batches[-1]).base_offset >= ready.truncate_to:
                node.batches.pop()
            lines.append(f"+ node {node.id} log truncated to {ready.truncate_to}")
            node.quorum.step(LogTruncated(), self.now_ms)
        for batch in ready.batches:
            node.batches.append(batch)
            lines += self._batch_lines(f"+ node {node.id} log", batch)
        for outgoing in ready.outgoing:
            lines += self._say(node, outgoing)
        if ready.batches or ready.truncate_to is not None:
            node.quorum.step(LogSynced(node.quorum.next_offset), self.now_ms)
        return lines

    def _say(self, sender: StoryNode, outgoing: Send | Answer) -> list[str]:
        if isinstance(outgoing, Send):
            self.unanswered[sender.id, outgoing.node_id].append(outgoing.request)
            message: Message = Asked((sender.id, outgoing.request), outgoing.request)
            return self._send(
                sender.id, outgoing.node_id, f"{title(outgoing.request)}Request", outgoing.request, message
            )
        asker, request = outgoing.ticket
        response: Any = outgoing.response
        if isinstance(outgoing.read_from, int):
            kept = [each for each in sender.batches if parse_header(each).base_offset >= outgoing.read_from]
            response = response._replace(batches=kept)
        name = f"{title(request)}Response"
        return self._send(sender.id, asker, name, response, Answered(sender.id, request, response))

    def _send(self, sender: int, receiver: int, name: str, content: Any, message: Message) -> list[str]:
        head = f"= {sender}->{receiver} {name}"
        batches = getattr(content, "batches", ())
        if batches:
            headers = [parse_header(batch) for batch in batches]
            head += f" records=[{headers[0].base_offset}, {headers[-1].next_offset})"
            content = content._replace(batches=())
        lines = self.rendering.lines(head, content)
        if sender in self.cut_off or receiver in self.cut_off:
            return [f"{lines[0]} (lost)"]
        self.underway[sender, receiver].append(message)
        return lines

    def _batch_lines(self, head: str, batch: bytes) -> list[str]:
        header = parse_header(batch)
        lines = []
        for record in read_batch(batch, header):
            place = f"{head}: offset={record.offset} epoch={header.partition_leader_epoch}"
            control = read_control_record(record) if header.is_control else None
            if control is None:
                lines.append(f"{place} {self.rendering.names.render(bytes(record.value or b''))}")
            else:
                lines += self.rendering.lines(f"{place} {type(control.message).__name__}", control.message)
        return lines

    def _states(self) -> dict[Any, str]:
        states: dict[Any, str] = {}
        for node in self.nodes.values():
            state = local_state(node.quorum)
            known = {"epoch": state.epoch, "leader_id": state.leader_id, "high_watermark": state.high_watermark}
            fields = [f"{name}={value}" for name, value in known.items() if value != NO_NODE]
            states[node.id] = " ".join([f"node {node.id}: {type(node.quorum.role).__name__}", *fields])
        return states
