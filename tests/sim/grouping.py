"""A group whose members come and go: they read what they are assigned, process it, and commit how far they came.

``at least``: a member commits behind what it processed. ``exactly``: what a member makes of its input and how far it
came are one transaction (KIP-447). A member whom nobody answered whether its commit counts leaves: it does not commit
again in the same generation, since what waits in a lost connection may arrive later.
"""

import json
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from exactly_once.history import Committed, Outcome, Position, Seen, Send, Transaction
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .client import GROUP, TRANSACTION, Client, NoAnswer, Refused
from .consuming import READ_COMMITTED, Reader
from .producing import Identity, Producer
from .records import Records

if TYPE_CHECKING:
    from .invariants import Invariants
    from .world import World

NAME = "workers"
SESSION_MS = 1_000
PATIENCE_MS = 6_000.0
"""The patience of a member: a join may wait for others."""
UNDECIDED = (error_codes.REQUEST_TIMED_OUT, error_codes.COORDINATOR_NOT_AVAILABLE, error_codes.NOT_COORDINATOR)

Place = tuple[str, int]


class Parting(Enum):
    """How a membership ends."""

    NONE = "does not end"
    LEAVES = "leaves"
    SILENT = "falls silent"


class Group:
    """The deeds of all members."""

    def __init__(self, world: "World", records: Records, places: Sequence[Place], output: Place) -> None:
        self.world = world
        self.records = records
        self.places = sorted(places)
        self.output = output
        self.replicas = 1
        """The replicas of a topic that the group has created."""
        self.processed: set[tuple[Place, int]] = set()
        self.commits = 0
        """How many counted."""
        self.rules: Invariants | None = None
        """They know who coordinates transactions."""
        self.is_calm = False
        """Whether members stay."""
        self.generations: dict[int, tuple[str, ...]] = {}
        """The members of each generation, as the leader heard them whose assignment counted."""

    def verdict(self, log: list[Seen], ends: dict[Place, int]) -> str:
        """The records that the group passed over; nothing if all is well. ``ends``: how far it has come."""
        done = set(self.processed)
        there = {seen.value for seen in log}
        for each in self.records.transactions:
            if each.inputs and all(send.value in there for send in each.sends):
                done |= {(seen.partition, seen.offset) for seen in each.inputs}
        for seen in log:
            if seen.offset < ends.get(seen.partition, 0) and (seen.partition, seen.offset) not in done:
                return f"{NAME} came to {ends[seen.partition]} of {seen.partition} and never saw {seen.offset}"
        return ""


class Member:
    """One member after the other, on one client."""

    def __init__(self, client: Client, group: Group, *, exactly: bool) -> None:
        self.client = client
        self.group = group
        self.exactly = exactly
        self._producer = Producer(client, group.records, {group.output[0]: 1}, group.rules)
        self._identity: Identity | None = None
        self._id = ""
        self._generation = -1
        self._coordinator: int | None = None
        self._epochs: dict[Place, int] = {}
        """The epochs in which the records it read last were written: they are committed with the positions."""
        self._ends_ms = 0.0
        self.parting = Parting.NONE
        """How its membership ends now. No other member follows until there is none any more."""

    @property
    def member_id(self) -> str:
        """The id of the member; empty between two members."""
        return self._id

    @property
    def _is_over(self) -> bool:
        if self.client.is_over or self.parting is not Parting.NONE:
            return True
        return self.client.world.now_ms >= self._ends_ms and not self.group.is_calm

    async def come_and_go(self) -> None:
        """Members, each of which leaves after a while or is never heard of again."""
        client, rng = self.client, self.client.rng
        while not client.is_over:
            self._id, self._identity = "", None
            self._ends_ms = client.world.now_ms + rng.choice((1_000.0, 4_000.0, 30_000.0))
            while not self._is_over:
                try:
                    assigned = await self._join()
                    if assigned is not None:
                        await self._serve(assigned)
                except (NoAnswer, Refused):
                    client.forget()
                    self._coordinator = None
                    await client.pause(50)
            leaves = rng.random() < 0.5 if self.parting is Parting.NONE else self.parting is Parting.LEAVES
            if leaves and self._id:
                await self._leave()
            await client.pause(rng.choice((10, 1_000)))
            while self.parting is not Parting.NONE and not client.is_over:
                self._id = ""
                await client.pause(10)

    # Membership

    async def _ask(self, request: Any) -> Any:
        """Ask the coordinator, as far as it is known. Raises NoAnswer or Refused."""
        if self._coordinator is None:
            self._coordinator = await self.client.coordinator(NAME, GROUP)
        try:
            return await self.client.ask(self._coordinator, request)
        except NoAnswer:
            self._coordinator = None
            raise

    async def _join(self) -> list[Place] | None:
        """The member's partitions in the new generation; None where it has to try again. Raises as asking does."""
        answer = await self._ask(
            JoinGroupRequest(
                group_id=NAME,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self._id,
                protocol_type="work",
                protocols=[JoinGroupRequestProtocol(name="by turns", metadata=b"")],
            )
        )
        if answer.error_code == error_codes.MEMBER_ID_REQUIRED:
            self._id = answer.member_id
            return None
        if self._is_refused(answer.error_code):
            return None
        self._id, self._generation = answer.member_id, answer.generation_id
        assignments, members = [], list[str]()
        if answer.leader == self._id:
            members = sorted(each.member_id for each in answer.members)
            places = self.group.places
            assignments = [
                SyncGroupRequestAssignment(
                    member_id=member, assignment=json.dumps(places[number :: len(members)]).encode()
                )
                for number, member in enumerate(members)
            ]
        synced = await self._ask(
            SyncGroupRequest(
                group_id=NAME,
                generation_id=self._generation,
                member_id=self._id,
                protocol_type="work",
                protocol_name="by turns",
                assignments=assignments,
            )
        )
        if self._is_refused(synced.error_code):
            return None
        if assignments:
            self._note_generation(tuple(members))
        return [(topic, index) for topic, index in json.loads(synced.assignment or b"[]")]

    def _note_generation(self, members: tuple[str, ...]) -> None:
        known = self.group.generations.setdefault(self._generation, members)
        if known != members:
            self.client.world.violated(f"generation {self._generation} of {NAME} is {known} and {members}")

    def _is_refused(self, code: int) -> bool:
        if code == error_codes.NONE:
            return False
        if code in (error_codes.UNKNOWN_MEMBER_ID, error_codes.FENCED_INSTANCE_ID):
            self._id = ""
        elif code not in (error_codes.REBALANCE_IN_PROGRESS, error_codes.ILLEGAL_GENERATION):
            raise Refused(code, NAME)
        return True

    async def _leave(self) -> None:
        member = MemberIdentity(member_id=self._id)
        self._id = ""
        try:
            await self._ask(LeaveGroupRequest(group_id=NAME, members=[member]))
        except (NoAnswer, Refused):
            return

    # Work

    async def _serve(self, assigned: list[Place]) -> None:
        """Work until another generation begins. Raises as asking does."""
        client = self.client
        positions = await self.positions(assigned) if assigned else {}
        if positions is None:
            return
        reader = Reader(client, assigned, in_session=client.rng.random() < 0.5, level=READ_COMMITTED)
        reader.positions.update(positions)
        while not self._is_over:
            before = dict(reader.positions)
            seen = await reader.poll() if assigned else []
            beat = HeartbeatRequest(group_id=NAME, generation_id=self._generation, member_id=self._id)
            if self._is_refused((await self._ask(beat)).error_code):
                return
            moved = {place: offset for place, offset in reader.positions.items() if offset != before[place]}
            self._epochs.update(reader.epochs)
            if moved:
                work = self._in_a_transaction if self.exactly else self._and_commit
                if not await work(seen, moved):
                    await self._leave()
                    return
            elif not assigned:
                await client.pause(200)

    async def positions(self, assigned: list[Place]) -> dict[Place, int] | None:
        """How far the group has come; None where that is not decided. Raises as asking does."""
        began_s = self.client.now_s
        answer = await self._ask(await self._fetch_request(assigned))
        (of_group,) = answer.groups
        if of_group.error_code:
            raise Refused(of_group.error_code, NAME)
        names = {topic.id: name for name, topic in self.client.topics.items()}
        positions: dict[Place, int] = {}
        for topic in of_group.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise Refused(each.error_code, NAME)
                place = (topic.name or names[topic.topic_id], each.partition_index)
                positions[place] = max(each.committed_offset, 0)
                if each.committed_offset >= 0:
                    self.client.heard_of(*place, each.committed_leader_epoch)
                position = Position(NAME, place, each.committed_offset)
                self.group.records.committed.append(Committed(began_s, self.client.now_s, position))
        return positions

    async def _fetch_request(self, places: list[Place]) -> OffsetFetchRequest:
        for topic, partition in places:
            await self.client.leader(topic, partition)
        topics = [
            OffsetFetchRequestTopics(
                name=name,
                topic_id=self.client.topics[name].id,
                partition_indexes=[index for topic, index in places if topic == name],
            )
            for name in sorted({topic for topic, _ in places})
        ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=NAME, topics=topics)], require_stable=True)

    async def _and_commit(self, seen: list[Seen], moved: dict[Place, int]) -> bool:
        """Process, and commit then; whether the member may go on. Raises as asking does."""
        client, group = self.client, self.group
        group.processed |= {(each.partition, each.offset) for each in seen}
        began_s = client.now_s
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(moved.items()):
            await client.leader(topic, index)
            one = OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=self._epochs.get((topic, index), -1),
                committed_metadata=None,
            )
            by_topic.setdefault(topic, []).append(one)
        request = OffsetCommitRequest(
            group_id=NAME,
            generation_id_or_member_epoch=self._generation,
            member_id=self._id,
            topics=[
                OffsetCommitRequestTopic(name=topic, topic_id=client.topics[topic].id, partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
        )
        try:
            answer = await self._ask(request)
            codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        except (NoAnswer, Refused):
            codes = {error_codes.REQUEST_TIMED_OUT}
        if codes != {error_codes.NONE}:
            self._coordinator = None
        outcome = Outcome.COMMITTED if codes == {error_codes.NONE} else Outcome.ABORTED
        if codes & set(UNDECIDED):
            outcome = Outcome.UNKNOWN
        self._note(began_s, began_s, outcome, [], [], moved)
        return outcome is Outcome.COMMITTED

    async def _in_a_transaction(self, seen: list[Seen], moved: dict[Place, int]) -> bool:
        """Make something of the input and commit both together; whether the member may go on."""
        client, name = self.client, f"tx-{self.client.name}"
        while self._identity is None:
            if self._is_over:
                return False
            self._identity = await self._producer._new_identity(name)
        identity, began_s = self._identity, client.now_s
        sends: list[Send] = []
        wants = True
        try:
            for _ in range(min(len(seen), 1)):
                await self._producer._send_in_transaction(name, identity, sends)
            await self._commit_in_transaction(name, identity, moved)
        except (NoAnswer, Refused) as error:
            client.world.tell(f"{name} {error}")
            wants = False
        ending_s = client.now_s
        outcome, self._identity = await self._producer._end(name, identity, wants)
        self._note(began_s, ending_s, outcome, sends, seen if sends else [], moved)
        return outcome is Outcome.COMMITTED

    async def _commit_in_transaction(self, name: str, identity: Identity, moved: dict[Place, int]) -> None:
        """Raises NoAnswer or Refused once it is given up."""
        for attempt in range(5):
            try:
                request = await self._commit_request(name, identity, moved, self._generation)
                if self.client.adds_partitions:
                    await self._add_group(name, identity)
                answer = await self._ask(request)
                codes = {each.error_code for topic in answer.topics for each in topic.partitions} - {error_codes.NONE}
                if not codes:
                    return
                raise Refused(min(codes), f"{name} commits offsets")
            except (NoAnswer, Refused) as error:
                self._coordinator = None
                if attempt == 4 or (isinstance(error, Refused) and not error_codes.retriable(error.code)):
                    raise
            await self.client.pause(100)

    async def _commit_request(
        self, name: str, identity: Identity, moved: dict[Place, int], generation: int
    ) -> TxnOffsetCommitRequest:
        """A request that commits positions in a transaction, as a member of a generation. It names topics by their
        ids. Raises NoAnswer or Refused if they are not known."""
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(moved.items()):
            await self.client.leader(topic, index)
            one = TxnOffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=self._epochs.get((topic, index), -1),
                committed_metadata=None,
            )
            by_topic.setdefault(topic, []).append(one)
        return TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=NAME,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=generation,
            member_id=self._id,
            topics=[
                TxnOffsetCommitRequestTopic(name=topic, topic_id=self.client.topics[topic].id, partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
        )

    async def _add_group(self, name: str, identity: Identity) -> None:
        """Raises NoAnswer or Refused."""
        request = AddOffsetsToTxnRequest(
            transactional_id=name,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=NAME,
        )
        answer = await self.client.ask(await self.client.coordinator(name, TRANSACTION), request)
        if answer.error_code:
            raise Refused(answer.error_code, f"{name} adds its group")

    def _note(
        self,
        began_s: float,
        ending_s: float,
        outcome: Outcome,
        sends: list[Send],
        inputs: list[Seen],
        moved: dict[Place, int],
    ) -> None:
        self.group.commits += outcome is Outcome.COMMITTED
        positions = tuple(Position(NAME, place, offset) for place, offset in moved.items())
        self.group.records.transactions.append(
            Transaction(
                self.client.name, began_s, ending_s, self.client.now_s, outcome, tuple(sends), tuple(inputs), positions
            )
        )
