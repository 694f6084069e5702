"""ShareAcknowledge (79), versions 1-2: accept, release, reject or renew records of a share group (KIP-932).

- Answered UNSUPPORTED_VERSION while ``share.version`` is below 1.
- The session must be there: epoch 0 is INVALID_SHARE_SESSION_EPOCH. Epoch -1 ends it, and releases all records of the
  member.
- v2: renewals of locks (KIP-1222), and the duration of locks in the answer.
- The answer leaves when the new states are stored.
"""

from typing import Any

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey
from kpybroker.requests.serving import leader_hints
from kpybroker.requests.serving.leader_hints import LeaderAddress, current_leader, node_endpoints
from kpybroker.requests.serving.share.acknowledgements import RENEWS_FROM, Acknowledging, Outcomes
from kpybroker.requests.serving.share.protocol import is_member_id, serves_share_groups
from kpybroker.requests.serving.share.share_leader import ShareContext
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.gathered import gathered
from kpywire import error_codes
from kpywire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(broker: ShareContext, request: ShareAcknowledgeRequest, call: Call) -> Any:
    """Take the acknowledgements of each partition."""
    if not serves_share_groups(broker):
        return _failed(error_codes.UNSUPPORTED_VERSION)
    if not is_member_id(request.member_id):
        return _failed(error_codes.INVALID_REQUEST)
    leader, epoch = broker.share_leader, request.share_session_epoch
    key = SessionKey(request.group_id or "", request.member_id or "")
    ended = None
    try:
        if epoch == INITIAL_EPOCH:
            raise KafkaError(error_codes.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            ended = leader.sessions.end(key)
        else:
            leader.sessions.proceed(key, epoch)
    except KafkaError as error:
        return _failed(error.code)
    is_renewal = call.api_version >= RENEWS_FROM and request.is_renew_ack
    taken = Acknowledging(leader, key, call, is_renewal=is_renewal).take(request.topics)

    def answer(parts: list[Any]) -> ShareAcknowledgeResponse:
        if ended is not None:
            leader.end_session(key, ended)
        return _response(broker, call, key.group_id, parts[0])

    return gathered([taken], answer)


def _response(broker: ShareContext, call: Call, group_id: str, taken: Outcomes) -> ShareAcknowledgeResponse:
    nodes: dict[int, LeaderAddress] = {}
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), (code, text) in taken.items():
        hint = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
        if code in leader_hints.AFTER_FETCH:
            leader_id, leader_epoch, node = current_leader(broker, topic_id, index, call.listener_name)
            hint = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            if node is not None:
                nodes[leader_id] = node
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[]))
        topic.partitions.append(
            PartitionData(partition_index=index, error_code=code, error_message=text, current_leader=hint)
        )
    return ShareAcknowledgeResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        acquisition_lock_timeout_ms=broker.share_leader.settings_of(group_id).partition.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=node_endpoints(nodes, NodeEndpoint),
    )


def _failed(code: int) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time_ms=0,
        error_code=code,
        responses=[],
        node_endpoints=[],
    )
