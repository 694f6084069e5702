"""A client that asks for what it may not have, and knows which answers would be wrong.

It sends a batch again, leaves a gap in its sequences, goes on in an epoch that is over, writes in a transaction that
knows nothing of the partition, and claims epochs of leaders, of partitions and of the quorum, that nobody has reached.
"""

from exactly_once.history import Outcome
from kpywire import error_codes
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

from .client import Client, NoAnswer, Refused
from .layout import CONTROLLER_PORT
from .producing import ALL, UNDECIDED, Identity, Producer
from .records import Records

GAP = 1_000
NEVER_REACHED = 1_000_000
UNKNOWN_ID = 99
BEFORE_ADDING = 11
"""The last version of Produce that does not add its partitions to the transaction by itself."""
QUORUM_TOPIC = "__cluster_metadata"
QUORUM_TOPIC_ID = bytes(15) + b"\x01"


class Meddler(Producer):
    """Writes as an idempotent producer does, and meddles in between."""

    _process = ""

    def __init__(self, client: Client, records: Records, topics: dict[str, int]) -> None:
        """It takes the arguments of a producer."""
        super().__init__(client, records, topics)
        self._past: list[tuple[tuple[str, int], list[str], Identity, int]] = []
        """The last batches of those that it was before."""

    async def meddle(self) -> None:
        """For as long as the simulation goes on."""
        client, rng = self.client, self.rng
        while not client.is_over:
            identity = await self._new_identity(None)
            place = self._place()
            self._process = f"{client.name}.{identity.producer_id if identity else 0}"
            while identity is not None and not client.is_over:
                values = self._values(3)
                offset = await self._write(place, values, identity)
                if offset is None:
                    break
                if self._past and rng.random() < 0.3:
                    wrong = await self._again(*rng.choice(self._past))
                    if wrong:
                        client.world.violated(f"{client.name}: {wrong}; it is long ago")
                meddling = rng.choice(
                    (self._again, self._with_a_gap, self._later, self._ahead, self._claim, self._intrude)
                )
                wrong = await meddling(place, values, identity, offset)
                if wrong:
                    client.world.violated(f"{client.name}: {wrong}; before, {place} had {values} at {offset}")
                if meddling == self._later:
                    break
                if rng.random() < 0.2:
                    self._past.append((place, values, identity, offset))
                    break
                identity.sequences[place] = identity.sequences.get(place, 0) + len(values)
                await client.pause(rng.choice((5, 50, 500)))

    async def _write(self, place: tuple[str, int], values: list[str], identity: Identity) -> int | None:
        """Until it is known where it went; None where it never is."""
        began_s, offset, outcome = self.client.now_s, None, Outcome.UNKNOWN
        for _ in range(20):
            try:
                offset = await self._produce(place, values, ALL, identity, None)
                outcome = Outcome.COMMITTED
                break
            except NoAnswer:
                self.client.forget()
            except Refused as refused:
                if not error_codes.retriable(refused.code):
                    break
            if self.client.is_over:
                break
            await self.client.pause(100)
        self._note(self._process, began_s, outcome, place, values, offset)
        return offset

    async def _again(self, place: tuple[str, int], values: list[str], identity: Identity, offset: int) -> str:
        """The last batch of a producer is known as long as it has no other."""
        try:
            again = await self._produce(place, values, ALL, identity, None)
        except NoAnswer:
            self.client.forget()
            return ""
        except Refused as refused:
            is_unknown = refused.code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER
            return f"what is at {offset} of {place} and was sent again is not known" if is_unknown else ""
        return "" if again == offset else f"what is at {offset} of {place} and was sent again is at {again}"

    async def _with_a_gap(self, place: tuple[str, int], values: list[str], identity: Identity, _offset: int) -> str:
        other = Identity(identity.producer_id, identity.epoch)
        other.sequences[place] = identity.sequences.get(place, 0) + len(values) + GAP
        return await self._must_not(place, other, "a gap in sequences is taken")

    async def _later(self, place: tuple[str, int], values: list[str], identity: Identity, _offset: int) -> str:
        """Go on in the next epoch; the one before is over."""
        before = Identity(identity.producer_id, identity.epoch)
        before.sequences[place] = self.rng.choice((0, identity.sequences.get(place, 0) + len(values)))
        if await self._write(place, self._values(2), Identity(identity.producer_id, identity.epoch + 1)) is None:
            return ""
        return await self._must_not(place, before, "an epoch that is over is taken")

    async def _intrude(self, place: tuple[str, int], _values: list[str], _identity: Identity, _offset: int) -> str:
        """Write in a transaction that nobody has added the partition to."""
        name = f"tx-{self.client.name}"
        other = await self._new_identity(name)
        return "" if other is None else await self._must_not(place, other, "what is in no transaction is taken", name)

    async def _must_not(
        self, place: tuple[str, int], identity: Identity, wrong: str, transactional: str | None = None
    ) -> str:
        values, began_s = self._values(2), self.client.now_s
        outcome = Outcome.UNKNOWN
        try:
            offset = await self._produce(place, values, ALL, identity, transactional, BEFORE_ADDING)
            return f"{wrong}, and it is at {offset}"
        except NoAnswer:
            self.client.forget()
        except Refused as refused:
            if refused.code not in UNDECIDED:
                outcome = Outcome.ABORTED
        self._note(f"{self.client.name}.{values[0]}", began_s, outcome, place, values, None)
        return ""

    async def _ahead(self, place: tuple[str, int], _values: list[str], _identity: Identity, offset: int) -> str:
        """Fetch in a leader epoch that nobody has reached."""
        topic, partition = place
        try:
            leader = await self.client.leader(*place)
            wanted = FetchPartition(
                current_leader_epoch=NEVER_REACHED,
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=1_000,
            )
            named = FetchTopic(topic=topic, topic_id=self.client.topics[topic].id, partitions=[wanted])
            answer = await self.client.ask(leader, _fetch([named]))
        except (NoAnswer, Refused):
            self.client.forget()
            return ""
        for each in answer.responses:
            if each.partitions[0].error_code == error_codes.NONE:
                return f"n{leader} answers in leader epoch {NEVER_REACHED}"
        return ""

    async def _claim(self, _place: tuple[str, int], _values: list[str], _identity: Identity, _offset: int) -> str:
        """Fetch the metadata in an epoch of the quorum that is over, or that nobody has reached."""
        node = self.client.any_node()
        epoch = self.rng.choice((0, NEVER_REACHED))
        wanted = FetchPartition(
            current_leader_epoch=epoch, partition=0, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=1_000
        )
        request = _fetch([FetchTopic(topic=QUORUM_TOPIC, topic_id=QUORUM_TOPIC_ID, partitions=[wanted])])
        request.replica_state = ReplicaState(replica_id=UNKNOWN_ID)
        try:
            answer = await self.client.ask(node, request, port=CONTROLLER_PORT)
        except NoAnswer:
            return ""
        for each in answer.responses:
            if each.partitions[0].error_code == error_codes.NONE:
                return f"the quorum's n{node} answers in epoch {epoch}"
        return ""


def _fetch(topics: list[FetchTopic]) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1_000, isolation_level=0, session_id=0, session_epoch=-1, topics=topics
    )
