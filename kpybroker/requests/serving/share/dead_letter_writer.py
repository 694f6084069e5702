"""The dead letters that this node has to write: queued by partition of their topics, produced in batches, retried.

(KIP-1191. Kafka: ``ShareGroupDLQStateManager``.) As in Kafka there are five attempts, with pauses from a second to half
a minute; a record whose dead letter is given up is archived all the same, logged and counted. Errors that can pass are
tried again; Kafka does so only where the leader moved or did not answer.

Dead letters of a share partition that has ended are forgotten here: its next leader finds its records archiving, and
writes them.

Invariant: ``settled`` is called once for dead letters, when they are written or given up, unless their share partition
ends before. For each partition of a dead-letter topic there is one batch under way.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final

from kpybroker.config.topic import TopicConfig, effective
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.partition.role import Role
from kpybroker.machines.share.dead_letters import (
    ATTEMPTS,
    AUTO_CREATE,
    ENABLE,
    PREFIX,
    Packing,
    RecordOrigin,
    TopicRules,
    headers,
    pause_ms,
    refusal,
)
from kpybroker.machines.share.partition import DeadLetters
from kpybroker.requests.serving.internal_topics import DEFAULT, create
from kpybroker.requests.serving.share.copies import READ_BYTES, Copies, ReadStored, copied
from kpybroker.requests.serving.share.led import LeadingNode, LedSharePartition
from kpybroker.requests.serving.share.producing import produce
from kpybroker.runtime.io.scheduler import Timer
from kpystorage.log_slice import LogSlice
from kpystorage.memory_slice import memory_slice
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig

log = logging.getLogger("kpybroker.share")

MAY_PASS: Final = frozenset(
    {
        error_codes.FENCED_LEADER_EPOCH,
        error_codes.KAFKA_STORAGE_ERROR,
        error_codes.LEADER_NOT_AVAILABLE,
        error_codes.NETWORK_EXCEPTION,
        error_codes.NOT_ENOUGH_REPLICAS,
        error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        error_codes.NOT_LEADER_OR_FOLLOWER,
        error_codes.REQUEST_TIMED_OUT,
        error_codes.UNKNOWN_TOPIC_ID,
        error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The errors after which dead letters are produced again."""
MADE_SOON: Final = frozenset(
    {error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS, error_codes.THROTTLING_QUOTA_EXCEEDED}
)
"""The errors of a creation after which the topic may be there soon."""
STORE_WAIT_MS: Final = 60_000.0
"""The longest time for which dead letters wait for copies from the store; after that they have none."""
RECORDS_PER_PIECE: Final = 64
RANGES_PER_PIECE: Final = 16

Place = tuple[str, int]
"""A partition of a dead-letter topic."""


class _UnsettledLetters:
    """The dead letters of one range of records, until they are settled."""

    __slots__ = (
        "attempts",
        "group_id",
        "led",
        "letters",
        "next_offset",
        "origin",
        "settled",
        "store_asked_ms",
        "was_sent",
    )

    def __init__(self, led: LedSharePartition, letters: DeadLetters, settled: Callable[[], object]) -> None:
        self.led = led
        self.letters = letters
        self.settled = settled
        self.group_id = led.key.group_id
        self.origin = RecordOrigin(led.key.group_id, led.replica.topic.name, led.key.partition)
        self.next_offset = letters.first_offset
        self.attempts = 0
        """The attempts since the last that succeeded."""
        self.was_sent = False
        """Whether a batch was produced, rather than the topic made."""
        self.store_asked_ms = -1.0
        """The time since which the store is read for the next one; -1 if it is not."""


class _PartitionQueue:
    """The dead letters for one partition."""

    __slots__ = ("is_busy", "reads_store", "store_timer", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_UnsettledLetters] = deque()
        self.is_busy = False
        self.reads_store = False
        """Whether the copies of the first of them come from the store."""
        self.store_timer: Timer | None = None
        """Set while they are waited for."""


class DeadLetterWriter:
    """All of one node."""

    def __init__(self, leader: LeadingNode) -> None:
        self._leader = leader
        self._broker = leader.broker
        self._queues: dict[Place, _PartitionQueue] = {}
        self._refused: dict[str, int] = {}
        """The error codes of topics that could not be made."""
        self._logged: dict[str, str] = {}
        """The last reason by group: it is logged once until it changes."""

    def write(
        self, led: LedSharePartition, some: Sequence[DeadLetters], settled: Callable[[DeadLetters], object]
    ) -> None:
        """Write dead letters, and call ``settled`` for each range once it is written or given up."""

        def beginning() -> Generator[None, None, None]:
            for nth, letters in enumerate(some, 1):
                self._begin(_UnsettledLetters(led, letters, partial(settled, letters)))
                if nth % RANGES_PER_PIECE == 0:
                    yield

        if some:
            self._broker.scheduler.in_pieces(beginning())

    def _begin(self, writing: _UnsettledLetters) -> None:
        """Queue dead letters, now that the metadata may have changed."""
        if writing.led.end is not None:
            return
        name = self._leader.settings_of(writing.group_id).dead_letter_topic
        topic = self._broker.image.topics.get(name)
        reason = refusal(writing.group_id, name, self._rules(name))
        if reason is not None:
            self._give_up(writing, reason)
        elif topic is None:
            self._create(writing, name)
        else:
            index = writing.origin.partition % len(topic.partitions)
            if topic.partitions[index].leader < 0:
                self._again(writing, f"{name}-{index} has no leader")
                return
            queue = self._queues.setdefault((name, index), _PartitionQueue())
            queue.waiting.append(writing)
            self._send_next((name, index), queue)

    def _rules(self, name: str) -> TopicRules:
        broker = self._broker
        return TopicRules(
            name in broker.image.topics,
            bool(self._config(name).values[ENABLE]),
            bool(broker.config[AUTO_CREATE]),
            str(broker.config[PREFIX]),
        )

    def _config(self, name: str) -> TopicConfig:
        """The config of a dead-letter topic, which may have no log on this node."""
        return effective(self._broker.image.configs_of(TOPIC_RESOURCE, name), self._broker.config)

    # Making the topic

    def _create(self, writing: _UnsettledLetters, name: str) -> None:
        broker = self._broker

        def waited() -> None:
            if name in broker.image.topics:
                writing.attempts = 0
                self._begin(writing)
            elif name in self._refused:
                self._give_up(writing, f"{name} cannot be made: {error_codes.name(self._refused[name])}")
            else:
                self._again(writing, f"{name} is not there yet")

        def answered(response: Any) -> None:
            for topic in response.topics:
                if topic.error_code not in MADE_SOON:
                    self._refused[name] = topic.error_code
                    broker.expected_topics.give_up(name)

        if broker.expected_topics.expect(name, waited):
            self._refused.pop(name, None)
            configs = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
            wanted = CreatableTopic(
                name=name,
                num_partitions=DEFAULT,
                replication_factor=DEFAULT,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            create(broker, [wanted], answered)

    # Producing

    def _send_next(self, place: Place, queue: _PartitionQueue) -> None:
        if not queue.waiting and not queue.is_busy:
            self._queues.pop(place, None)
        elif not queue.is_busy:
            queue.is_busy = True
            scheduler = self._broker.scheduler
            scheduler.call_soon(scheduler.in_pieces, self._sending(place, queue))  # others may come in this turn

    def _sending(self, place: Place, queue: _PartitionQueue) -> Generator[None, None, None]:
        """Make a batch out of dead letters that wait, and produce it."""
        packing = Packing(self._config(place[0]).max_message_bytes)
        packed: list[tuple[_UnsettledLetters, int]] = []
        queue.reads_store = False
        while queue.waiting:
            writing = queue.waiting[0]
            if writing.led.end is None:
                end = yield from self._pack(writing, packing, partial(self._read_stored, place, queue, writing))
                if end == writing.next_offset:
                    break
                packed.append((writing, end))
            queue.waiting.popleft()
            yield
        topic = self._broker.image.topics.get(place[0])
        if not packed and queue.reads_store:
            self._wait_for_store(place, queue)
        elif not packed:
            self._sent(place, queue, packed, error_codes.NONE)
        elif topic is None or place[1] not in topic.partitions or topic.partitions[place[1]].leader < 0:
            self._sent(place, queue, packed, error_codes.LEADER_NOT_AVAILABLE)
        else:
            self._produce(place, queue, packed, topic, packing)

    def _produce(
        self,
        place: Place,
        queue: _PartitionQueue,
        packed: list[tuple[_UnsettledLetters, int]],
        topic: Topic,
        packing: Packing,
    ) -> None:
        for writing, _ in packed:
            writing.was_sent = True
            self._leader.metrics.dead_letters_of(writing.group_id).produced += 1
        batch = packing.batch(self._broker.scheduler.now_ms())
        produce(self._broker, topic, place[1], batch, lambda code: self._sent(place, queue, packed, code))

    def _pack(
        self, writing: _UnsettledLetters, packing: Packing, read_stored: ReadStored
    ) -> Generator[None, None, int]:
        """Add the dead letters of a range to a batch, as far as there is room. Returns the offset of the next one."""
        letters, offset = writing.letters, writing.next_offset
        copies = Copies({}, letters.last_offset)
        if self._leader.settings_of(writing.group_id).copies_dead_letters:
            left = packing.left_bytes
            if left <= 0 and packing.count:
                return offset
            copies = yield from copied(writing.led.replica, offset, letters.last_offset, max(left, 1), read_stored)
        while offset <= copies.last_offset:
            record = copies.records.get(offset)
            named = headers(writing.origin, offset, letters.delivery_count, letters.reason)
            key, value = (None, None) if record is None else (record.key, record.value)
            if not packing.add(named, key, value):
                break
            offset += 1
            if packing.count % RECORDS_PER_PIECE == 0:
                yield
        return offset

    def _sent(
        self, place: Place, queue: _PartitionQueue, packed: list[tuple[_UnsettledLetters, int]], code: int
    ) -> None:
        """A batch was produced, or could not be."""
        self._broker.scheduler.in_pieces(self._settling(place, queue, packed, code))

    def _settling(
        self, place: Place, queue: _PartitionQueue, packed: list[tuple[_UnsettledLetters, int]], code: int
    ) -> Generator[None, None, None]:
        """Settle what was in a batch: each range of records has a write of its own to the share coordinator."""
        for nth, (writing, end) in enumerate(packed, 1):
            if code == error_codes.NONE:
                self._written(writing, end)
            elif code in MAY_PASS:
                self._again(writing, error_codes.name(code))
            else:
                self._give_up(writing, error_codes.name(code))
            if nth % RANGES_PER_PIECE == 0:
                yield
        queue.is_busy = False
        self._send_next(place, queue)

    def _written(self, writing: _UnsettledLetters, end: int) -> None:
        self._leader.metrics.dead_letters_of(writing.group_id).written += end - writing.next_offset
        writing.next_offset, writing.attempts = end, 0
        self._logged.pop(writing.group_id, None)
        if end <= writing.letters.last_offset:
            self._begin(writing)
        elif writing.led.end is None:
            writing.settled()

    # Copies from the store

    def _read_stored(
        self, place: Place, queue: _PartitionQueue, writing: _UnsettledLetters, role: Role, offset: int
    ) -> LogSlice | None:
        """The records from an offset on that only the store has; None while they are read."""
        from kpybroker.hosts.remote_log.reads import WantedRecords  # not of a plain start

        remote_log, now_ms = self._broker.remote_log, self._broker.scheduler.monotonic_ms()
        if remote_log is None or offset < role.log.log_start_offset:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if 0 <= writing.store_asked_ms <= now_ms - STORE_WAIT_MS:
            raise KafkaError(error_codes.REQUEST_TIMED_OUT)
        key, wake = writing.led.key, partial(self._store_has_answered, place, queue)
        wanted = WantedRecords(key.topic_id, key.partition, offset, READ_BYTES, committed_only=False, wake=wake)
        try:
            found = remote_log.read(wanted, role)
        except KafkaError as error:
            if error.code != error_codes.KAFKA_STORAGE_ERROR:
                raise
            found = None  # it may be back soon
        if found is not None:
            writing.store_asked_ms = -1.0
            return memory_slice(found.records)
        if writing.store_asked_ms < 0:
            writing.store_asked_ms = now_ms
        queue.reads_store = True
        return None

    def _wait_for_store(self, place: Place, queue: _PartitionQueue) -> None:
        """Go on when the store has answered, and ask again if it does not."""
        remote_log, scheduler = self._broker.remote_log, self._broker.scheduler
        wait_ms = 0 if remote_log is None else remote_log.fetch_wait_ms()
        queue.store_timer = scheduler.call_later(wait_ms, self._store_has_answered, place, queue)

    def _store_has_answered(self, place: Place, queue: _PartitionQueue) -> None:
        if queue.store_timer is not None:
            queue.store_timer.cancel()
            queue.store_timer = None
            queue.is_busy = False
            self._send_next(place, queue)

    # Failing

    def _again(self, writing: _UnsettledLetters, reason: str) -> None:
        writing.attempts += 1
        if writing.attempts >= ATTEMPTS:
            self._give_up(writing, reason)
            return
        self._broker.scheduler.call_later(pause_ms(writing.attempts, writing.origin), self._begin, writing)

    def _give_up(self, writing: _UnsettledLetters, reason: str) -> None:
        if writing.led.end is not None:
            return
        group_id, letters = writing.group_id, writing.letters
        counted = self._leader.metrics.dead_letters_of(group_id)
        counted.failed += writing.was_sent
        counted.given_up += letters.last_offset - writing.next_offset + 1
        if self._logged.get(group_id) != reason:
            self._logged[group_id] = reason
            _, topic, index = writing.origin
            where = f"{topic}-{index} from offset {writing.next_offset} to {letters.last_offset}"
            log.error("Share group %s: records of %s are archived without dead letters: %s", group_id, where, reason)
        writing.settled()
