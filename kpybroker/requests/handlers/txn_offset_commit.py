"""TxnOffsetCommit (28), versions 0-6: store offsets of a group, which become valid when the transaction commits.

- v3: member, generation and static member are checked (KIP-447). v4: TRANSACTION_ABORTABLE. v5: this request adds the
  group's partition to the transaction (KIP-890); in earlier versions it is only looked up.
- v6: topics by id; an unknown one is UNKNOWN_TOPIC_ID. A group that does not exist is GROUP_ID_NOT_FOUND and an old
  epoch STALE_MEMBER_EPOCH, both ILLEGAL_GENERATION before (KIP-1319).
- Before v2 the answer is COORDINATOR_NOT_AVAILABLE instead of COORDINATOR_LOAD_IN_PROGRESS, which those clients do not
  know.
- Partitions that do not exist are refused first, each by UNKNOWN_TOPIC_OR_PARTITION. If no others are left, the
  coordinator is not asked. The empty group id is INVALID_GROUP_ID.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from copy import copy
from itertools import chain
from typing import Any

from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.machines.coordination.decision import Alike
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.requests.serving import large_commits
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.requests.serving.transaction_verification import (
    ADDS,
    KNOWS_ABORTABLE,
    ONLY_LOOKS,
    Errors,
    PartitionToVerify,
    Verifying,
)
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.deferred import Deferred
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, Work, in_blocks
from kpystorage.errors import DiskFailure
from kpywire import error_codes
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_FROM = 2
ABORTABLE_FROM = 4
ADDS_FROM = 5
IDS_FROM = 6
WRITTEN_TOGETHER = 2_048
"""The most offsets of a large commit that are written together."""


def handle(broker: Context, request: TxnOffsetCommitRequest, call: Call) -> Any:
    """Commit the partitions that exist; refuse the others."""
    answers = _TxnCommitAnswers(call.api_version)
    return _commit_existing(broker, request, call, answers, _existing(broker, request.topics, answers))


def handle_in_steps(broker: Context, request: TxnOffsetCommitRequest, call: Call) -> Work:
    """Like `handle`, for a large request. Its offsets are written a few thousand at a time: all become valid with the
    transaction."""
    answers = _TxnCommitAnswers(call.api_version)
    parts: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        found = yield from in_blocks(_parts(topic), lambda part: _existing(broker, (part,), answers))
        parts += chain.from_iterable(found)
        yield None
    existing = yield from _together(parts)
    if not parts:
        return answers.response()
    if not request.group_id:
        return (yield from _alike(answers, parts, error_codes.INVALID_GROUP_ID))
    try:
        index, wanted = _group_partition(broker, request.group_id)
    except KafkaError as error:
        return (yield from _alike(answers, parts, coordinator_error(error.code)))
    verified = Pending()
    _verifying(broker, request, call, wanted, verified.resolve).ask()
    errors: Errors = verified.response if verified.resolved else (yield verified)
    code = errors.get((GROUP_OFFSETS_TOPIC, index), error_codes.NONE)
    if code:
        return (yield from _alike(answers, parts, coordinator_error(code)))
    for some in existing:
        part = copy(request)
        part.topics = some
        prepared = yield from large_commits.prepared(broker, part)
        answer: Any = broker.groups.submit(
            request.group_id,
            group_request(broker, part, call, prepared=prepared),
            lambda code: Alike(coordinator_error(code)),
            timeout_ms=commit_timeout_ms(broker),
        )
        if isinstance(answer, Pending):
            answer = yield answer
        refused = prepared.refused if answer.error_code == error_codes.NONE else ()
        yield from _alike(answers, some, answer.error_code, refused)
    return answers.response()


def _parts(topic: TxnOffsetCommitRequestTopic) -> Iterator[TxnOffsetCommitRequestTopic]:
    """The topic, or topics of the same name with a few of its partitions each."""
    partitions = topic.partitions
    for start in range(0, len(partitions) or 1, STEP_ELEMENTS):
        some = partitions[start : start + STEP_ELEMENTS]
        yield TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=some)


def _together(
    parts: list[TxnOffsetCommitRequestTopic],
) -> Generator[None, None, list[list[TxnOffsetCommitRequestTopic]]]:
    """Return the parts that are written together, in steps."""
    together: list[list[TxnOffsetCommitRequestTopic]] = []
    room = 0
    for nth, part in enumerate(parts, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        if room <= 0:
            together.append([])
            room = WRITTEN_TOGETHER
        together[-1].append(part)
        room -= len(part.partitions)
    return together


def _alike(
    answers: "_TxnCommitAnswers", topics: list[TxnOffsetCommitRequestTopic], code: int, refused: Collection[int] = ()
) -> Generator[None, None, TxnOffsetCommitResponse]:
    """Return the response with one code for all partitions of these topics, but for those whose metadata are too large,
    in steps. ``refused``: their places."""
    place = 0
    for topic in topics:
        for each in topic.partitions:
            of_each = error_codes.OFFSET_METADATA_TOO_LARGE if place in refused else code
            answers.add(topic, each.partition_index, of_each)
            place += 1
            if place % STEP_ELEMENTS == 0:
                yield
    return answers.response()


def _verifying(
    broker: Context,
    request: TxnOffsetCommitRequest,
    call: Call,
    wanted: PartitionToVerify,
    done: Callable[[Errors], object],
) -> Verifying:
    return Verifying(
        broker,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [wanted],
        _operation(call.api_version),
        done,
    )


def _existing(
    broker: Context, asked: Iterable[TxnOffsetCommitRequestTopic], answers: "_TxnCommitAnswers"
) -> list[TxnOffsetCommitRequestTopic]:
    """The topics with those of their partitions that exist. The others are refused."""
    existing = []
    for topic in asked:
        if answers.by_id:
            known, unknown = broker.image.topics_by_id.get(topic.topic_id), error_codes.UNKNOWN_TOPIC_ID
        else:
            known = broker.image.topics.get(topic.name)
            unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
        if known is None:
            answers.refuse_all(topic, unknown)
            continue
        named = TxnOffsetCommitRequestTopic(name=known.name, topic_id=known.id, partitions=[])
        for each in topic.partitions:
            if each.partition_index in known.partitions:
                named.partitions.append(each)
            else:
                answers.add(named, each.partition_index, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        if named.partitions:
            existing.append(named)
    return existing


def _commit_existing(
    broker: Context,
    request: TxnOffsetCommitRequest,
    call: Call,
    answers: "_TxnCommitAnswers",
    existing: list[TxnOffsetCommitRequestTopic],
) -> Any:
    if not existing:
        return answers.response()
    request.topics = existing
    if not request.group_id:
        return answers.refuse(existing, error_codes.INVALID_GROUP_ID)
    try:
        index, wanted = _group_partition(broker, request.group_id)
    except KafkaError as error:
        return answers.refuse(existing, coordinator_error(error.code))
    answer = Deferred()

    def verified(errors: Errors) -> None:
        code = errors.get((GROUP_OFFSETS_TOPIC, index), error_codes.NONE)
        if code:
            answer.deliver(answers.refuse(existing, coordinator_error(code)))
        else:
            answer.deliver(_commit(broker, request, call, answers))

    _verifying(broker, request, call, wanted, verified).ask()
    return answer.response


def _operation(version: int) -> int:
    if version >= ADDS_FROM:
        return ADDS
    return KNOWS_ABORTABLE if version >= ABORTABLE_FROM else ONLY_LOOKS


def _group_partition(broker: Context, group_id: str) -> tuple[int, PartitionToVerify]:
    """The partition that stores a group, which this node must lead. Raises KafkaError if it does not."""
    if not broker.groups.partitions:
        raise KafkaError(error_codes.NOT_COORDINATOR)
    index = partition_for(group_id, broker.groups.partitions)
    try:
        leader = broker.replicas.find(GROUP_OFFSETS_TOPIC, index).led()
    except DiskFailure as failure:
        broker.replicas.directory_failed(failure)
        raise KafkaError(error_codes.NOT_COORDINATOR) from None
    return index, PartitionToVerify(leader, GROUP_OFFSETS_TOPIC, index)


def _commit(broker: Context, request: TxnOffsetCommitRequest, call: Call, answers: "_TxnCommitAnswers") -> Any:
    topics = request.topics
    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call),
        lambda code: answers.refuse(topics, coordinator_error(code)),
        answer=answers.merge,
        timeout_ms=commit_timeout_ms(broker),
    )


_Topic = TxnOffsetCommitRequestTopic | TxnOffsetCommitResponseTopic


class _TxnCommitAnswers:
    """The refusals and the coordinator's answers, each topic once (``TxnOffsetCommitResponse.Builder``)."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.by_id = version >= IDS_FROM
        """Whether requests and responses have topics by their ids."""
        self._topics: dict[str | bytes, TxnOffsetCommitResponseTopic] = {}

    def add(self, topic: _Topic, index: int, code: int) -> None:
        """Add the answer of one partition."""
        if code == error_codes.COORDINATOR_LOAD_IN_PROGRESS and self._version < LOADING_FROM:
            code = error_codes.COORDINATOR_NOT_AVAILABLE
        answer = TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
        self._of(topic).partitions.append(answer)

    def _of(self, topic: _Topic) -> TxnOffsetCommitResponseTopic:
        """The answers for a topic. The topic is in the response from now on, even if there are none."""
        key = topic.topic_id if self.by_id else topic.name
        found = self._topics.get(key)
        if found is None:
            found = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[])
            self._topics[key] = found
        return found

    def refuse_all(self, topic: TxnOffsetCommitRequestTopic, code: int) -> None:
        """Add one error for all partitions of a topic, which is in the response even if it has none."""
        self._of(topic)
        for each in topic.partitions:
            self.add(topic, each.partition_index, code)

    def refuse(self, topics: list[TxnOffsetCommitRequestTopic], code: int) -> TxnOffsetCommitResponse:
        """The response with one error for all partitions of these topics."""
        for topic in topics:
            for each in topic.partitions:
                self.add(topic, each.partition_index, code)
        return self.response()

    def merge(self, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        """The refusals, followed by the coordinator's answers."""
        for topic in response.topics:
            for each in topic.partitions:
                self.add(topic, each.partition_index, each.error_code)
        return self.response()

    def response(self) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(throttle_time_ms=0, topics=list(self._topics.values()))
