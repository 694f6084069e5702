"""Clients that write: plain, idempotent and transactional ones. What they know of each value goes into a history.

A plain producer never tries again, so its values stand once or not at all. An idempotent one tries until it knows, so
its values stand once and in order. A transactional one commits or aborts several values together.
"""

from typing import TYPE_CHECKING, Any

from exactly_once.history import Outcome, Send, Transaction
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch

from .client import TRANSACTION, TRANSACTIONS, Client, NoAnswer, Refused
from .records import Records

if TYPE_CHECKING:
    from .invariants import Invariants

ALL = -1
OF_CLIENTS = 3
"""The last version of AddPartitionsToTxn that clients speak."""
TRANSACTION_TIMEOUT_MS = 2_000
UNDECIDED = frozenset(
    {
        error_codes.REQUEST_TIMED_OUT,
        error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        error_codes.KAFKA_STORAGE_ERROR,
        error_codes.UNKNOWN_SERVER_ERROR,
        error_codes.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Errors after which a batch may be in the log all the same: the last where it was appended and its leader fell."""


class Identity:
    """A producer id with its epoch, and the next sequence number of each partition."""

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequences: dict[tuple[str, int], int] = {}
        self.added: set[tuple[str, int]] = set()
        """The partitions of the transaction, where they have to be added."""


class Producer:
    """One client that writes."""

    def __init__(
        self, client: Client, records: Records, topics: dict[str, int], rules: "Invariants | None" = None
    ) -> None:
        """``topics``: how many partitions each has. ``rules`` know who coordinates its transactions."""
        self.client = client
        self.records = records
        self.topics = topics
        self.rules = rules
        self.rng = client.rng
        self._sent = 0
        self._aborting: set[tuple[int, int]] = set()
        """The producer ids and epochs that asked for an abort."""

    def _values(self, most: int) -> list[str]:
        count = self.rng.randint(1, most)
        self._sent += count
        return [f"{self.client.name}-{number}" for number in range(self._sent - count, self._sent)]

    def _place(self) -> tuple[str, int]:
        topic = self.rng.choice(list(self.topics))
        return topic, self.rng.randrange(self.topics[topic])

    def _key(self) -> bytes | None:
        return None

    def _value(self, value: str) -> bytes | None:
        return value.encode()

    async def _produce(
        self,
        place: tuple[str, int],
        values: list[str],
        acks: int,
        identity: Identity | None,
        transactional: str | None,
        newest: int | None = None,
    ) -> int:
        """Send one batch, as a client does that knows no version above ``newest``; where it went. Raises NoAnswer or
        Refused."""
        topic, partition = place
        client = self.client
        leader = await client.leader(topic, partition)
        now_ms = client.host.now_ms()
        batch = build_batch(
            [Record(timestamp=now_ms, key=self._key(), value=self._value(value)) for value in values],
            **({} if identity is None else _of(identity, place, transactional)),
        )
        data = PartitionProduceData(index=partition, records=batch)
        found = client.topics.get(topic)
        request = ProduceRequest(
            transactional_id=transactional,
            acks=acks,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=topic, topic_id=found.id if found else bytes(16), partition_data=[data])],
        )
        if acks == 0:
            await client.tell(leader, request)
            raise NoAnswer("asked for none")
        answer = await client.ask(leader, request, newest=newest)
        (result,) = answer.responses[0].partition_responses
        if result.error_code:
            client.forget()
            raise Refused(result.error_code, f"{topic}-{partition} from n{leader}")
        return int(result.base_offset)

    async def plainly(self) -> None:
        """Write with any acks, never twice."""
        client, rng = self.client, self.rng
        while not client.is_over:
            place, values, acks = self._place(), self._values(4), rng.choice((0, 1, ALL, ALL))
            began_s, outcome, offset = client.now_s, Outcome.UNKNOWN, None
            try:
                offset = await self._produce(place, values, acks, None, None)
                if acks == ALL:
                    outcome = Outcome.COMMITTED
            except NoAnswer:
                client.forget()
            except Refused as refused:
                if refused.code not in UNDECIDED:
                    outcome = Outcome.ABORTED
            self._note(f"{client.name}.{values[0]}", began_s, outcome, place, values, offset if acks == ALL else None)
            await client.pause(rng.choice((5, 50)))

    async def idempotently(self) -> None:
        """Write until it is known."""
        client = self.client
        identity: Identity | None = None
        process = client.name
        while not client.is_over:
            if identity is None:
                identity = await self._new_identity(None)
                process = f"{client.name}.{identity.producer_id if identity else 0}"
                continue
            place, values = self._place(), self._values(4)
            began_s, outcome, offset = client.now_s, Outcome.UNKNOWN, None
            while outcome is Outcome.UNKNOWN:
                try:
                    offset = await self._produce(place, values, ALL, identity, None)
                    outcome = Outcome.COMMITTED
                except NoAnswer:
                    client.forget()
                except Refused as refused:
                    if not error_codes.retriable(refused.code):
                        self.records.world.tell(f"{client.name} {refused}")
                        identity = None
                        break
                if outcome is Outcome.UNKNOWN:
                    if client.is_over:
                        break
                    await client.pause(100)
            if identity is not None:
                identity.sequences[place] = identity.sequences.get(place, 0) + len(values)
            self._note(process, began_s, outcome, place, values, offset)
            await client.pause(20)

    async def in_transactions(self) -> None:
        """Write in transactions, and end them one way or the other."""
        client, rng = self.client, self.rng
        name = f"tx-{client.name}"
        while not client.is_over:
            identity = await self._new_identity(name)
            while identity is not None and not client.is_over:
                began_s = client.now_s
                sends: list[Send] = []
                wants = rng.random() < 0.8
                try:
                    for _ in range(rng.randint(1, 3)):
                        await self._send_in_transaction(name, identity, sends)
                except (NoAnswer, Refused) as error:
                    self.records.world.tell(f"{name} {error}")
                    wants = False
                else:
                    await self._end_as_zombie(name, identity)
                ending_s = client.now_s
                outcome, identity = await self._end(name, identity, wants)
                self.records.transactions.append(
                    Transaction(name, began_s, ending_s, client.now_s, outcome, tuple(sends))
                )
                await client.pause(20)

    async def _send_in_transaction(self, name: str, identity: Identity, sends: list[Send]) -> None:
        """One batch, tried again for a while. Raises NoAnswer or Refused."""
        place, values = self._place(), self._values(3)
        at = len(sends)
        sends += [Send(place, value) for value in values]
        for attempt in range(20):
            try:
                await self._add(name, identity, place)
                offset = await self._produce(place, values, ALL, identity, name)
            except NoAnswer:
                self.client.forget()
                if attempt == 19:
                    raise
            except Refused as refused:
                if attempt == 19 or not error_codes.retriable(refused.code):
                    raise
            else:
                for number, value in enumerate(values):
                    sends[at + number] = Send(place, value, offset + number)
                identity.sequences[place] = identity.sequences.get(place, 0) + len(values)
                return
            await self.client.pause(50)

    async def _add(self, name: str, identity: Identity, place: tuple[str, int]) -> None:
        """Add a partition to the transaction, if that is the client's work. Raises NoAnswer or Refused."""
        if not self.client.adds_partitions or place in identity.added:
            return
        topic, index = place
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        node = await self.client.coordinator(name, TRANSACTION)
        answer = await self.client.ask(node, request, newest=OF_CLIENTS)
        (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        if result.partition_error_code:
            raise Refused(result.partition_error_code, f"{name} adds {topic}-{index}")
        identity.added.add(place)

    async def _end_as_zombie(self, name: str, identity: Identity) -> None:
        """Now and then somebody of the epoch before wants to end what is open, and may not.

        A coordinator that is deposed and does not know it may remember that this epoch has aborted what it had begun.
        It says once more that this is done, and does nothing.
        """
        client = self.client
        if identity.epoch == 0 or self.rng.random() < 0.8:
            return
        try:
            node = await client.coordinator(name, TRANSACTION)
            request = EndTxnRequest(
                transactional_id=name,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch - 1,
                committed=False,
            )
            answer = await client.ask(node, request)
        except (NoAnswer, Refused):
            return
        has_aborted = client.adds_partitions and (identity.producer_id, identity.epoch - 1) in self._aborting
        if answer.error_code == error_codes.NONE and not has_aborted:
            client.world.violated(f"{name} of epoch {identity.epoch - 1} ended a transaction of {identity.epoch}")

    async def _end(self, name: str, identity: Identity, wants: bool) -> tuple[Outcome, Identity | None]:
        """End a transaction; what is known of it, and who goes on.

        Nothing follows from a commit that is acknowledged by a node that coordinates in an older epoch than the newest
        when this began. The transactions of a client that adds partitions share an epoch, and such a node may say once
        more that the one before is committed, as Kafka does (KIP-890).
        """
        client = self.client
        newest_epochs = {} if self.rules is None else self.rules.newest_epochs(TRANSACTIONS, name)
        if not wants:
            self._aborting.add((identity.producer_id, identity.epoch))
        for _ in range(40):
            try:
                node = await client.coordinator(name, TRANSACTION)
                request = EndTxnRequest(
                    transactional_id=name,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    committed=wants,
                )
                client.world.is_ending(node)
                was_old = self._coordinates_no_more(node, name, newest_epochs)
                answer = await client.ask(node, request)
                is_old = was_old or self._coordinates_no_more(node, name, newest_epochs)
            except (NoAnswer, Refused):
                await client.pause(100)
                continue
            if answer.error_code == error_codes.NONE:
                after: Identity | None = Identity(answer.producer_id, answer.producer_epoch)
                if client.adds_partitions:  # the epoch stays; what may still be under way of an abort is in no other
                    identity.added.clear()
                    after = identity if wants else None
                    if wants and is_old:
                        return Outcome.UNKNOWN, after
                return Outcome.COMMITTED if wants else Outcome.ABORTED, after
            if not error_codes.retriable(answer.error_code):
                self.records.world.tell(f"{name} cannot end: {error_codes.name(answer.error_code)}")
                return Outcome.UNKNOWN, None
            await client.pause(100)
        return Outcome.UNKNOWN, None

    def _coordinates_no_more(self, node: int, name: str, newest_epochs: dict[bytes, int]) -> bool:
        return self.rules is not None and self.rules.coordinates_no_more(node, TRANSACTIONS, name, newest_epochs)

    async def _new_identity(self, transactional_id: str | None) -> Identity | None:
        """A producer id; None if there is none to be had now."""
        client = self.client
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        try:
            node = client.any_node()
            if transactional_id is not None:
                node = await client.coordinator(transactional_id, TRANSACTION)
            answer = await client.ask(node, request)
        except (NoAnswer, Refused):
            await client.pause(100)
            return None
        if answer.error_code:
            await client.pause(100)
            return None
        return Identity(answer.producer_id, answer.producer_epoch)

    def _note(
        self,
        process: str,
        began_s: float,
        outcome: Outcome,
        place: tuple[str, int],
        values: list[str],
        offset: int | None,
    ) -> None:
        sends = [Send(place, value, None if offset is None else offset + number) for number, value in enumerate(values)]
        self.records.transactions.append(
            Transaction(process, began_s, began_s, self.client.now_s, outcome, tuple(sends))
        )


def _of(identity: Identity, place: tuple[str, int], transactional: str | None) -> dict[str, Any]:
    return {
        "producer_id": identity.producer_id,
        "producer_epoch": identity.epoch,
        "base_sequence": identity.sequences.get(place, 0),
        "transactional": transactional is not None,
    }
