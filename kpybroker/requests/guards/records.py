"""The guard of Produce. Fetch asks in `kpybroker.requests.serving.reading`, for each partition that it reads."""

from typing import Any, Final

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.requests.guards.verdict import InSteps, Reduced, Refusal, Verdict
from kpybroker.requests.serving.permissions import GuardedImage, may
from kpybroker.requests.serving.transactional_batches import denied_whole, writes_into_transaction
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.produce import Produce, TopicKey, codec_for

FEW_TOPICS: Final = 16
"""Requests with so few topics, which most are, are examined at once."""
STEP_TOPICS: Final = 64


def produce(node: GuardedImage, request: Produce, call: Call) -> Verdict | InSteps:
    """Produce: WRITE on the transactional id if any batch is transactional, and WRITE on each topic.

    An unknown topic id is left to the handler: UNKNOWN_TOPIC_ID. An unknown name must look like a forbidden one.
    """
    transactional_id, acks, _, topics = request
    if (
        transactional_id is not None
        and writes_into_transaction(topics)
        and not may(node, call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return Refusal(denied_whole(call, acks, topics))
    if len(topics) > FEW_TOPICS:
        return _divided(node, request, call)
    for key, _partitions in topics:
        if not _may_write(node, call, key, logs_denial=False):
            return _divided(node, request, call)
    return None


def _may_write(node: GuardedImage, call: Call, key: TopicKey, *, logs_denial: bool) -> bool:
    if isinstance(key, bytes):
        known = node.image.topics_by_id.get(key)
        if known is None:
            return True
        name = known.name
    else:
        name = key
    return may(node, call, AclOperation.WRITE, ResourceType.TOPIC, name, logs_denial=logs_denial)


def _divided(node: GuardedImage, request: Produce, call: Call) -> InSteps:
    acks, topics = request.acks, request.topics
    denied: dict[TopicKey, dict[int, None]] = {}
    for nth, (key, partitions) in enumerate(topics, 1):
        if nth % STEP_TOPICS == 0:
            yield
        if key in denied or not _may_write(node, call, key, logs_denial=True):
            denied.setdefault(key, {}).update((index, None) for index, _ in partitions)
    if not denied:
        return None
    code, codec = error_codes.TOPIC_AUTHORIZATION_FAILED, codec_for(call.api_version)
    refusals: list[tuple[TopicKey, list[bytes]]] = []
    for key, indexes in denied.items():
        refused: list[bytes] = []
        for nth, index in enumerate(indexes, 1):
            if nth % STEP_TOPICS == 0:
                yield
            refused.append(codec.refusal(index, code, None))
            call.counters.count_error(code)
        refusals.append((key, refused))
        if len(refusals) % STEP_TOPICS == 0:
            yield

    def complete(answers: Any) -> Any:
        if acks == 0:
            call.peer.give_up("a produce request without acknowledgement failed: its sender may not write the topic")
            return None
        answers.extend(refusals)
        return answers

    return Reduced(request._replace(topics=[topic for topic in topics if topic[0] not in denied]), complete)
