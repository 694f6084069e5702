"""The answer to a Fetch: of a session, of a request without one, or of a read that the broker remembers although its
client has no session (`Ledger`). And the seams of the reader: the room that is left in an answer, and for whom is read.
"""

from abc import ABC, abstractmethod
from collections.abc import Container, Generator, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from kpybroker.machines.fetch.session import NO_SESSION, CachedPartition, FetchSession, WatchedReplica
from kpybroker.machines.fetch.sessions import FetchSessions
from kpybroker.machines.partition.role import Role
from kpybroker.requests.serving.leader_hints import LeaderAddress, node_endpoints
from kpybroker.requests.serving.preferred_replica import NO_PREFERENCE
from kpybroker.runtime.calls.call import Call, FetchThrottle
from kpystorage.log_slice import LogSlice
from kpywire import error_codes
from kpywire.codec import EncodedStructs, encode_struct, encode_with_records
from kpywire.fetch import codec_for
from kpywire.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint, PartitionData

FEW_FILES: Final = 64
"""The number of partitions of an answer that keep their file open. For further ones, few records are copied instead."""
MOST_COPIED_BYTES: Final = 1024 * 1024
MOST_FILES: Final = 128
"""The most files in an answer. At this limit, or that of copied bytes, it is full: the next one has the rest."""
STEP_ANSWERS: Final = 64
"""The number of partitions that one step of the response to a request for many takes over."""
UNREPORTED: Final = -1
MOST_ERRORS: Final = 1000
"""The most partitions with errors in a session. Each request, however short, would report all of them again, so a
session with more is ended."""
SIZE_BYTES: Final = 4


class AnswerBudget:
    """The room left in an answer while its partitions are read, and whether it must be sent at once."""

    __slots__ = ("_copied_bytes", "_files", "copies", "is_from_store", "is_untouched", "is_urgent", "left_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.left_bytes = max_bytes
        self.is_untouched = True
        """Whether no partition has records yet. The first one gets a complete batch, whatever the limits (KIP-74)."""
        self.copies = False
        """Whether the answer has too many files, so that records are better copied."""
        self.is_urgent = False
        self.is_from_store = False
        """Whether the records that are taken next are of the store: they are in memory anyway, and no copies."""
        self._files = 0
        self._copied_bytes = 0

    def take(self, records: LogSlice | bytes) -> None:
        """Use room for these records."""
        self.left_bytes -= len(records)
        self.is_untouched = False
        if self.is_from_store:
            self.is_from_store = False
        elif isinstance(records, bytes):
            self._copied_bytes += len(records)
        else:
            self._files += 1
            self.copies = self._files >= FEW_FILES
        if self._files >= MOST_FILES or self._copied_bytes >= MOST_COPIED_BYTES:
            self.left_bytes = min(self.left_bytes, 0)


def copied(role: Role, records: LogSlice) -> bytes:
    """The bytes of records that are not to keep their file open. Raises DiskFailure."""
    with role.log.directory.failing():
        return records.read()


class Policy(ABC):
    """The rules of one kind of reader: a client, or a replica that follows."""

    __slots__ = ("is_replica", "store_wait_ms")
    is_replica: bool
    store_wait_ms: int
    """The time for which the request may wait for records of the store; 0 if it asked for none."""

    def note(self, _entries: Iterable[CachedPartition]) -> None:  # noqa: B027 (clients note nothing)
        """Note where the reader is in these partitions."""

    @abstractmethod
    def read(self, entry: CachedPartition, replica: WatchedReplica, budget: AnswerBudget) -> PartitionData:
        """Read one partition. Raises KafkaError, StorageError."""

    def is_forbidden(self, _entry: CachedPartition) -> bool:
        """Whether the reader may not read a topic."""
        return False

    @abstractmethod
    def count(self, entry: CachedPartition, answer: PartitionData) -> None:
        """Count what is answered."""


class Ledger:
    """The partitions of one request without a session, of a client whose last read is remembered
    (`kpybroker.machines.fetch.remembered`): ``topics`` has their entries by topic, in the request's order.

    Only partitions that changed since are read. For the others the bytes of the last answer are used again.
    """

    __slots__ = ("_topics", "_version")

    def __init__(self, topics: Sequence[list[CachedPartition]], version: int) -> None:
        self._topics = topics
        self._version = version

    def in_order(self, entries: Container[CachedPartition]) -> list[CachedPartition]:
        """These entries in the order of the request."""
        return [entry for of_topic in self._topics for entry in of_topic if entry in entries]

    def settle(self, entry: CachedPartition, answer: PartitionData) -> None:
        """Encode the answer for a partition without news, and keep it until the partition changes."""
        entry.settled = encode_struct(answer, FetchResponse, self._version)

    def topics(self, news: dict[CachedPartition, PartitionData], policy: Policy | None) -> list[FetchableTopicResponse]:
        """The answers for every partition, by topic, out of those with ``news``. With a policy they are counted."""
        return [self._topic(entries, news, policy) for entries in self._topics if entries]

    def _topic(
        self, entries: list[CachedPartition], news: dict[CachedPartition, PartitionData], policy: Policy | None
    ) -> FetchableTopicResponse:
        changed = [entry for entry in entries if entry in news] if news else []
        partitions: list[Any]
        if len(changed) == len(entries):
            partitions = [news[entry] for entry in entries]
        elif changed:
            partitions = EncodedStructs([self._encoded(entry, news.get(entry)) for entry in entries])
        else:
            partitions = EncodedStructs([entry.settled for entry in entries])
        if policy is not None:
            for entry in changed:
                policy.count(entry, news[entry])
            if len(changed) < len(entries):
                settled = next(entry for entry in entries if entry not in news)
                if settled.replica is not None:
                    settled.replica.topic.fetches += len(entries) - len(changed)
        topic = entries[0].topic
        if isinstance(topic, bytes):
            return FetchableTopicResponse(topic_id=topic, partitions=partitions)
        return FetchableTopicResponse(topic=topic, partitions=partitions)

    def _encoded(self, entry: CachedPartition, answer: PartitionData | None) -> Any:
        return entry.settled if answer is None else encode_with_records(answer, FetchResponse, self._version)


class FetchAnswer:
    """The answer as it would be sent now: every partition of a full request, or the news of an incremental one."""

    __slots__ = ("_call", "_ledger", "_sessions", "_throttle", "incremental", "nodes", "partitions", "session")

    def __init__(
        self, sessions: FetchSessions, session: FetchSession, *, incremental: bool = False, ledger: Ledger | None = None
    ) -> None:
        self.session = session
        self.incremental = incremental
        self.partitions: dict[CachedPartition, PartitionData] = {}
        """The answers of partitions with news; for others of the session they are up to date, or in the ledger."""
        self.nodes: dict[int, LeaderAddress] | None = None
        """The leaders that the answer names as hints (KIP-951)."""
        self._sessions = sessions
        self._ledger = ledger
        self._throttle: FetchThrottle | None = None
        self._call: Call | None = None

    def obey(self, throttle: FetchThrottle, call: Call) -> None:
        """Obey the quotas of the client: the answer is empty if it has to wait."""
        self._throttle, self._call = throttle, call

    def leaves_out(self, entry: CachedPartition, answer: PartitionData) -> bool:
        """Whether a partition without records, which may wait, is no news."""
        ledger = self._ledger
        if ledger is None:
            sent = entry.sent_high_watermark, entry.sent_log_start_offset
            if answer.high_watermark != sent[0] or answer.log_start_offset != sent[1]:
                return False
            if not entry.held_back:
                self.session.changed.pop(entry, None)
            return self.incremental
        if entry.held_back:
            return False
        ledger.settle(entry, answer)
        self.session.changed.pop(entry, None)
        return True

    def topics(self, policy: Policy | None = None) -> list[FetchableTopicResponse]:
        """The answers that were collected last, by topic. With a policy those of a ledger are counted as sent."""
        if self._ledger is not None:
            return self._ledger.topics(self.partitions, policy)
        return self._group({}, self.partitions.items())

    def _group(
        self,
        topics: dict[str | bytes, FetchableTopicResponse],
        answers: Iterable[tuple[CachedPartition, PartitionData]],
    ) -> list[FetchableTopicResponse]:
        """Add these answers to those of their topics. Return all of them."""
        for entry, answer in answers:
            key = entry.topic
            topic = topics.get(key)
            if topic is not None:
                topic.partitions.append(answer)
            elif isinstance(key, bytes):
                topics[key] = FetchableTopicResponse(topic_id=key, partitions=[answer])
            else:
                topics[key] = FetchableTopicResponse(topic=key, partitions=[answer])
        return list(topics.values())

    def response(self, policy: Policy, topics: list[FetchableTopicResponse] | None = None) -> FetchResponse:
        """The response made of the answers that were collected last; ``topics`` if they are settled already."""
        if self._throttle is not None:
            throttled = self._throttled(self._throttle)
            if throttled is not None:
                return throttled
        if self._ledger is not None:
            topics = self._ledger.topics(self.partitions, policy)
        elif topics is None:
            topics = self._group({}, self.partitions.items())
            if self._settle(policy, self.partitions.items()) > MOST_ERRORS:
                self._end_session()
        return FetchResponse(
            throttle_time_ms=0,
            error_code=error_codes.NONE,
            session_id=self.session.id,
            responses=topics,
            node_endpoints=node_endpoints(self.nodes, NodeEndpoint) if self.nodes and not policy.is_replica else [],
        )

    def response_in_steps(self, policy: Policy) -> Generator[None, None, FetchResponse]:
        """Do the same as `response`, for a full request for many partitions. Those that change meanwhile stay due."""
        if self._throttle is not None:
            yield
            return self.response(policy)
        session, grouped = self.session, dict[str | bytes, FetchableTopicResponse]()
        due, session.changed = session.changed, {}
        errors = 0
        left = iter(self.partitions.items())
        while some := list(islice(left, STEP_ANSWERS)):
            self._group(grouped, some)
            changed, session.changed = session.changed, due
            errors += self._settle(policy, some)
            session.changed = changed
            yield
        due.update(session.changed)
        session.changed = due
        if errors > MOST_ERRORS:
            self._end_session()
        return self.response(policy, list(grouped.values()))

    def _settle(self, policy: Policy, answers: Iterable[tuple[CachedPartition, PartitionData]]) -> int:
        """Note in the session that these are sent. Return how many of them are errors."""
        session = self.session
        errors, goes_on = 0, session.id != NO_SESSION
        for entry, answer in answers:
            if answer.error_code != error_codes.NONE:
                errors += 1
            if goes_on:
                more = bool(answer.records) or must_not_wait(answer)
                # A replica that cuts its log takes nothing else of the answer: it has to hear that again.
                notified = answer.high_watermark if answer.diverging_epoch.epoch < 0 else UNREPORTED
                session.answered(entry, notified, answer.log_start_offset, more=more)
            policy.count(entry, answer)
        return errors

    def _end_session(self) -> None:
        """End a session that has too many errors."""
        if self.session.id != NO_SESSION:
            self._sessions.end(self.session)

    def _throttled(self, throttle: FetchThrottle) -> FetchResponse | None:
        """The empty response if the client has to wait. Nothing of the answer counts as sent then: the partitions stay
        due in their session. A session that this request would have begun is not kept, as in Kafka."""
        call, session = self._call, self.session
        assert call is not None
        throttle_ms = throttle.fetched(call, charged_bytes(self.topics(), call.api_version))
        if throttle_ms <= 0:
            return None
        for entry, answer in self.partitions.items():
            if answer.records:
                answer.records, entry.held_back = b"", True
        if not self.incremental and session.id != NO_SESSION:
            self._sessions.end(session)
        return FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=error_codes.NONE,
            session_id=session.id if self.incremental else NO_SESSION,
            responses=[],
        )


def must_not_wait(answer: PartitionData) -> bool:
    """Whether an answer is sent at once although it has no records."""
    if answer.error_code != error_codes.NONE or answer.diverging_epoch.epoch >= 0:
        return True
    return answer.preferred_read_replica != NO_PREFERENCE


def charged_bytes(topics: list[FetchableTopicResponse], version: int) -> int:
    """The bytes that a response with these topics is charged for (``FetchResponse.sizeOf``): its body and the size in
    front of it, but not its header, and not the leaders that are named as hints."""
    parts: list[Any] = []
    response = FetchResponse(throttle_time_ms=0, error_code=error_codes.NONE, session_id=NO_SESSION, responses=topics)
    codec_for(version).encode(response, parts)
    return SIZE_BYTES + sum(map(len, parts))
