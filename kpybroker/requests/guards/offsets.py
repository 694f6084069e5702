"""The guards of requests about the committed offsets of groups."""

from collections.abc import Callable, Generator, Iterable
from copy import copy
from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.failed_response import failing
from kpybroker.requests.guards.parts import merged, parted, refused_topics, with_only
from kpybroker.requests.guards.verdict import InSteps, Reduced, Verdict, refused
from kpybroker.requests.serving.permissions import GuardedImage, denied_among, denied_topics, may
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.scattered import Scattered
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
_TXN_COMMIT_IDS_FROM = 6
_SEVERAL_GROUPS_FROM = 8
_NO_OFFSET = -1
_DENIED = error_codes.TOPIC_AUTHORIZATION_FAILED
_FEW_TOPICS = 16
"""Commits of so few topics, which most are, are examined at once."""


def offset_commit(node: GuardedImage, request: OffsetCommitRequest, call: Call) -> Verdict | InSteps:
    """OffsetCommit: READ on the group, then READ on each topic. An unknown topic id is left to the handler."""
    if not may(node, call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    if call.api_version >= _COMMIT_IDS_FROM:
        return _by_id(node, request, call)
    return _by_name(node, request, call)


def txn_offset_commit(node: GuardedImage, request: TxnOffsetCommitRequest, call: Call) -> Verdict | InSteps:
    """TxnOffsetCommit: WRITE on the transactional id, READ on the group, then READ on each topic. An unknown topic
    id is left to the handler."""
    if not may(node, call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return refused(request, call, error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(node, call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    if call.api_version >= _TXN_COMMIT_IDS_FROM:
        return _by_id(node, request, call)
    return _by_name(node, request, call)


def _by_id(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    known = node.image.topics_by_id

    def name_of(topic: Any) -> str | None:
        found = known.get(topic.topic_id)
        return None if found is None else found.name

    if len(request.topics) > _FEW_TOPICS:
        return _many(node, request, call, name_of)
    names = [name for name in map(name_of, request.topics) if name is not None]
    denied = denied_topics(node, call, AclOperation.READ, names)
    return _committed(request, call, lambda topic: name_of(topic) in denied) if denied else None


def _by_name(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    if len(request.topics) > _FEW_TOPICS:
        return _many(node, request, call, lambda topic: topic.name)
    denied = denied_topics(node, call, AclOperation.READ, [topic.name for topic in request.topics])
    return _committed(request, call, lambda topic: topic.name in denied) if denied else None


def _many(node: GuardedImage, request: Any, call: Call, name_of: Callable[[Any], str | None]) -> InSteps:
    names = map(name_of, request.topics)
    denied = yield from denied_among(node, call, AclOperation.READ, ResourceType.TOPIC, names)
    if not denied:
        return None
    verdict = yield from _committed(request, call, lambda topic: name_of(topic) in denied)
    yield from denied.emptied()
    return verdict


def _committed(request: Any, call: Call, is_denied: Callable[[Any], bool]) -> InSteps:
    """The verdict on a commit without the denied topics; refusals come before the coordinator's answers."""
    denied, rest = yield from parted(request.topics, is_denied)
    if not rest:
        return (yield from refused(request, call, _DENIED))
    refusals = (yield from failing(with_only(request, "topics", denied), call.api_version, _DENIED)).topics

    def complete(response: Any) -> Any:
        whole = copy(response)  # the coordinator may answer with it again
        whole.topics = [*refusals, *response.topics]
        return whole

    return Reduced(with_only(request, "topics", rest), complete)


def offset_delete(node: GuardedImage, request: OffsetDeleteRequest, call: Call) -> InSteps:
    """OffsetDelete: DELETE on the group, READ on each topic. An error of the group leaves no other answers."""
    if not may(node, call, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return (yield from refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED))
    names = (topic.name for topic in request.topics)
    denied = yield from denied_among(node, call, AclOperation.READ, ResourceType.TOPIC, names)
    if not denied:
        return None
    out, rest = yield from parted(request.topics, lambda topic: topic.name in denied)
    refusals = yield from refused_topics(
        out,
        lambda topic: [each.partition_index for each in topic.partitions],
        lambda index: OffsetDeleteResponsePartition(partition_index=index, error_code=_DENIED),
        lambda topic, partitions: OffsetDeleteResponseTopic(name=topic.name, partitions=partitions),
    )

    def complete(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == error_codes.NONE:
            response.topics = [*refusals, *response.topics]
        return response

    return Reduced(with_only(request, "topics", rest), complete)


def offset_fetch(node: GuardedImage, request: OffsetFetchRequest, call: Call) -> InSteps:
    """OffsetFetch: DESCRIBE on each group and each topic. If all topics are asked for, the others are left out."""
    if call.api_version < _SEVERAL_GROUPS_FROM:
        return (yield from _offsets_of_one(node, request, call))
    groups = (group.group_id for group in request.groups)
    denied = yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.GROUP, groups)
    is_denied = lambda group: group.group_id in denied  # noqa: E731
    out, asked = yield from parted(request.groups, is_denied)
    guarded = []
    for group in asked:
        each = _GroupsOffsets(node, call, group)
        yield from each.examine()
        yield
        guarded.append(each)
    if not denied and all(each.is_allowed for each in guarded):
        return None
    code = error_codes.GROUP_AUTHORIZATION_FAILED
    refusals = [OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code) for group in out]

    def complete(response: OffsetFetchResponse) -> Generator[None, None, OffsetFetchResponse]:
        for each, group in zip(guarded, response.groups, strict=True):
            yield from each.complete(group)
            yield
        response.groups = yield from merged(request.groups, is_denied, refusals, response.groups)
        return response

    return Reduced(with_only(request, "groups", [each.reduced for each in guarded]), complete)


class _GroupsOffsets:
    """The question about one group's offsets: the topics that may be described."""

    def __init__(self, node: GuardedImage, call: Call, group: OffsetFetchRequestGroup) -> None:
        self._node, self._call = node, call
        self._asks_all = group.topics is None
        self.reduced = group
        self._denied: list[Any] = []

    @property
    def is_allowed(self) -> bool:
        """Whether nothing is removed from the question or its answer."""
        return not self._asks_all and not self._denied

    def examine(self) -> Generator[None, None, None]:
        """Divide the topics, in steps."""
        topics = self.reduced.topics or []
        denied = yield from self._denied_among(map(self._name_of, topics))
        if denied:
            self._denied, rest = yield from parted(topics, lambda topic: self._name_of(topic) in denied)
            self.reduced = with_only(self.reduced, "topics", rest)

    def _name_of(self, topic: Any) -> str | None:
        if self._call.api_version < _COMMIT_IDS_FROM:
            name: str = topic.name
            return name
        found = self._node.image.topics_by_id.get(topic.topic_id)
        return None if found is None else found.name

    def _denied_among(self, names: Iterable[str | None]) -> Generator[None, None, Scattered[str, bool]]:
        return (yield from denied_among(self._node, self._call, AclOperation.DESCRIBE, ResourceType.TOPIC, names))

    def complete(self, group: OffsetFetchResponseGroup) -> Generator[None, None, None]:
        """Complete the answer about the group, in steps."""
        if self._asks_all:
            denied = yield from self._denied_among(topic.name for topic in group.topics)
            _, group.topics = yield from parted(group.topics, lambda topic: topic.name in denied)
        elif group.error_code == error_codes.NONE and self._denied:
            refusals = yield from refused_topics(
                self._denied,
                lambda topic: topic.partition_indexes,
                lambda index: OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=_DENIED
                ),
                lambda topic, partitions: OffsetFetchResponseTopics(
                    name=topic.name, topic_id=topic.topic_id, partitions=partitions
                ),
            )
            group.topics = group.topics + refusals


def _offsets_of_one(node: GuardedImage, request: OffsetFetchRequest, call: Call) -> InSteps:
    if not may(node, call, AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return (yield from refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED))
    topics = request.topics
    if topics is None:

        def visible(response: OffsetFetchResponse) -> Generator[None, None, OffsetFetchResponse]:
            names = (topic.name for topic in response.topics)
            hidden = yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
            _, response.topics = yield from parted(response.topics, lambda topic: topic.name in hidden)
            return response

        return Reduced(request, visible)
    names = (topic.name for topic in topics)
    denied = yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    if not denied:
        return None
    out, rest = yield from parted(topics, lambda topic: topic.name in denied)
    refusals = yield from refused_topics(
        out,
        lambda topic: topic.partition_indexes,
        lambda index: OffsetFetchResponsePartition(
            partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=_DENIED
        ),
        lambda topic, partitions: OffsetFetchResponseTopic(name=topic.name, partitions=partitions),
    )

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if response.error_code == error_codes.NONE:
            response.topics = [*response.topics, *refusals]
        return response

    return Reduced(with_only(request, "topics", rest), complete)
