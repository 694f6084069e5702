"""The reader of a Fetch request's partitions.

- A fetch is answered at once if it has ``min_bytes`` of data, an error, or no time to wait. Otherwise it is parked
  until enough data has arrived or ``max_wait_ms`` has passed. A parked fetch reads only partitions that changed, once
  per turn of the loop.
- The first batch of a response is always complete, whatever the limits (KIP-74). The data begins with the batch that
  holds the requested offset, and may end in an incomplete batch.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Final

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.session import CachedPartition
from kpybroker.requests.serving import leader_hints
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.leader_hints import current_leader
from kpybroker.requests.serving.reading.answer import AnswerBudget, FetchAnswer, Policy, must_not_wait
from kpybroker.runtime.calls.call import Call, FetchThrottle
from kpybroker.runtime.calls.pending import Parked, Pending
from kpybroker.runtime.calls.steps import GivenUp
from kpystorage.errors import StorageError
from kpywire import error_codes
from kpywire.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch, PartitionData

LAST_WITHOUT_STORAGE_ERROR: Final = 5
UNKNOWN: Final = frozenset(
    {error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.UNKNOWN_TOPIC_ID, error_codes.TOPIC_AUTHORIZATION_FAILED}
)
"""Errors that Kafka answers before it reads any log. It fills in these answers a little differently."""
STEP_ENTRIES: Final = 8
"""The number of partitions that are read in one step of a request for many."""


def in_pieces(entries: list[CachedPartition]) -> Iterator[list[CachedPartition]]:
    """The entries of each step."""
    return (entries[start : start + STEP_ENTRIES] for start in range(0, len(entries), STEP_ENTRIES))


class FetchReader:
    """One Fetch request, until it is answered."""

    __slots__ = (
        "_epoch",
        "_parked",
        "answer",
        "broker",
        "listener_name",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "policy",
        "session",
        "version",
    )

    def __init__(self, broker: Context, request: FetchRequest, policy: Policy, answer: FetchAnswer, call: Call) -> None:
        self.broker = broker
        self.policy = policy
        self.answer = answer
        self.session = answer.session
        self.version = call.api_version
        self.listener_name = call.listener_name
        self.max_wait_ms = request.max_wait_ms
        self.max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self._epoch = self.session.epoch
        self._parked: Parked | None = None
        if call.throttle is not None and not policy.is_replica:
            self._throttle(call, call.throttle)

    def _throttle(self, call: Call, throttle: FetchThrottle) -> None:
        """Obey the quotas of the client: an answer is small enough for them, and empty if they are violated."""
        self.max_bytes = int(min(self.max_bytes, throttle.most_fetched_bytes(call)))
        self.min_bytes = min(self.min_bytes, self.max_bytes)
        self.answer.obey(throttle, call)

    # Answering

    def read(self, entries: Iterable[CachedPartition]) -> FetchResponse | Pending:
        """Read these partitions. Return the response, or a `Pending` of it if there is not enough yet."""
        session, due = self.session, list(entries)
        if self.policy.is_replica:  # clients have nothing to note: one call less in each of their fetches
            self.policy.note(due)
        # A session without news needs no budget.
        is_enough = self.collect(due, AnswerBudget(self.max_bytes)) if due else self.min_bytes <= 0
        if not is_enough and self.wait_ms > 0 and session.entries:
            return self.park()
        response = self.answer.response(self.policy)
        if not session.lasts:
            session.forget_all()
        return response

    def read_in_steps(self, entries: Iterable[CachedPartition]) -> Generator[None, None, FetchResponse | Pending]:
        """Do the same as `read`, for a full request for many partitions, a few of them at a time.

        As the only form, a generator would cost a fetch of one partition ten calls more (48 become 58).
        """
        session, entries = self.session, list(entries)
        try:
            is_enough = yield from self._collect_in_steps(entries)
            if not is_enough and self.wait_ms > 0 and session.entries:
                return self.park()
            response = yield from self.answer.response_in_steps(self.policy)
        except (GivenUp, Exception):
            yield from self._forget_in_steps(entries)
            raise
        yield from self._forget_in_steps(entries)
        yield
        return response

    def _forget_in_steps(self, entries: list[CachedPartition]) -> Generator[None, None, None]:
        """Forget the session, and these entries of it wherever they are, unless it goes on."""
        session, answered = self.session, self.answer.partitions
        if session.lasts and session.entries:
            return
        while entries:
            for entry in entries[-STEP_ENTRIES:]:
                entry.unwatch()
                session.entries.pop((entry.topic, entry.index), None)
                session.changed.pop(entry, None)
                answered.pop(entry, None)
            del entries[-STEP_ENTRIES:]
            yield
        session.forget_all()

    # Collecting

    def collect(self, entries: Iterable[CachedPartition], budget: AnswerBudget) -> bool:
        """Read these partitions into the room that is left in the answer. Return whether the answer can be sent: it has
        enough bytes, or something that must not wait."""
        answer, policy, session = self.answer, self.policy, self.session
        partitions = answer.partitions
        for entry in entries:
            entry.held_back = False
            try:
                replica = entry.replica
                if replica is None or replica.gone:
                    replica = self.broker.replicas.find_for(entry)
                if session.lasts or self._parked is not None:
                    entry.watch()
                of_partition = policy.read(entry, replica, budget)
            except (KafkaError, StorageError) as error:
                of_partition = self._refused(entry, error)
            partitions[entry] = of_partition
            if of_partition.records:
                budget.take(of_partition.records)
            elif must_not_wait(of_partition):
                budget.is_urgent = True
            elif answer.leaves_out(entry, of_partition):
                del partitions[entry]
            if budget.left_bytes <= 0 and answer.incremental:
                break
        return budget.is_urgent or self.max_bytes - budget.left_bytes >= self.min_bytes

    def _collect_in_steps(self, entries: list[CachedPartition]) -> Generator[None, None, bool]:
        """Do the same as `collect`, for all entries of a full request. Partitions that change meanwhile are read
        again."""
        session, budget = self.session, AnswerBudget(self.max_bytes)
        if self.policy.is_replica:
            for some in in_pieces(entries):
                self.policy.note(some)
                yield
        due, session.changed = session.changed, {}
        is_enough = False
        for some in in_pieces(entries):
            is_enough = self.collect(some, budget)
            if not session.lasts:
                for entry in some:
                    entry.watch()
            yield
        has_changed = bool(session.changed)
        due.update(session.changed)
        session.changed = due
        return is_enough or (has_changed and self._collect_changed())

    def _collect_changed(self) -> bool:
        return self.collect(list(self.session.changed), AnswerBudget(self.max_bytes))

    def _refused(self, entry: CachedPartition, error: KafkaError | StorageError) -> PartitionData:
        """The answer for a partition that cannot be read."""
        code = self.broker.replicas.code_of(error)
        if self.policy.is_forbidden(entry):  # an unknown name looks like a forbidden one
            code = error_codes.TOPIC_AUTHORIZATION_FAILED
        if code == error_codes.KAFKA_STORAGE_ERROR and self.version <= LAST_WITHOUT_STORAGE_ERROR:
            code = error_codes.NOT_LEADER_OR_FOLLOWER
        answer = PartitionData(
            partition_index=entry.index,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if code in UNKNOWN and self._parked is None else None,
            records=b"",
        )
        if code in leader_hints.AFTER_FETCH and self.version >= leader_hints.FETCH_FROM:
            self._hint(answer, entry)
        return answer

    def _hint(self, answer: PartitionData, entry: CachedPartition) -> None:
        """Add the partition's current leader to an answer (KIP-951)."""
        leader_id, leader_epoch, node = current_leader(self.broker, entry.topic, entry.index, self.listener_name)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        if node is not None:
            self.answer.nodes = {**(self.answer.nodes or {}), leader_id: node}

    # Waiting

    @property
    def wait_ms(self) -> int:
        """The time for which it may wait: for new records, or for those that the store has."""
        return max(self.max_wait_ms, self.policy.store_wait_ms)

    def park(self) -> Pending:
        """Wait for more data. The partitions wake the session, and the session wakes this request."""
        self._let_go()
        scheduler = self.broker.scheduler
        self._parked = parked = Parked(scheduler, self.wait_ms, self._look_again, self._expire, self._forget)
        if not self.session.lasts:
            for entry in self.session.entries.values():
                entry.watch()
        self.session.wake = parked.wake
        return parked.pending

    def _look_again(self) -> FetchResponse | None:
        if self.session.epoch != self._epoch:
            return None
        if self._collect_changed():
            return self.answer.response(self.policy)
        self._let_go()
        assert self._parked is not None
        self.session.wake = self._parked.wake
        return None

    def _let_go(self) -> None:
        """Drop records that are too few to be answered, so that they keep no file open. They are read again later."""
        for entry, answer in self.answer.partitions.items():
            if answer.records:
                answer.records, entry.held_back = b"", True

    def _expire(self) -> FetchResponse:
        if self.session.epoch != self._epoch:
            # The client has given up on this request and gone on in its session.
            code = error_codes.INVALID_FETCH_SESSION_EPOCH
            return FetchResponse(throttle_time_ms=0, error_code=code, responses=[])
        self._collect_changed()
        return self.answer.response(self.policy)

    def _forget(self) -> None:
        session = self.session
        if session.epoch == self._epoch:
            session.wake = None
        if not session.lasts:
            session.close()
