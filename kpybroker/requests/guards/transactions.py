"""The guards of requests about transactions and their ids."""

from collections.abc import Generator

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.failed_response import failing
from kpybroker.machines.metadata.topic_name import INTERNAL
from kpybroker.requests.guards.parts import merged, parted, with_only
from kpybroker.requests.guards.verdict import InSteps, Reduced, Refusal, Verdict, refused
from kpybroker.requests.serving.permissions import (
    GuardedImage,
    denied_among,
    denied_topics,
    may,
    may_on_cluster,
    may_with_any,
)
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import STEP_ELEMENTS
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kpywire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kpywire.messages.write_txn_markers import WriteTxnMarkersRequest

_BATCHED_FROM = 4
_FEW_TOPICS = 16
"""Requests with so few topics, which most are, are examined at once."""
_ID_DENIED = error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _may_write(node: GuardedImage, call: Call, transactional_id: str) -> bool:
    return may(node, call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def init_producer_id(node: GuardedImage, request: InitProducerIdRequest, call: Call) -> Verdict | InSteps:
    """InitProducerId: WRITE on the transactional id (and TWO_PHASE_COMMIT for that). Without an id: IDEMPOTENT_WRITE on
    the cluster, or WRITE on any topic."""
    transactional_id = request.transactional_id
    if transactional_id is None:
        if may_on_cluster(node, call, AclOperation.IDEMPOTENT_WRITE, logs_denial=False) or may_with_any(
            node, call, AclOperation.WRITE, ResourceType.TOPIC
        ):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)
    if not _may_write(node, call, transactional_id) or (
        request.enable2_pc
        and not may(node, call, AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return refused(request, call, _ID_DENIED)
    return None


def end_txn(node: GuardedImage, request: EndTxnRequest, call: Call) -> Verdict | InSteps:
    """EndTxn: WRITE on the transactional id."""
    return None if _may_write(node, call, request.transactional_id) else refused(request, call, _ID_DENIED)


def add_offsets_to_txn(node: GuardedImage, request: AddOffsetsToTxnRequest, call: Call) -> Verdict | InSteps:
    """AddOffsetsToTxn: WRITE on the transactional id, READ on the group."""
    if not _may_write(node, call, request.transactional_id):
        return refused(request, call, _ID_DENIED)
    if may(node, call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return None
    return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)


def add_partitions_to_txn(node: GuardedImage, request: AddPartitionsToTxnRequest, call: Call) -> Verdict | InSteps:
    """AddPartitionsToTxn: CLUSTER_ACTION for leaders of partitions (v4). For clients WRITE on the transactional id, and
    on each topic, which may not be internal. Without all of them, none is added: OPERATION_NOT_ATTEMPTED."""
    if call.api_version >= _BATCHED_FROM:
        if may_on_cluster(node, call, AclOperation.CLUSTER_ACTION):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)
    if not _may_write(node, call, request.v3_and_below_transactional_id):
        return refused(request, call, _ID_DENIED)
    topics = request.v3_and_below_topics
    names = [topic.name for topic in topics] if len(topics) <= _FEW_TOPICS else []
    if (
        names
        and INTERNAL.isdisjoint(names)
        and not denied_topics(node, call, AclOperation.WRITE, names, logs_denial=False)
    ):
        return None
    return _not_all_added(node, request, call)


def _not_all_added(node: GuardedImage, request: AddPartitionsToTxnRequest, call: Call) -> InSteps:
    names = (None if topic.name in INTERNAL else topic.name for topic in request.v3_and_below_topics)
    denied = yield from denied_among(node, call, AclOperation.WRITE, ResourceType.TOPIC, names)
    internal, _ = yield from parted(request.v3_and_below_topics, lambda topic: topic.name in INTERNAL)
    if not denied and not internal:
        return None
    response = yield from failing(request, call.api_version, error_codes.OPERATION_NOT_ATTEMPTED)
    passed = 0
    for topic in response.results_by_topic_v3_and_below:
        known = node.image.topics.get(topic.name)
        is_denied = topic.name in denied or topic.name in INTERNAL
        for each in topic.results_by_partition:
            passed += 1
            if passed % STEP_ELEMENTS == 0:
                yield
            if is_denied:
                each.partition_error_code = error_codes.TOPIC_AUTHORIZATION_FAILED
            elif known is None or each.partition_index not in known.partitions:
                each.partition_error_code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
        passed += 1
        if passed % STEP_ELEMENTS == 0:
            yield
    return Refusal(response)


def write_txn_markers(node: GuardedImage, request: WriteTxnMarkersRequest, call: Call) -> Verdict | InSteps:
    """WriteTxnMarkers: ALTER for operators, or CLUSTER_ACTION for coordinators."""
    if may_on_cluster(node, call, AclOperation.ALTER, logs_denial=False) or may_on_cluster(
        node, call, AclOperation.CLUSTER_ACTION
    ):
        return None
    return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)


def describe_transactions(node: GuardedImage, request: DescribeTransactionsRequest, call: Call) -> InSteps:
    """DescribeTransactions: DESCRIBE on each id. Topics without DESCRIBE are left out."""
    ids = request.transactional_ids
    denied = yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
    out, allowed = yield from parted(ids, lambda each: each in denied)
    failed = with_only(request, "transactional_ids", out)
    refusals = (yield from failing(failed, call.api_version, _ID_DENIED)).transaction_states if out else []

    def complete(response: DescribeTransactionsResponse) -> Generator[None, None, DescribeTransactionsResponse]:
        for nth, state in enumerate(response.transaction_states, 1):
            if nth % STEP_ELEMENTS == 0:
                yield
            if state.topics:
                names = (topic.topic for topic in state.topics)
                hidden = yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
                state.topics = [topic for topic in state.topics if topic.topic not in hidden]
        response.transaction_states = yield from merged(
            ids, lambda each: each in denied, refusals, response.transaction_states
        )
        yield from denied.emptied()
        return response

    return Reduced(with_only(request, "transactional_ids", allowed), complete)


def list_transactions(node: GuardedImage, request: ListTransactionsRequest, call: Call) -> Verdict:
    """ListTransactions: ids without DESCRIBE are left out."""

    def is_hidden(state: TransactionState) -> bool:
        kind = ResourceType.TRANSACTIONAL_ID
        return not may(node, call, AclOperation.DESCRIBE, kind, state.transactional_id, logs_denial=False)

    def complete(response: ListTransactionsResponse) -> Generator[None, None, ListTransactionsResponse]:
        _, response.transaction_states = yield from parted(response.transaction_states, is_hidden)
        return response

    return Reduced(request, complete)
