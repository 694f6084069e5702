"""Members of a share group (KIP-932): they acquire records and accept, release, reject, renew or forget them.

A member leaves, falls silent, or loses its connections, and another one follows it on the same client. Some records are
poison: every member gives them back until they are counted out. Some take long: a member renews their locks.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kpybroker.machines.share.acknowledging import ACCEPT, GAP, REJECT, RELEASE, RENEW
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages import share_acknowledge, share_fetch
from kpywire.messages.share_acknowledge import ShareAcknowledgeRequest
from kpywire.messages.share_fetch import ForgottenTopic, ShareFetchRequest
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kpywire.record import read_records
from kpywire.uuid import to_string

from .beating import BEAT_MS, ENDED, JOINING, LEAVING
from .client import GROUP, Client, NoAnswer, Refused
from .deliveries import SURE_LOCK_MS, Delivery, Spot

if TYPE_CHECKING:
    from kpybroker.requests.serving.share.led import LedSharePartition

    from .sharing import Sharing

NAME = "sharers"
TOPIC = "one"
MOST_WAIT_MS = 100
KEPT_SHARE = 0.1
"""How often a member keeps a record for now."""
LATE_SHARE = 0.05
"""How often a member takes long, perhaps longer than its locks last, and acknowledges records nevertheless."""
LATE_MS = 2_500
POISON = 17
"""One of this number of records is poison."""
SLOW = 1
"""The remainder of the records that take long."""
RENEWED_LEFT_MS = 400
"""A member renews the lock of a record that takes long when no more is left of it."""
DONE_LEFT_MS = 200
"""It accepts such a record when no more is left of the renewed lock: the first one has ended."""
LAST_EPOCH = -1
NOT_HELD = (error_codes.INVALID_RECORD_STATE, error_codes.INVALID_REQUEST)
"""The errors of a member that acknowledges what it does not have."""

Choice = dict[Spot, int]
"""The acknowledgement of each record."""


class Session:
    """A share session of a member with a node."""

    def __init__(self) -> None:
        self.epoch = 0
        self.partitions: set[int] = set()
        self.held: dict[Spot, Delivery] = {}


class ShareMember:
    """One member after the other, on one client."""

    def __init__(self, client: Client, sharing: "Sharing") -> None:
        self.client = client
        self.sharing = sharing
        self.deliveries = sharing.deliveries
        self.assigned: set[int] = set()
        self.retires = False
        """Whether it leaves, and no other member follows."""
        self._id = ""
        self._epoch = JOINING
        self._coordinator: int | None = None
        self._is_unanswered = False
        """The last heartbeat got no answer. The next one tells all, as that of Kafka's client does."""
        self._sessions: dict[int, Session] = {}
        self._next_ms = 0.0
        self._topic_id = bytes(16)

    async def come_and_go(self) -> None:
        """Members, each of which leaves after a while, dies or falls silent."""
        client, rng = self.client, self.client.rng
        while not (client.is_over or self.retires):
            self._id, self._epoch, self._next_ms = to_string(rng.randbytes(16)), JOINING, 0.0
            ends_ms = client.world.now_ms + rng.choice((500.0, 2_000.0, 8_000.0))
            while not (client.is_over or self.retires) and (client.world.now_ms < ends_ms or self.sharing.is_calm):
                try:
                    await self._work()
                except (NoAnswer, Refused):
                    client.forget()
                    self._coordinator = None
                    await client.pause(50)
            await (self._leave if self.retires else rng.choice((self._leave, self._die, self._fall_silent)))()
            self._id, self.assigned = "", set()
            await client.pause(rng.choice((10, 500)))

    @property
    def member_id(self) -> str:
        """The id of the member; empty between two members."""
        return self._id

    async def _leave(self) -> None:
        try:
            for node_id, session in list(self._sessions.items()):
                if session.epoch:
                    await self._acknowledge(node_id, session, self._choose(session), is_last=True)
            await self._ask(
                ShareGroupHeartbeatRequest(group_id=NAME, member_id=self._id, member_epoch=LEAVING, rack_id=None)
            )
        except (NoAnswer, Refused):
            self._coordinator = None
        self._sessions.clear()

    async def _die(self) -> None:
        self._sessions.clear()
        self._coordinator = None
        self.client.hang_up()

    async def _fall_silent(self) -> None:
        self._sessions.clear()

    # Membership

    async def _ask(self, request: Any) -> Any:
        """Ask the coordinator. Raises NoAnswer or Refused."""
        if self._coordinator is None:
            self._coordinator = await self.client.coordinator(NAME, GROUP)
        return await self.client.ask(self._coordinator, request)

    async def _beat(self) -> None:
        """Send a heartbeat, and take its answer. Raises as asking does."""
        self._next_ms = self.client.world.now_ms + BEAT_MS
        await self.client.leader(TOPIC, 0)
        self._topic_id = self.client.topics[TOPIC].id
        request = ShareGroupHeartbeatRequest(
            group_id=NAME,
            member_id=self._id,
            member_epoch=self._epoch,
            rack_id=None,
            subscribed_topic_names=[TOPIC] if self._epoch == JOINING or self._is_unanswered else None,
        )
        self._is_unanswered = True
        answer = await self._ask(request)
        self._is_unanswered = False
        if answer.error_code in ENDED:
            self._epoch, self.assigned, self._next_ms = JOINING, set(), 0.0
            return
        if answer.error_code:
            raise Refused(answer.error_code, NAME)
        if answer.member_epoch < self._epoch:
            self.client.world.violated(f"{self._id} was at epoch {self._epoch}, now {answer.member_epoch}")
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {index for each in answer.assignment.topic_partitions for index in each.partitions}

    # Work

    async def _work(self) -> None:
        """One round: a heartbeat if it is time, then a fetch from each leader. Raises as asking does."""
        client = self.client
        if client.world.now_ms >= self._next_ms:
            await self._beat()
        at: dict[int, set[int]] = {}
        for index in sorted(self.assigned):
            at.setdefault(await client.leader(TOPIC, index), set()).add(index)
        for node_id in sorted(self._sessions.keys() | at.keys()):
            session = self._sessions.setdefault(node_id, Session())
            if session.held and not self.sharing.is_calm and client.rng.random() < LATE_SHARE:
                await client.pause(LATE_MS)
            if not (session.epoch or node_id in at):
                continue
            choice = self._choose(session)
            if session.epoch and choice and client.rng.random() < 0.5:
                await self._acknowledge(node_id, session, choice)
                choice = {}
            if node_id in self._sessions:
                await self._fetch(node_id, session, at.get(node_id, set()), choice)
        if not at:
            await client.pause(BEAT_MS)

    def _choose(self, session: Session) -> Choice:
        """Choose what a member does with the records that it has."""
        rng, is_calm, choice = self.client.rng, self.sharing.is_calm, Choice()
        late = [spot for spot, delivery in session.held.items() if self.client.world.now_ms > delivery.until_ms]
        if late:  # one alone: where a request has others that somebody has ended, none counts
            elsewhere = [spot for spot in late if self.deliveries.is_given_again(spot, session.held[spot])]
            kept = rng.choice(elsewhere or late)
            for spot in late:
                if spot != kept or is_calm:
                    del session.held[spot]
            if not is_calm:
                return {kept: ACCEPT}
        for spot, delivery in session.held.items():
            if delivery.value is None:
                choice[spot] = GAP
            elif crc32(delivery.value.encode()) % POISON == 0:
                choice[spot] = RELEASE
            elif crc32(delivery.value.encode()) % POISON == SLOW:
                left_ms = delivery.until_ms - self.client.world.now_ms
                if left_ms <= (DONE_LEFT_MS if delivery.is_renewed else RENEWED_LEFT_MS):
                    choice[spot] = ACCEPT if delivery.is_renewed else RENEW
            elif is_calm or rng.random() > KEPT_SHARE:
                kinds = (ACCEPT,) if is_calm else (ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW)
                choice[spot] = rng.choice(kinds)
        return choice

    async def _fetch(self, node_id: int, session: Session, wanted: set[int], choice: Choice) -> None:
        """Fetch from a node, with acknowledgements if its session is open. Raises as asking does."""
        client = self.client
        topic_id = self._topic_id
        choice = {spot: kind for spot, kind in choice.items() if kind != RENEW}
        asked = (wanted - session.partitions) | {spot[1] for spot in choice}
        forgotten = sorted(session.partitions - wanted - asked)
        rng, is_calm = client.rng, self.sharing.is_calm
        request = ShareFetchRequest(
            group_id=NAME,
            member_id=self._id,
            share_session_epoch=session.epoch,
            max_wait_ms=MOST_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500 if is_calm else rng.choice((1, 10, 100)),
            batch_size=rng.choice((1, 10, 100)),
            share_acquire_mode=rng.choice((0, 1)),
            topics=[
                share_fetch.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        share_fetch.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=_batches(choice, index, share_fetch.AcknowledgementBatch),
                        )
                        for index in sorted(asked)
                    ],
                )
            ],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic_id, partitions=forgotten)] if forgotten else [],
        )
        led = {index: self.deliveries.led(node_id, topic_id, index) for index in sorted(wanted | asked)}
        sent_ms = client.world.now_ms
        answer = await self._in_session(node_id, session, request, choice)
        session.partitions = wanted | asked
        parts = [part for topic in answer.responses for part in topic.partitions]
        outcomes = {part.partition_index: part.acknowledge_error_code for part in parts}
        self._settle(node_id, session, choice, outcomes, sent_ms)
        for part in parts:
            if part.error_code:
                client.forget()
                continue
            known = self.deliveries.led(node_id, topic_id, part.partition_index)
            was_led = led.get(part.partition_index)
            self._take(session, part, known if known is not None and known is was_led else None, sent_ms)

    def _take(self, session: Session, part: Any, led: "LedSharePartition | None", sent_ms: float) -> None:
        """Take the records of a partition that were acquired."""
        data, index = bytes(part.records or b""), part.partition_index
        values: dict[int, str] = {}
        for position, header in batch_headers(data):
            if not header.is_control:
                for record in read_records(data[position : position + header.size]):
                    values[record.offset] = (record.value or b"").decode()
        for acquired in part.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                spot, value = (TOPIC, index, offset), values.get(offset)
                if value is not None:
                    self.deliveries.seen(spot, value)
                session.held[spot] = Delivery(value, acquired.delivery_count, led, sent_ms + SURE_LOCK_MS)

    async def _acknowledge(self, node_id: int, session: Session, choice: Choice, *, is_last: bool = False) -> None:
        """Acknowledge records, and end the session with it or not. Raises as asking does."""
        topic_id = self._topic_id
        batch = share_acknowledge.AcknowledgementBatch
        request = ShareAcknowledgeRequest(
            group_id=NAME,
            member_id=self._id,
            share_session_epoch=LAST_EPOCH if is_last else session.epoch,
            is_renew_ack=RENEW in choice.values(),
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=index, acknowledgement_batches=_batches(choice, index, batch)
                        )
                        for index in sorted({spot[1] for spot in choice})
                    ],
                )
            ],
        )
        sent_ms = self.client.world.now_ms
        answer = await self._in_session(node_id, session, request, choice)
        outcomes = {part.partition_index: part.error_code for topic in answer.responses for part in topic.partitions}
        self._settle(node_id, session, choice, outcomes, sent_ms)

    async def _in_session(self, node_id: int, session: Session, request: Any, choice: Choice) -> Any:
        """The answer to a request of a session, which ends if something goes wrong. Raises as asking does."""
        for spot, kind in choice.items():
            self.deliveries.sent(spot, kind)
        try:
            answer = await self.client.ask(node_id, request)
        except NoAnswer:
            self._sessions.pop(node_id, None)
            raise
        if answer.error_code:
            self._sessions.pop(node_id, None)
            for spot, kind in choice.items():
                self.deliveries.undone(spot, kind)
            raise Refused(answer.error_code, f"share session with n{node_id}")
        session.epoch += 1
        return answer

    def _settle(self, node_id: int, session: Session, choice: Choice, outcomes: dict[int, int], sent_ms: float) -> None:
        """Note the outcome of acknowledgements that were sent at a time."""
        for index in sorted({spot[1] for spot in choice}):
            had = [(spot, session.held.pop(spot)) for spot in choice if spot[1] == index]
            led = self.deliveries.led(node_id, self._topic_id, index)
            code = outcomes.get(index, error_codes.REQUEST_TIMED_OUT)
            if code in NOT_HELD:
                self.deliveries.refused(had, led)
            for spot, delivery in had:
                if code == error_codes.NONE:
                    self.deliveries.stored(spot, choice[spot], delivery, led)
                    if choice[spot] == RENEW:
                        until_ms = sent_ms + SURE_LOCK_MS if led is delivery.led else delivery.until_ms
                        session.held[spot] = delivery._replace(until_ms=until_ms, is_renewed=True)
                elif code in NOT_HELD:
                    self.deliveries.undone(spot, choice[spot])


def _batches(choice: Choice, index: int, make: Any) -> list[Any]:
    """The acknowledgements of a partition: ranges of offsets that follow each other, with one type or one for each."""
    offsets = sorted(spot[2] for spot in choice if spot[1] == index)
    runs: list[list[int]] = []
    for before, offset in pairwise([None, *offsets]):
        if runs and before is not None and offset == before + 1:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    made = []
    for run in runs:
        kinds = [choice[TOPIC, index, offset] for offset in run]
        types = kinds[:1] if len(set(kinds)) == 1 else kinds
        made.append(make(first_offset=run[0], last_offset=run[-1], acknowledge_types=types))
    return made
