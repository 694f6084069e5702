"""ShareFetch (78), versions 1-2: acquire records for a member of a share group, and take acknowledgements (KIP-932).

- Answered UNSUPPORTED_VERSION while ``share.version`` is below 1.
- Epoch 0 opens a share session, -1 ends it: then acknowledgements are taken, nothing is read, and all records of the
  member are released. A full broker answers SHARE_SESSION_LIMIT_REACHED after ``max_wait_ms``.
- v2: ``record_limit`` (KIP-1206); renewals of locks, with which nothing is read (KIP-1222).
- An answer waits for records and for its acknowledgements to be stored. Partitions without news are left out.
"""

from collections.abc import Generator, Iterable
from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share.acquiring import AcquireRequest
from kpybroker.machines.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Partition, SessionKey
from kpybroker.requests.serving import leader_hints
from kpybroker.requests.serving.leader_hints import LeaderAddress, current_leader, node_endpoints
from kpybroker.requests.serving.permissions import may
from kpybroker.requests.serving.share.acknowledgements import RENEWS_FROM, Acknowledging, Outcomes
from kpybroker.requests.serving.share.protocol import is_member_id, serves_share_groups
from kpybroker.requests.serving.share.share_leader import ShareContext
from kpybroker.requests.serving.share.waiting import Answer, ShareFetchBounds, ShareRead, refused
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.gathered import gathered
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, at_once
from kpywire import error_codes
from kpywire.messages.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

RECORD_LIMIT = 1
"""The acquire mode in which ``max_records`` is strict."""


def handle(broker: ShareContext, request: ShareFetchRequest, call: Call) -> Any:
    """Take acknowledgements, then read the partitions of the session."""
    return at_once(handle_in_steps(broker, request, call))


def handle_in_steps(broker: ShareContext, request: ShareFetchRequest, call: Call) -> Generator[None, None, Any]:
    """Like `handle`, for a large request."""
    if not serves_share_groups(broker):
        return _failed(error_codes.UNSUPPORTED_VERSION)
    if not is_member_id(request.member_id):
        return _failed(error_codes.INVALID_REQUEST)
    is_renewal = call.api_version >= RENEWS_FROM and request.is_renew_ack
    if is_renewal and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        return _failed(error_codes.INVALID_REQUEST)  # a renewal does not wait for records
    key = SessionKey(request.group_id or "", request.member_id or "")
    try:
        partitions, ended = _proceed(broker, request, call, key)
    except KafkaError as error:
        failed = _failed(error.code)
        if error.code == error_codes.SHARE_SESSION_LIMIT_REACHED:
            return _later(broker, failed, request.max_wait_ms)
        return failed
    yield
    leader = broker.share_leader
    taken: Outcomes | Pending = Acknowledging(leader, key, call, is_renewal=is_renewal).take(
        topic for topic in request.topics if _acknowledges(topic)
    )
    found: Any = {}
    if ended is None and not is_renewal:
        found = yield from _read(broker, request, call, key.group_id, partitions)

    def answer(parts: list[Any]) -> ShareFetchResponse:
        if ended is not None:
            leader.end_session(key, ended)
        return _response(broker, call, key.group_id, parts[0], parts[1], keeps_empty=request.share_session_epoch == 0)

    return gathered([found, taken], answer)


def _proceed(
    broker: ShareContext, request: ShareFetchRequest, call: Call, key: SessionKey
) -> tuple[list[Partition], Any]:
    """The partitions that the session reads now, and the session if it has ended."""
    sessions, epoch = broker.share_leader.sessions, request.share_session_epoch
    asked = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
    if epoch == FINAL_EPOCH:
        return [], sessions.end(key)
    if epoch == INITIAL_EPOCH:
        if any(_acknowledges(topic) for topic in request.topics):
            raise KafkaError(error_codes.INVALID_REQUEST)
        session = sessions.open(key, broker.share_leader.connection_of(call.client), asked)
    else:
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        session = sessions.proceed(key, epoch, asked, forgotten)
    return session.rotated(), None


def _acknowledges(topic: Any) -> bool:
    return any(each.acknowledgement_batches for each in topic.partitions)


def _read(
    broker: ShareContext, request: ShareFetchRequest, call: Call, group_id: str, partitions: Iterable[Partition]
) -> Generator[None, None, Any]:
    """Read these partitions. Return the answers by partition, or a `Pending` of them."""
    errors: Answer = {}
    readable = []
    for nth, partition in enumerate(partitions, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        topic = broker.image.topics_by_id.get(partition[0])
        if topic is None:
            errors[partition] = refused(partition[1], error_codes.UNKNOWN_TOPIC_ID)
        elif not may(broker, call, AclOperation.READ, ResourceType.TOPIC, topic.name):
            errors[partition] = refused(partition[1], error_codes.TOPIC_AUTHORIZATION_FAILED)
        elif partition[1] not in topic.partitions:
            errors[partition] = refused(partition[1], error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            readable.append(partition)
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    if not readable or request.max_records == 0 or max_bytes <= 0:
        return errors
    is_limit = call.api_version >= RENEWS_FROM and request.share_acquire_mode == RECORD_LIMIT
    wanted = AcquireRequest(request.member_id or "", request.max_records, request.batch_size, is_limit)
    bounds = ShareFetchBounds(request.max_wait_ms, min(request.min_bytes, max_bytes), max_bytes)
    return ShareRead(broker.share_leader, group_id, wanted, bounds, readable).read(lambda found: {**found, **errors})


def _response(
    broker: ShareContext, call: Call, group_id: str, found: Answer, taken: Outcomes, *, keeps_empty: bool
) -> ShareFetchResponse:
    nodes: dict[int, LeaderAddress] = {}
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for partition in dict.fromkeys((*found, *taken)):
        data = found.get(partition)
        if data is None:
            data = refused(partition[1], error_codes.NONE)
        elif not (data.records or data.error_code or keeps_empty or partition in taken):
            continue
        outcome = taken.get(partition)
        if outcome is not None:
            data.acknowledge_error_code, data.acknowledge_error_message = outcome
        if data.error_code in leader_hints.AFTER_FETCH:
            leader_id, leader_epoch, node = current_leader(broker, partition[0], partition[1], call.listener_name)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            if node is not None:
                nodes[leader_id] = node
        topic = topics.setdefault(partition[0], ShareFetchableTopicResponse(topic_id=partition[0], partitions=[]))
        topic.partitions.append(data)
    return ShareFetchResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        acquisition_lock_timeout_ms=broker.share_leader.settings_of(group_id).partition.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=node_endpoints(nodes, NodeEndpoint),
    )


def _failed(code: int) -> ShareFetchResponse:
    return ShareFetchResponse(
        throttle_time_ms=0,
        error_code=code,
        acquisition_lock_timeout_ms=0,
        responses=[],
        node_endpoints=[],
    )


def _later(broker: ShareContext, response: ShareFetchResponse, delay_ms: int) -> Pending:
    """A response after a delay, so that its client does not ask again at once."""
    pending = Pending()
    timer = broker.scheduler.call_later(max(delay_ms, 0), pending.resolve, response)
    pending.when_cancelled(timer.cancel)
    return pending
