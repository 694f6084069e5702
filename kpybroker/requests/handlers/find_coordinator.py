"""FindCoordinator (10), versions 0-6: the broker that coordinates a group, a transactional id or a share partition.

- Key types: 0 group, 1 transactional id, 2 share partition (v6, ``groupId:topicId:partition``, KIP-932). v4: several
  keys at once (KIP-699).
- The coordinator of a group is the leader of its partition of ``__consumer_offsets``, that of a transactional id the
  leader of its partition of ``__transaction_state``, that of a share partition the leader of its partition of
  ``__share_group_state``. The partition is |hash(key)| modulo the number of partitions, with Java's
  ``String.hashCode``. The topic is created at the first request. That request waits for it, but only for a short time,
  and then gets COORDINATOR_NOT_AVAILABLE.
- A key of a share partition that is not one is INVALID_REQUEST, and so is the key type before v6.
- Kafka's messages: up to v3 that of the error code, "NONE" if there is no error; from v4 empty, except for an unknown
  key type.
"""

from collections.abc import Generator

from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kpybroker.machines.share_coordinator.key import parse
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.internal_topics import auto_create
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import at_once, each
from kpywire import error_codes
from kpywire.messages.create_topics import CreateTopicsResponse
from kpywire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
SHARE = 2
BATCHED_FROM = 4
SHARE_FROM = 6
MOST_PATIENT_KEYS = 100
"""The most keys of a request that waits for the topic, since it is answered in one piece afterwards."""
MADE = (error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS)
TOPICS = {GROUP: GROUP_OFFSETS_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC, SHARE: SHARE_GROUP_STATE_TOPIC}


def handle(
    broker: Context, request: FindCoordinatorRequest, call: Call
) -> Generator[None, None, FindCoordinatorResponse | Pending]:
    """Answer with the coordinator of each key."""
    asked = request.coordinator_keys or call.api_version < BATCHED_FROM
    if request.key_type == SHARE:
        asked = call.api_version >= SHARE_FROM and any(map(_is_share_partition, request.coordinator_keys))
    topic = TOPICS.get(request.key_type)
    if asked and topic is not None and topic not in broker.image.topics:
        if len(request.coordinator_keys) <= MOST_PATIENT_KEYS:
            return _when_there(broker, topic, request, call)
        auto_create(broker, [topic])
    return (yield from _answer(broker, request, call))


def _when_there(broker: Context, topic: str, request: FindCoordinatorRequest, call: Call) -> Pending:
    """The answer once the topic is created. That takes less time than a client waits before it asks again."""
    pending = Pending()

    def answer() -> None:
        pending.resolve(at_once(_answer(broker, request, call)))

    def created(response: CreateTopicsResponse) -> None:
        if any(each.error_code not in MADE for each in response.topics):
            broker.expected_topics.give_up(topic)

    if broker.expected_topics.expect(topic, answer):
        auto_create(broker, [topic], created)
    return pending


def _answer(
    broker: Context, request: FindCoordinatorRequest, call: Call
) -> Generator[None, None, FindCoordinatorResponse]:
    batched = call.api_version >= BATCHED_FROM
    if batched:
        found = yield from each(request.coordinator_keys, lambda key: _find(broker, call, request.key_type, key))
        return FindCoordinatorResponse(throttle_time_ms=0, coordinators=found)
    one = _find(broker, call, request.key_type, request.key)
    plain = error_codes.message(one.error_code) or error_codes.name(one.error_code)
    return FindCoordinatorResponse(
        throttle_time_ms=0,
        error_code=one.error_code,
        error_message=one.error_message or plain,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
        coordinators=[],
    )


def _find(broker: Context, call: Call, key_type: int, key: str) -> Coordinator:
    try:
        node_id = _coordinator(broker, call, key_type, key)
        listener = broker.image.brokers[node_id].listeners[call.listener_name]
    except KafkaError as error:
        return _no_coordinator(key, error)
    except KeyError:
        return _no_coordinator(key, KafkaError(error_codes.COORDINATOR_NOT_AVAILABLE))
    return Coordinator(
        key=key, node_id=node_id, host=listener.host, port=listener.port, error_code=error_codes.NONE, error_message=""
    )


def _is_share_partition(key: str) -> bool:
    try:
        parse(key)
    except ValueError:
        return False
    return True


def _coordinator(broker: Context, call: Call, key_type: int, key: str) -> int:
    if key_type == SHARE:
        if call.api_version < SHARE_FROM or not _is_share_partition(key):
            raise KafkaError(error_codes.INVALID_REQUEST)
        key = str(parse(key))
    if key_type not in TOPICS:
        raise KafkaError(error_codes.INVALID_REQUEST, error_codes.message(error_codes.INVALID_REQUEST))
    topic = broker.image.topics.get(TOPICS[key_type])
    if topic is None:
        raise KafkaError(error_codes.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    if leader not in broker.alive_brokers:
        raise KafkaError(error_codes.COORDINATOR_NOT_AVAILABLE)
    return leader


def _no_coordinator(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message or "")
