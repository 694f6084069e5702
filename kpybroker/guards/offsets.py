"""The guards of requests about the committed offsets of groups."""

from copy import copy
from typing import Any

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.failed_response import failed_response
from kpybroker.guards.parts import denied_names, with_only
from kpybroker.guards.verdict import Reduced, Refusal, Verdict, refused
from kpybroker.serving.permissions import GuardedImage, denied_topics, may
from kpywire import error_codes
from kpywire.messages.offset_commit import OffsetCommitRequest
from kpywire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kpywire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kpywire.messages.txn_offset_commit import TxnOffsetCommitRequest

_COMMIT_IDS_FROM = 10
_SEVERAL_GROUPS_FROM = 8
_NO_OFFSET = -1
_DENIED = error_codes.TOPIC_AUTHORIZATION_FAILED


def offset_commit(node: GuardedImage, request: OffsetCommitRequest, call: Call) -> Verdict:
    """OffsetCommit: READ on the group, then READ on each topic. An unknown topic id is left to the handler."""
    if not may(node, call, Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    if call.api_version >= _COMMIT_IDS_FROM:
        known = {topic.topic_id: node.image.topics_by_id.get(topic.topic_id) for topic in request.topics}
        names = {topic_id: topic.name for topic_id, topic in known.items() if topic is not None}
        denied = denied_topics(node, call, Operation.READ, names.values())
        return _committed(request, call, [topic for topic in request.topics if names.get(topic.topic_id) in denied])
    denied = denied_topics(node, call, Operation.READ, (topic.name for topic in request.topics))
    return _committed(request, call, [topic for topic in request.topics if topic.name in denied])


def txn_offset_commit(node: GuardedImage, request: TxnOffsetCommitRequest, call: Call) -> Verdict:
    """TxnOffsetCommit: WRITE on the transactional id, READ on the group, then READ on each topic."""
    if not may(node, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return refused(request, call, error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(node, call, Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    denied = denied_topics(node, call, Operation.READ, (topic.name for topic in request.topics))
    return _committed(request, call, [topic for topic in request.topics if topic.name in denied])


def _committed(request: Any, call: Call, denied: list[Any]) -> Verdict:
    """The verdict on a commit without these topics; refusals come before the coordinator's answers."""
    if not denied:
        return None
    refusals = failed_response(with_only(request, "topics", denied), call.api_version, _DENIED).topics
    rest = [topic for topic in request.topics if topic not in denied]
    if not rest:
        return Refusal(failed_response(request, call.api_version, _DENIED))

    def complete(response: Any) -> Any:
        whole = copy(response)  # the coordinator may answer with it again
        whole.topics = [*refusals, *response.topics]
        return whole

    return Reduced(with_only(request, "topics", rest), complete)


def offset_delete(node: GuardedImage, request: OffsetDeleteRequest, call: Call) -> Verdict:
    """OffsetDelete: DELETE on the group, READ on each topic. An error of the group leaves no other answers."""
    if not may(node, call, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    denied = denied_topics(node, call, Operation.READ, (topic.name for topic in request.topics))
    if not denied:
        return None
    refusals = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=_DENIED)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.name in denied
    ]

    def complete(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == error_codes.NONE:
            response.topics = [*refusals, *response.topics]
        return response

    return Reduced(
        with_only(request, "topics", [topic for topic in request.topics if topic.name not in denied]), complete
    )


def offset_fetch(node: GuardedImage, request: OffsetFetchRequest, call: Call) -> Verdict:
    """OffsetFetch: DESCRIBE on each group and each topic. If all topics are asked for, the others are left out."""
    if call.api_version < _SEVERAL_GROUPS_FROM:
        return _offsets_of_one(node, request, call)
    groups = [group.group_id for group in request.groups]
    denied = denied_names(node, call, Operation.DESCRIBE, ResourceType.GROUP, groups)
    asked = [group for group in request.groups if group.group_id not in denied]
    guarded = [_GroupsOffsets(node, call, group) for group in asked]
    if not denied and all(each.is_allowed for each in guarded):
        return None

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        found = iter([each.completed(group) for each, group in zip(guarded, response.groups, strict=True)])
        code = error_codes.GROUP_AUTHORIZATION_FAILED
        response.groups = [
            OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=code)
            if group_id in denied
            else next(found)
            for group_id in groups
        ]
        return response

    return Reduced(with_only(request, "groups", [each.reduced for each in guarded]), complete)


class _GroupsOffsets:
    """The question about one group's offsets: the topics that may be described."""

    def __init__(self, node: GuardedImage, call: Call, group: OffsetFetchRequestGroup) -> None:
        self._node, self._call = node, call
        self._asks_all = group.topics is None
        self.reduced = group
        topics = group.topics or []
        by_id = call.api_version >= _COMMIT_IDS_FROM
        known = node.image.topics_by_id
        names = [
            (found.name if (found := known.get(topic.topic_id)) is not None else None) if by_id else topic.name
            for topic in topics
        ]
        denied = denied_topics(node, call, Operation.DESCRIBE, (name for name in names if name is not None))
        self._denied = [topic for topic, name in zip(topics, names, strict=True) if name in denied]
        self.is_allowed = not self._asks_all and not self._denied
        if self._denied:
            rest = [topic for topic, name in zip(topics, names, strict=True) if name not in denied]
            self.reduced = with_only(group, "topics", rest)

    def completed(self, group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if self._asks_all:
            denied = denied_topics(self._node, self._call, Operation.DESCRIBE, (topic.name for topic in group.topics))
            group.topics = [topic for topic in group.topics if topic.name not in denied]
        elif group.error_code == error_codes.NONE:
            group.topics = group.topics + [
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=_DENIED
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in self._denied
            ]
        return group


def _offsets_of_one(node: GuardedImage, request: OffsetFetchRequest, call: Call) -> Verdict:
    if not may(node, call, Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    topics = request.topics
    if topics is None:

        def visible(response: OffsetFetchResponse) -> OffsetFetchResponse:
            hidden = denied_topics(node, call, Operation.DESCRIBE, (topic.name for topic in response.topics))
            response.topics = [topic for topic in response.topics if topic.name not in hidden]
            return response

        return Reduced(request, visible)
    denied = denied_topics(node, call, Operation.DESCRIBE, (topic.name for topic in topics))
    if not denied:
        return None
    refusals = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=_DENIED
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
        if topic.name in denied
    ]

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if response.error_code == error_codes.NONE:
            response.topics = [*response.topics, *refusals]
        return response

    return Reduced(with_only(request, "topics", [topic for topic in topics if topic.name not in denied]), complete)
