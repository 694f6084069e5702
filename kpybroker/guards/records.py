"""The guard of Produce. Fetch asks in `kpybroker.serving.reading`, for each partition that it reads."""

from typing import Any

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.guards.verdict import Reduced, Refusal, Verdict
from kpybroker.serving.permissions import GuardedImage, may
from kpybroker.serving.transactional_batches import denied_whole, writes_into_transaction
from kpywire import error_codes
from kpywire.produce import Produce, TopicKey, codec_for


def produce(node: GuardedImage, request: Produce, call: Call) -> Verdict:
    """Produce: WRITE on the transactional id if any batch is transactional, and WRITE on each topic.

    An unknown topic id is left to the handler: UNKNOWN_TOPIC_ID. An unknown name must look like a forbidden one.
    """
    transactional_id, acks, _, topics = request
    if (
        transactional_id is not None
        and writes_into_transaction(topics)
        and not may(node, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return Refusal(denied_whole(call, acks, topics))
    names = node.image.topics_by_id
    denied: dict[TopicKey, dict[int, None]] = {}
    for key, partitions in topics:
        if isinstance(key, bytes):
            known = names.get(key)
            if known is None:
                continue
            name = known.name
        else:
            name = key
        if key not in denied and may(node, call, Operation.WRITE, ResourceType.TOPIC, name):
            continue
        denied.setdefault(key, {}).update((index, None) for index, _ in partitions)
    if not denied:
        return None
    code, codec = error_codes.TOPIC_AUTHORIZATION_FAILED, codec_for(call.api_version)
    refusals = [(key, [codec.refusal(index, code, None) for index in indexes]) for key, indexes in denied.items()]
    for _nth in range(sum(map(len, denied.values()))):
        call.counters.count_error(code)

    def complete(answers: Any) -> Any:
        if acks == 0:
            call.peer.give_up("a produce request without acknowledgement failed: its sender may not write the topic")
            return None
        answers.extend(refusals)
        return answers

    return Reduced(request._replace(topics=[topic for topic in topics if topic[0] not in denied]), complete)
