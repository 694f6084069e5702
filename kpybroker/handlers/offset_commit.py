"""OffsetCommit (8), versions 2-10: store the offsets up to which a group has read.

- v2-4: a retention time for this commit. v3: throttle time. v6: leader epochs (KIP-320). v7: static members (KIP-345).
- v9: a group that does not exist is GROUP_ID_NOT_FOUND; earlier versions ILLEGAL_GENERATION.
- v10: topics by id; an unknown one is UNKNOWN_TOPIC_ID (KIP-848).
- Partitions that do not exist are refused first, each by UNKNOWN_TOPIC_OR_PARTITION. If no others are left, the
  coordinator is not asked. Refusals come before the coordinator's answers, also within a topic.
- The empty group id is treated like any other.
"""

from collections.abc import Generator
from typing import Any, Final

from kpybroker.calls.call import Call
from kpybroker.calls.steps import STEP_ELEMENTS
from kpybroker.groups.offsets.large_commit import LargeCommit, prepared_commit
from kpybroker.serving.context import Context
from kpybroker.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpywire import error_codes
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kpywire.offset_commit import decoder_for

IDS_FROM: Final = 10

request_decoder = decoder_for


def handle(broker: Context, request: OffsetCommitRequest, call: Call) -> Any:
    """Commit the partitions that exist; refuse the others."""
    asked = request.topics
    answers, request.topics = _refuse_unknown(broker, asked, call, None)
    return _submit(broker, request, call, asked, answers, None) if request.topics else _response(answers)


def handle_in_steps(broker: Context, request: OffsetCommitRequest, call: Call) -> Generator[None, None, Any]:
    """Like `handle`, for a large request: its records are prepared in steps, and the decision is made in one step."""
    asked = request.topics
    answers, existing = None, []
    for start in range(0, len(asked), STEP_ELEMENTS):
        answers, some = _refuse_unknown(broker, asked[start : start + STEP_ELEMENTS], call, answers)
        existing += some
        yield
    request.topics = existing
    prepared = None
    if not broker.groups.kind.codec():
        metadata_max_bytes = broker.config["offset.metadata.max.bytes"]
        prepared = yield from prepared_commit(request, broker.scheduler.now_ms(), metadata_max_bytes)
        yield
    return _submit(broker, request, call, asked, answers, prepared) if request.topics else _response(answers)


def _refuse_unknown(
    broker: Context, topics: list[OffsetCommitRequestTopic], call: Call, answers: "_Answers | None"
) -> "tuple[_Answers | None, list[OffsetCommitRequestTopic]]":
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
            answers = answers or _Answers(by_id=by_id)
            answers.refuse(topic, [each.partition_index for each in topic.partitions], code)
            continue
        unknown = [each.partition_index for each in topic.partitions if each.partition_index not in known.partitions]
        if unknown:
            answers = answers or _Answers(by_id=by_id)
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
    answers: "_Answers | None",
    prepared: LargeCommit | None,
) -> Any:
    by_id = call.api_version >= IDS_FROM
    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call, prepared=prepared),
        lambda code: _refused(asked, coordinator_error(code), by_id=by_id),
        answer=None if answers is None else answers.merge,
        timeout_ms=commit_timeout_ms(broker),
    )


class _Answers:
    """The refusals and the coordinator's answers, each topic once (``OffsetCommitResponse.Builder``)."""

    def __init__(self, *, by_id: bool) -> None:
        self._by_id = by_id
        self._topics: dict[str | bytes, OffsetCommitResponseTopic] = {}

    def refuse(self, topic: OffsetCommitRequestTopic, indexes: list[int], code: int) -> None:
        self._of(topic).partitions += [
            OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes
        ]

    def merge(self, response: OffsetCommitResponse) -> OffsetCommitResponse:
        for topic in response.topics:
            self._of(topic).partitions += topic.partitions
        return self.response()

    def response(self) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=list(self._topics.values()))

    def _of(self, topic: OffsetCommitRequestTopic | OffsetCommitResponseTopic) -> OffsetCommitResponseTopic:
        key = topic.topic_id if self._by_id else topic.name
        found = self._topics.get(key)
        if found is None:
            found = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[])
            self._topics[key] = found
        return found


def _response(answers: _Answers | None) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[]) if answers is None else answers.response()


def _refused(topics: list[OffsetCommitRequestTopic], code: int, *, by_id: bool) -> OffsetCommitResponse:
    answers = _Answers(by_id=by_id)
    for topic in topics:
        answers.refuse(topic, [each.partition_index for each in topic.partitions], code)
    return answers.response()
