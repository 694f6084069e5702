"""OffsetCommit (8), versions 2-10: store the offsets up to which a group has read.

- v2-4: a retention time for this commit. v3: throttle time. v6: leader epochs (KIP-320). v7: static members (KIP-345).
- v9: a group that does not exist is GROUP_ID_NOT_FOUND; earlier versions ILLEGAL_GENERATION.
- v10: topics by id; an unknown one is UNKNOWN_TOPIC_ID (KIP-848).
- Partitions that do not exist are refused first, each by UNKNOWN_TOPIC_OR_PARTITION. If no others are left, the
  coordinator is not asked. Refusals come before the coordinator's answers, also within a topic.
- The empty group id is treated like any other.
"""

from collections.abc import Generator, Iterator
from typing import Any, Final

from kpybroker.requests.serving import large_commits
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, Work
from kpywire import error_codes
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kpywire.offset_commit import decoder_for

IDS_FROM: Final = 10
NONE_REFUSED: Final[frozenset[int]] = frozenset()

request_decoder = decoder_for


def handle(broker: Context, request: OffsetCommitRequest, call: Call) -> Any:
    """Commit the partitions that exist; refuse the others."""
    asked = request.topics
    answers, request.topics = _refuse_unknown(broker, asked, call, None)
    return _submit(broker, request, call, asked, answers) if request.topics else _response(answers)


def handle_in_steps(broker: Context, request: OffsetCommitRequest, call: Call) -> Work:
    """Like `handle`, for a large request: its records are prepared in steps, and the decision is made in one step."""
    asked = request.topics
    answers, request.topics = yield from _refuse_unknown_in_steps(broker, asked, call)
    if not request.topics:
        return _response(answers)
    prepared = yield from large_commits.prepared(broker, request)
    found = broker.groups.submit(
        request.group_id,
        group_request(broker, request, call, prepared=prepared),
        coordinator_error,
        timeout_ms=commit_timeout_ms(broker),
    )
    if isinstance(found, Pending):
        found = yield found
    if isinstance(found, int):  # the coordinator has decided on nothing: all partitions get its error
        answers = _CommitAnswers(by_id=call.api_version >= IDS_FROM)
        return (yield from _alike(asked, found, NONE_REFUSED, answers))
    refused = prepared.refused if found.error_code == error_codes.NONE else NONE_REFUSED
    return (yield from _alike(request.topics, found.error_code, refused, answers))


def _refuse_unknown_in_steps(
    broker: Context, asked: list[OffsetCommitRequestTopic], call: Call
) -> "Generator[None, None, tuple[_CommitAnswers | None, list[OffsetCommitRequestTopic]]]":
    """Return what `_refuse_unknown` returns, in steps."""
    answers: _CommitAnswers | None = None
    existing: list[OffsetCommitRequestTopic] = []
    walked = 0
    for topic in asked:
        kept: list[OffsetCommitRequestPartition] = []
        for part in _parts(topic):
            answers, some = _refuse_unknown(broker, [part], call, answers)
            for each in some:
                topic.name, topic.topic_id = each.name, each.topic_id
                kept += each.partitions
            walked += 1 + len(part.partitions)
            if walked >= STEP_ELEMENTS:
                walked = 0
                yield
        if len(kept) < len(topic.partitions):
            topic = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=kept)
        if kept:
            existing.append(topic)
    return answers, existing


def _alike(
    topics: list[OffsetCommitRequestTopic], code: int, refused: frozenset[int], answers: "_CommitAnswers | None"
) -> Generator[None, None, OffsetCommitResponse]:
    """Return the answer with one code for all partitions, but for those whose metadata are too large, in steps.
    ``refused``: their places; ``answers``: refusals that come before."""
    in_order: list[OffsetCommitResponseTopic] = []
    place = walked = 0
    for topic in topics:
        if answers is None:
            answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[])
            in_order.append(answered)
        else:
            answered = answers.topic(topic)
        for part in _parts(topic):
            answered.partitions += [
                OffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=error_codes.OFFSET_METADATA_TOO_LARGE if nth in refused else code,
                )
                for nth, each in enumerate(part.partitions, place)
            ]
            place += len(part.partitions)
            walked += 1 + len(part.partitions)
            if walked >= STEP_ELEMENTS:
                walked = 0
                yield
    return OffsetCommitResponse(topics=in_order) if answers is None else answers.response()


def _parts(topic: OffsetCommitRequestTopic) -> Iterator[OffsetCommitRequestTopic]:
    """The topic, or topics of the same name with a few of its partitions each."""
    partitions = topic.partitions
    if len(partitions) <= STEP_ELEMENTS:
        yield topic
        return
    for start in range(0, len(partitions), STEP_ELEMENTS):
        some = partitions[start : start + STEP_ELEMENTS]
        yield OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=some)


def _refuse_unknown(
    broker: Context, topics: list[OffsetCommitRequestTopic], call: Call, answers: "_CommitAnswers | None"
) -> "tuple[_CommitAnswers | None, list[OffsetCommitRequestTopic]]":
    """The refusals of the partitions that do not exist, None without any, and the topics with those that do."""
    by_id = call.api_version >= IDS_FROM
    existing: list[OffsetCommitRequestTopic] = []
    for topic in topics:
        if by_id:
            known = broker.image.topics_by_id.get(topic.topic_id)
            if known is not None:
                topic.name = known.name
        else:
            known = broker.image.topics.get(topic.name)
            if known is not None:
                topic.topic_id = known.id
        if known is None:
            code = error_codes.UNKNOWN_TOPIC_ID if by_id else error_codes.UNKNOWN_TOPIC_OR_PARTITION
            answers = answers or _CommitAnswers(by_id=by_id)
            answers.refuse(topic, [each.partition_index for each in topic.partitions], code)
            continue
        unknown = [each.partition_index for each in topic.partitions if each.partition_index not in known.partitions]
        if unknown:
            answers = answers or _CommitAnswers(by_id=by_id)
            answers.refuse(topic, unknown, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
            partitions = [each for each in topic.partitions if each.partition_index in known.partitions]
            topic = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        if topic.partitions:
            existing.append(topic)
    return answers, existing


def _submit(
    broker: Context,
    request: OffsetCommitRequest,
    call: Call,
    asked: list[OffsetCommitRequestTopic],
    answers: "_CommitAnswers | None",
) -> Any:
    by_id = call.api_version >= IDS_FROM
    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call),
        lambda code: _refused(asked, coordinator_error(code), by_id=by_id),
        answer=None if answers is None else answers.merge,
        timeout_ms=commit_timeout_ms(broker),
    )


class _CommitAnswers:
    """The refusals and the coordinator's answers, each topic once (``OffsetCommitResponse.Builder``)."""

    def __init__(self, *, by_id: bool) -> None:
        self._by_id = by_id
        self._topics: dict[str | bytes, OffsetCommitResponseTopic] = {}

    def refuse(self, topic: OffsetCommitRequestTopic, indexes: list[int], code: int) -> None:
        self.topic(topic).partitions += [
            OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes
        ]

    def merge(self, response: OffsetCommitResponse) -> OffsetCommitResponse:
        for topic in response.topics:
            self.topic(topic).partitions += topic.partitions
        return self.response()

    def response(self) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=list(self._topics.values()))

    def topic(self, topic: OffsetCommitRequestTopic | OffsetCommitResponseTopic) -> OffsetCommitResponseTopic:
        """The answer of a topic. It is in the response from now on."""
        key = topic.topic_id if self._by_id else topic.name
        found = self._topics.get(key)
        if found is None:
            found = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[])
            self._topics[key] = found
        return found


def _response(answers: _CommitAnswers | None) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[]) if answers is None else answers.response()


def _refused(topics: list[OffsetCommitRequestTopic], code: int, *, by_id: bool) -> OffsetCommitResponse:
    answers = _CommitAnswers(by_id=by_id)
    for topic in topics:
        answers.refuse(topic, [each.partition_index for each in topic.partitions], code)
    return answers.response()
