"""Reading what a Fetch asks for, until there is enough of it to answer.

- Answered at once with ``min_bytes`` of data, an error, or no time to wait; else parked until enough arrived or
  ``max_wait_ms`` passed. A parked fetch looks only at partitions that changed, once per loop turn.
- The first batch of a response comes whole, whatever the limits (KIP-74); data begins at the batch that holds the
  offset asked for and may end in a cut-off batch.
"""

from collections.abc import Generator, Iterable

from kpybroker.errors import KafkaError
from kpybroker.fetch.session import NO_SESSION, Entry, Session
from kpybroker.handlers import leader_hints
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.leader_hints import Node, current_leader, node_endpoints
from kpybroker.handlers.preferred_replica import NO_PREFERENCE, chooser_of
from kpybroker.partition.role import READ_COMMITTED, Role
from kpybroker.replicas.replica import Replica
from kpybroker.server.pending import Pending
from kpystorage.errors import DiskFailure, StorageError
from kpystorage.log_slice import LogSlice
from kpywire import error_codes
from kpywire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

FOLLOWERS_FROM = 11
"""From this version on consumers may read from followers (KIP-392)."""
LAST_WITHOUT_STORAGE_ERROR = 5
UNTOLD = -1
UNKNOWN = frozenset({error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.UNKNOWN_TOPIC_ID})
"""Errors that Kafka answers before it looks at any log; it words the answers of both kinds a little differently."""
FEW_FILES = 64
"""So many partitions of an answer keep the file open that their records lie in; of others, few records are copied."""
SMALL_SLICE_BYTES = 16 * 1024
MOST_COPIED_BYTES = 1024 * 1024
MOST_ERRORS = 1000
"""Of partitions in a session, which would all be told again at each request, however short: the session ends."""
STEP_ENTRIES = 8
"""Of a request for many partitions, so many are read between two pauses."""
MOST_FILES = 128
"""An answer with so many files, or so many copied bytes, is full: the other partitions come in the next one."""


class Room:
    """What is left of an answer, and why it may leave."""

    __slots__ = ("copied_bytes", "files", "is_urgent", "left_bytes")

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes
        self.files = 0
        self.copied_bytes = 0
        self.is_urgent = False


class Reading:
    """One Fetch request on its session, until it is answered.

    ``_answers`` holds what would be answered now: of a full request every partition, of an incremental one those with
    news. A partition that is not in the session's ``changed`` is answered right there.
    """

    __slots__ = (
        "_answers",
        "_choose",
        "_epoch",
        "_nodes",
        "_parked",
        "_timer",
        "broker",
        "counters",
        "incremental",
        "isolation",
        "listener_name",
        "max_bytes",
        "min_bytes",
        "pending",
        "replica_id",
        "request",
        "session",
        "version",
    )

    def __init__(
        self,
        broker: Context,
        request: FetchRequest,
        session: Session,
        incremental: bool,
        replica_id: int,
        call: Call,
    ) -> None:
        self.broker = broker
        self.request = request
        self.session = session
        self.incremental = incremental
        self.replica_id = replica_id
        self.version = call.api_version
        self.counters = call.counters
        self.listener_name = call.listener_name
        self.isolation = request.isolation_level
        self.max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self._epoch = session.epoch
        self._parked = False
        self._answers: dict[Entry, PartitionData] = {}
        self._nodes: dict[int, Node] | None = None
        """Leaders that the answer speaks of."""
        self._choose = chooser_of(broker, request, call) if request.rack_id else None

    # Collecting

    def collect(self, entries: Iterable[Entry], room: Room | None = None) -> bool:
        """Read these partitions; whether the answer can leave: enough bytes, or something that must not wait.

        ``room`` is what others that were read before have left of the answer.
        """
        session, answers = self.session, self._answers
        left, files, copied_bytes, urgent = self.max_bytes, 0, 0, False
        if room is not None:
            left, files, copied_bytes, urgent = room.left_bytes, room.files, room.copied_bytes, room.is_urgent
        for entry in list(entries):
            many = files >= FEW_FILES
            answer = answers[entry] = self._read(entry, left, nothing_yet=left == self.max_bytes, copy=many)
            if answer.records:
                left -= len(answer.records)
                if isinstance(answer.records, bytes):
                    copied_bytes += len(answer.records)
                else:
                    files += 1
                if files >= MOST_FILES or copied_bytes >= MOST_COPIED_BYTES:
                    left = min(left, 0)
            elif must_not_wait(answer):
                urgent = True
            elif not _has_news(entry, answer):
                if not entry.held_back:
                    session.changed.pop(entry, None)
                if self.incremental:
                    del answers[entry]
            if left <= 0 and self.incremental:
                break
        if room is not None:
            room.left_bytes, room.files, room.copied_bytes, room.is_urgent = left, files, copied_bytes, urgent
        return urgent or self.max_bytes - left >= self.min_bytes

    def _collect_in_steps(self, entries: list[Entry]) -> Generator[None, None, bool]:
        """As `collect`, of all entries of a full request. What changes meanwhile is looked at again."""
        session, room = self.session, Room(self.max_bytes)
        due, session.changed = session.changed, {}
        is_enough = False
        for start in range(0, len(entries), STEP_ENTRIES):
            some = entries[start : start + STEP_ENTRIES]
            is_enough = self.collect(some, room)
            if not session.lasts:
                for entry in some:
                    entry.watch()
            yield
        has_changed = bool(session.changed)
        session.changed = {**due, **session.changed}
        return is_enough or (has_changed and self.collect(session.changed))

    def _read(self, entry: Entry, left_bytes: int, *, nothing_yet: bool, copy: bool) -> PartitionData:
        try:
            return self._read_partition(entry, left_bytes, nothing_yet=nothing_yet, copy=copy)
        except KafkaError as error:
            code = error.code
        except StorageError as error:
            if isinstance(error, DiskFailure):
                self.broker.replicas.directory_failed(error)
            code = error.error_code
        if code == error_codes.KAFKA_STORAGE_ERROR and self.version <= LAST_WITHOUT_STORAGE_ERROR:
            code = error_codes.NOT_LEADER_OR_FOLLOWER
        answer = PartitionData(
            partition_index=entry.index,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if code in UNKNOWN and not self._parked else None,
            records=b"",
        )
        if code in leader_hints.AFTER_FETCH and self.version >= leader_hints.FETCH_FROM:
            self._hint(answer, entry)
        return answer

    def _hint(self, answer: PartitionData, entry: Entry) -> None:
        """Say who leads (KIP-951)."""
        leader_id, leader_epoch, node = current_leader(self.broker, entry.topic, entry.index, self.listener_name)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        if node is not None:
            self._nodes = {**(self._nodes or {}), leader_id: node}

    def _read_partition(self, entry: Entry, left_bytes: int, *, nothing_yet: bool, copy: bool) -> PartitionData:
        entry.held_back = False
        replica = entry.replica
        if replica is None or replica.gone:
            replica = self._find(entry)
        if self.session.lasts or self._parked:
            entry.watch()
        leader: Role
        if self.version >= FOLLOWERS_FROM and replica.leader is None:
            leader = replica.held()
        else:
            leader = replica.led()
        if entry.leader_epoch >= 0:
            leader.check_epoch(entry.leader_epoch)
        high_watermark = leader.high_watermark
        stable = leader.last_stable_offset()
        answer = PartitionData(
            partition_index=entry.index,
            error_code=error_codes.NONE,
            high_watermark=high_watermark.offset,
            last_stable_offset=stable.offset,
            log_start_offset=leader.log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if self._choose is not None:
            preferred = self._choose(leader, entry.fetch_offset)
            if preferred != NO_PREFERENCE:
                answer.preferred_read_replica = preferred
                return answer
        if entry.last_fetched_epoch >= 0:
            diverging = divergence(leader, entry)
            if diverging is not None:
                answer.diverging_epoch = diverging
                return answer
        committed_only = self.isolation == READ_COMMITTED
        end = stable if committed_only else high_watermark
        if entry.fetch_offset == end.offset:
            # Most partitions of a reader that has caught up.
            if committed_only:
                answer.aborted_transactions = []
            return answer
        max_bytes = min(entry.max_bytes, left_bytes)
        if entry.max_bytes < 0 or self.max_bytes < 0:
            _refuse_negative_size(leader, entry, end.offset)
        records = None
        if max_bytes > 0 or nothing_yet:
            records = leader.read(entry.fetch_offset, max_bytes, end, min_one_batch=nothing_yet)
        elif not leader.log.log_start_offset <= entry.fetch_offset <= leader.log.log_end_offset:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if records is not None:
            answer.records = records
            if copy and len(records) <= SMALL_SLICE_BYTES:
                with leader.log.directory.failing():
                    answer.records = records.read()
        else:
            entry.held_back = entry.fetch_offset < end.offset
        if committed_only:
            answer.aborted_transactions = _aborted(leader, entry.fetch_offset, records) if records else []
        return answer

    def _find(self, entry: Entry) -> Replica:
        entry.unwatch()
        try:
            replica = self.broker.replicas.find(entry.topic, entry.index)
        except KafkaError as error:
            if entry.name is not None and error.code == error_codes.UNKNOWN_TOPIC_ID:
                raise _of_another_id(self.broker, entry.name, entry.index) from None
            raise
        entry.replica, entry.name = replica, replica.topic.name
        return replica

    # Answering

    def answer(self, entries: Iterable[Entry]) -> FetchResponse | Pending:
        """What these have to offer, or a `Pending` of what they will have."""
        session = self.session
        if not self.collect(entries) and self.request.max_wait_ms > 0 and session.entries:
            return self.park()
        response = self.response()
        if not session.lasts:
            session.forget_all()
        return response

    def answer_in_steps(self, entries: Iterable[Entry]) -> Generator[None, None, FetchResponse | Pending]:
        """As `answer`, of a full request for many partitions."""
        session, entries = self.session, list(entries)
        is_enough = None
        try:
            is_enough = yield from self._collect_in_steps(entries)
        finally:
            if not session.entries or (is_enough is None and not session.lasts):
                for entry in entries:  # its session was given up meanwhile, or nobody waits for the answer
                    entry.unwatch()
                session.forget_all()
        if not is_enough and self.request.max_wait_ms > 0 and session.entries:
            return self.park()
        response = self.response()
        if not session.lasts:
            session.close()
        yield
        return response

    def response(self) -> FetchResponse:
        """The answer of what was collected last."""
        session = self.session
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        errors, goes_on = 0, session.id != NO_SESSION
        for entry, answer in self._answers.items():
            if answer.error_code != error_codes.NONE:
                errors += 1
            if goes_on:
                more = bool(answer.records) or must_not_wait(answer)
                # Who cuts its log takes nothing else of the answer: it has to be told again.
                told = answer.high_watermark if answer.diverging_epoch.epoch < 0 else UNTOLD
                session.answered(entry, told, answer.log_start_offset, more=more)
            self._count(entry, answer)
            topic = topics.get(entry.topic)
            if topic is None:
                topic = topics[entry.topic] = topic_response(entry.topic, [])
            topic.partitions.append(answer)
        if errors > MOST_ERRORS and goes_on:
            self.broker.fetch_sessions.end(session)
        return FetchResponse(
            throttle_time_ms=0,
            error_code=error_codes.NONE,
            session_id=session.id,
            responses=list(topics.values()),
            node_endpoints=node_endpoints(self._nodes, NodeEndpoint) if self._nodes and self.replica_id < 0 else [],
        )

    def _count(self, entry: Entry, answer: PartitionData) -> None:
        """Note what is answered: for the counters, and for the lag of those who read without a session."""
        if answer.error_code != error_codes.NONE:
            self.counters.count_error(answer.error_code)
        if answer.records and self.session.id == NO_SESSION:
            entry.sent_high_watermark = answer.high_watermark
        if entry.replica is not None:
            held = entry.replica.topic
            held.fetches += 1
            if answer.records:
                held.bytes_out += len(answer.records)
            elif answer.error_code == error_codes.UNKNOWN_SERVER_ERROR:
                held.failed_fetches += 1

    def park(self) -> Pending:
        """Wait for more: the partitions wake the session, the session wakes this."""
        self._let_go()
        self._parked = True
        self.pending = Pending()
        self.pending.when_cancelled(self._forget)
        self._timer = self.broker.scheduler.call_later(self.request.max_wait_ms, self._expire)
        if not self.session.lasts:
            for entry in self.session.entries.values():
                entry.watch()
        self.session.wake = self._wake
        return self.pending

    def _wake(self) -> None:
        self.broker.scheduler.call_soon(self._look_again)

    def _look_again(self) -> None:
        if self.pending.resolved or self.session.epoch != self._epoch:
            return
        if self.collect(self.session.changed):
            self._answer(self.response())
        else:
            self._let_go()
            self.session.wake = self._wake

    def _let_go(self) -> None:
        """What is too little to be answered is read again when there is more; until then it keeps no file open."""
        for entry, answer in self._answers.items():
            if answer.records:
                answer.records, entry.held_back = b"", True

    def _expire(self) -> None:
        if self.session.epoch != self._epoch:
            # The client has given up on this request and gone on in its session.
            code = error_codes.INVALID_FETCH_SESSION_EPOCH
            self._answer(FetchResponse(throttle_time_ms=0, error_code=code, responses=[]))
            return
        self.collect(self.session.changed)
        self._answer(self.response())

    def _answer(self, response: FetchResponse) -> None:
        self._forget()
        self.pending.resolve(response)

    def _forget(self) -> None:
        self._timer.cancel()
        session = self.session
        if session.epoch == self._epoch:
            session.wake = None
        if not session.lasts:
            session.close()


def topic_response(topic: str | bytes, partitions: list[PartitionData]) -> FetchableTopicResponse:
    """The answer of a topic by its name or id."""
    if isinstance(topic, bytes):
        return FetchableTopicResponse(topic_id=topic, partitions=partitions)
    return FetchableTopicResponse(topic=topic, partitions=partitions)


def _refuse_negative_size(leader: Role, entry: Entry, end_offset: int) -> None:
    """Kafka cannot read a negative number of bytes, and notices where there are any."""
    if leader.log.log_start_offset <= entry.fetch_offset < end_offset:
        raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR)


def must_not_wait(answer: PartitionData) -> bool:
    """Whether an answer leaves at once although it has no records."""
    if answer.error_code != error_codes.NONE or answer.diverging_epoch.epoch >= 0:
        return True
    return answer.preferred_read_replica != NO_PREFERENCE


def _has_news(entry: Entry, answer: PartitionData) -> bool:
    """Whether an incremental answer must mention a partition although it has no records."""
    return answer.high_watermark != entry.sent_high_watermark or answer.log_start_offset != entry.sent_log_start_offset


def _of_another_id(broker: Context, name: str, index: int) -> KafkaError:
    """Kafka goes on by the name of a topic that it knew by its id: it is gone, or there is another one of its name."""
    held = broker.replicas.topics.get(name)
    there = held is not None and index in held.replicas
    return KafkaError(error_codes.INCONSISTENT_TOPIC_ID if there else error_codes.UNKNOWN_TOPIC_OR_PARTITION)


def divergence(leader: Role, entry: Entry) -> EpochEndOffset | None:
    """Where the reader's log and ours part, if they do (KIP-595)."""
    log = leader.log
    epoch, end_offset = log.epochs.end_offset_for(entry.last_fetched_epoch, log.log_end_offset)
    if epoch < 0 or entry.fetch_offset < log.log_start_offset:
        raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
    if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _aborted(leader: Role, offset: int, records: LogSlice) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in leader.log.aborted_within(offset, records)
    ]
