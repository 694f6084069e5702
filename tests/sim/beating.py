"""Members of a group of the consumer protocol (KIP-848): they send heartbeats, give up partitions, and take others.

Their work is that of `grouping`. What a member owns are partitions here, and tasks in `streaming`.

Some are static: they go away and come back under another id. A member that is not answered sends everything again. Some
send heartbeats that say nothing while they give up partitions. Some take so long to commit that their sessions end
meanwhile. Others commit for a partition that they have given up, at the epoch in which they had it.

Invariants: a partition is not given to a member while another has it whose session cannot have ended; a member that has
lost a partition does not commit what it read of it.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from kpywire import error_codes
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from kpywire.messages.offset_fetch import OffsetFetchRequest
from kpywire.uuid import to_string

from .client import Client, NoAnswer, Refused
from .consuming import READ_COMMITTED, Reader
from .grouping import NAME, Group, Member, Place
from .producing import Identity

if TYPE_CHECKING:
    from .world import World

SESSION_MS = 1_500
SURE_MS = SESSION_MS / 3
"""A session does not end so soon after a heartbeat that was accepted, on whatever node that was."""
BEAT_MS = 100.0
GIVING_UP_MS = 300
"""The longest time that a member takes to give up partitions. The others send heartbeats meanwhile."""
BEATS_MEANWHILE = 0.3
"""How often a member sends a heartbeat itself meanwhile."""
REBALANCE_MS = 20_000
LATE_SHARE = 0.03
"""How often a member takes longer than its session lasts before it commits a transaction."""
OLD_SHARE = 0.3
"""How often a member commits for something that it has given up."""
LATE_MS = 500
"""The longest time that it takes after the end of the session. The transaction is still open then."""
JOINING, LEAVING, AWAY = 0, -1, -2
ENDED = (error_codes.UNKNOWN_MEMBER_ID, error_codes.FENCED_MEMBER_EPOCH, error_codes.GROUP_ID_NOT_FOUND)


class Life:
    """The time of a member from its joining to its end."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.heard_ms = 0.0
        """The time at which its last heartbeat that was accepted was sent."""
        self.heard_by = 0
        """The node that accepted it."""


class Owners:
    """The partitions or tasks that members have, as the members know it."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.owners: dict[Place, Life] = {}

    def take(self, place: Place, life: Life) -> None:
        """A member was given something."""
        owner = self.owners.get(place)
        if owner is not None and owner is not life:
            silent_ms = self.world.now_ms - owner.heard_ms
            if silent_ms < SURE_MS and owner.heard_by == life.heard_by:
                self.world.violated(
                    f"{place} was given to {life.member_id} while {owner.member_id} had it, whose heartbeat n"
                    f"{owner.heard_by} had accepted {silent_ms:.0f} ms before"
                )
        self.owners[place] = life

    def has_another(self, place: Place, life: Life) -> bool:
        """Whether another member has something."""
        return self.owners.get(place, life) is not life

    def give_up(self, place: Place, life: Life) -> None:
        """A member has given up something."""
        if self.owners.get(place) is life:
            del self.owners[place]

    def end(self, life: Life) -> None:
        """A member has given up everything."""
        for place in [place for place, owner in self.owners.items() if owner is life]:
            del self.owners[place]


class BeatingMember(Member):
    """One member after the other, on one client."""

    may_be_static = True

    def __init__(self, client: Client, group: Group, owners: Owners, *, exactly: bool) -> None:
        super().__init__(client, group, exactly=exactly)
        self._owners = owners
        self._life = Life("")
        self._instance_id: str | None = None
        self._given: set[Place] = set()
        """The partitions or tasks that the coordinator assigned last."""
        self._owned: set[Place] = set()
        self._lost: dict[Place, int] = {}
        """The partitions or tasks that it has given up, and the epoch in which it had each."""
        self._is_complete = True
        """Whether the next heartbeat says everything."""
        self._next_ms = 0.0

    @property
    def life(self) -> Life:
        """The member that there is now, or was last."""
        return self._life

    # Membership

    async def _join(self) -> list[Place] | None:
        if not self._id:
            self._begin(to_string(self.client.rng.randbytes(16)))
            self._instance_id = self.client.name if self.may_be_static and self.client.rng.random() < 0.3 else None
        if self._generation == JOINING:
            await self._beat()
        return []

    def _begin(self, member_id: str) -> None:
        """Be a member that has not joined yet."""
        self._owners.end(self._life)
        self._life = Life(member_id)
        self._id, self._generation, self._is_complete = member_id, JOINING, True
        self._given, self._owned, self._lost = set(), set(), {}

    async def _beat(self) -> None:
        """Send a heartbeat, and take its answer. Raises as asking does."""
        joins, tells_all, sent_ms = self._generation == JOINING, self._is_complete, self.client.world.now_ms
        self._is_complete, self._next_ms = True, sent_ms + BEAT_MS
        answer = await self._ask(await self._heartbeat(tells_all=tells_all))
        if answer.error_code in ENDED:
            self._begin(self._id)
            return
        if answer.error_code:
            self._coordinator = None
            raise Refused(answer.error_code, NAME)
        if answer.member_epoch < self._generation:
            self.client.world.violated(f"{self._id} was at epoch {self._generation}, now {answer.member_epoch}")
        self._generation, self._is_complete = answer.member_epoch, False
        self._life.heard_ms, self._life.heard_by = sent_ms, self._coordinator or 0
        given = self._given_by(answer)
        if given is not None:
            self._given = given
        elif joins:
            self.client.world.violated(f"{self._id} joined, and nobody says what it has")

    async def _heartbeat(self, *, tells_all: bool) -> Any:
        """The next heartbeat. Raises as asking does."""
        return ConsumerGroupHeartbeatRequest(
            group_id=NAME,
            member_id=self._id,
            member_epoch=self._generation,
            instance_id=self._instance_id,
            rebalance_timeout_ms=REBALANCE_MS if tells_all else -1,
            subscribed_topic_names=sorted({topic for topic, _ in self.group.places}) if tells_all else None,
            topic_partitions=await self._listed() if tells_all else None,
        )

    def _given_by(self, answer: Any) -> set[Place] | None:
        """The partitions that an answer assigns; None if it says nothing about them."""
        if answer.assignment is None:
            return None
        ids = {topic.id: name for name, topic in self.client.topics.items()}
        return {
            (ids[each.topic_id], index)
            for each in answer.assignment.topic_partitions
            for index in each.partitions
            if each.topic_id in ids
        }

    async def _listed(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        """The partitions that it has."""
        for topic, partition in self.group.places:
            await self.client.leader(topic, partition)
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=self.client.topics[name].id,
                partitions=sorted(index for topic, index in self._owned if topic == name),
            )
            for name in sorted({topic for topic, _ in self._owned})
        ]

    async def _leave(self) -> None:
        request = self._departure()
        self._owners.end(self._life)
        self._id = ""
        try:
            await self._ask(request)
        except (NoAnswer, Refused):
            return

    def _departure(self) -> Any:
        """The heartbeat of a member that leaves."""
        goes_away = self._instance_id is not None and self.client.rng.random() < 0.7
        return ConsumerGroupHeartbeatRequest(
            group_id=NAME,
            member_id=self._id,
            member_epoch=AWAY if goes_away else LEAVING,
            instance_id=self._instance_id,
        )

    # Work

    async def _serve(self, assigned: list[Place]) -> None:
        """Work until the membership ends. Raises as asking does."""
        client = self.client
        reader = Reader(client, assigned, in_session=client.rng.random() < 0.5, level=READ_COMMITTED)
        while not self._is_over and self._generation > JOINING:
            if client.world.now_ms >= self._next_ms:
                await self._beat()
            await self._follow(reader)
            if self._generation == JOINING or not reader.positions:
                await client.pause(BEAT_MS)
                continue
            before = dict(reader.positions)
            seen = await reader.poll()
            moved = {place: offset for place, offset in reader.positions.items() if offset != before[place]}
            self._epochs.update(reader.epochs)
            work = self._in_a_transaction if self.exactly else self._and_commit
            if moved and not await work(seen, moved):
                await self._leave()
                return

    async def _follow(self, reader: Reader) -> None:
        """Give up what is no longer assigned, then take what is new. Raises as asking does."""
        while self._owned - self._given:
            await self.client.pause(GIVING_UP_MS)
            if self.client.rng.random() < BEATS_MEANWHILE:
                await self._beat()
                await self.client.pause(GIVING_UP_MS)
            for each in sorted(self._owned - self._given):
                self._give_up(each)
                reader.positions.pop(self._input_of(each), None)
            self._is_complete = True
            await self._beat()
        for each in sorted(self._given - self._owned):
            self._take(each)
            self._is_complete = True
        places = {self._input_of(each) for each in self._owned}
        missing = sorted(place for place in places if place is not None and place not in reader.positions)
        if missing:
            reader.positions.update(await self.positions(missing) or {})

    def _take(self, each: Place) -> None:
        """Own something from now on."""
        self._owners.take(each, self._life)
        self._owned.add(each)
        self._lost.pop(each, None)

    def _give_up(self, each: Place) -> None:
        """Own something no more."""
        self._owned.discard(each)
        self._owners.give_up(each, self._life)
        self._lost[each] = self._generation

    def _input_of(self, each: Place) -> Place | None:
        """The partition that an owner of this reads; None if there is none."""
        return each

    async def _commit_in_transaction(self, name: str, identity: Identity, moved: dict[Place, int]) -> None:
        if self.client.rng.random() < LATE_SHARE:
            await asyncio.sleep(SESSION_MS / 1000.0)
            await self.client.pause(LATE_MS)
        await self._commit_for_lost(name, identity)
        lost = [each for each in sorted(self._owned) if self._owners.has_another(each, self._life)]
        await super()._commit_in_transaction(name, identity, moved)
        for each in lost:
            if self._input_of(each) in moved:
                self.client.world.violated(f"{self._id} commits what it read for {each}, which another member has")

    async def _commit_for_lost(self, name: str, identity: Identity) -> None:
        """Commit at an old epoch for what another member has, now and then. Raises as asking does."""
        for each, epoch in sorted(self._lost.items()):
            place = self._input_of(each)
            if place is None or epoch >= self._generation or not self._owners.has_another(each, self._life):
                continue
            if self.client.rng.random() < OLD_SHARE:
                answer = await self._ask(await self._commit_request(name, identity, {place: 0}, epoch))
                if answer.topics[0].partitions[0].error_code == error_codes.NONE:
                    what = f"for {each}, which another member has, at its old epoch {epoch}"
                    self.client.world.violated(f"{self._id} commits {what}")

    async def commit_when_gone(self) -> None:
        """Commit in a transaction as a member that does not know that it is gone: it is refused."""
        name = f"tx-{self.client.name}"
        while True:
            try:
                identity = await self._producer._new_identity(name)
                if identity is not None:
                    places = {self.group.places[0]: 0}
                    request = await self._commit_request(name, identity, places, self._generation)
                    request.member_id = self._life.member_id
                    answer = await self._ask(request)
                    break
            except (NoAnswer, Refused):
                self._coordinator = None
            await self.client.pause(100)
        if answer.topics[0].partitions[0].error_code == error_codes.NONE:
            self.client.world.violated(f"{self._life.member_id} commits, and is no member any more")

    async def _fetch_request(self, places: list[Place]) -> OffsetFetchRequest:
        request = await super()._fetch_request(places)
        request.groups[0].member_id, request.groups[0].member_epoch = self._id, self._generation
        return request
