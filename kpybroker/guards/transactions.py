"""The guards of requests about transactions and their ids."""

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.failed_response import failed_response
from kpybroker.guards.parts import denied_names, with_only
from kpybroker.guards.verdict import Reduced, Refusal, Verdict, refused
from kpybroker.metadata.topic_name import INTERNAL
from kpybroker.serving.permissions import GuardedImage, denied_topics, may, may_on_cluster, may_with_any
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kpywire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kpywire.messages.write_txn_markers import WriteTxnMarkersRequest

_BATCHED_FROM = 4
_ID_DENIED = error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _may_write(node: GuardedImage, call: Call, transactional_id: str) -> bool:
    return may(node, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def init_producer_id(node: GuardedImage, request: InitProducerIdRequest, call: Call) -> Verdict:
    """InitProducerId: WRITE on the transactional id (and TWO_PHASE_COMMIT for that). Without an id: IDEMPOTENT_WRITE on
    the cluster, or WRITE on any topic."""
    transactional_id = request.transactional_id
    if transactional_id is None:
        if may_on_cluster(node, call, Operation.IDEMPOTENT_WRITE, logs_denial=False) or may_with_any(
            node, call, Operation.WRITE, ResourceType.TOPIC
        ):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)
    if not _may_write(node, call, transactional_id) or (
        request.enable2_pc
        and not may(node, call, Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return refused(request, call, _ID_DENIED)
    return None


def end_txn(node: GuardedImage, request: EndTxnRequest, call: Call) -> Verdict:
    """EndTxn: WRITE on the transactional id."""
    return None if _may_write(node, call, request.transactional_id) else refused(request, call, _ID_DENIED)


def add_offsets_to_txn(node: GuardedImage, request: AddOffsetsToTxnRequest, call: Call) -> Verdict:
    """AddOffsetsToTxn: WRITE on the transactional id, READ on the group."""
    if not _may_write(node, call, request.transactional_id):
        return refused(request, call, _ID_DENIED)
    if may(node, call, Operation.READ, ResourceType.GROUP, request.group_id):
        return None
    return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)


def add_partitions_to_txn(node: GuardedImage, request: AddPartitionsToTxnRequest, call: Call) -> Verdict:
    """AddPartitionsToTxn: CLUSTER_ACTION for leaders of partitions (v4). For clients WRITE on the transactional id, and
    on each topic, which may not be internal. Without all of them, none is added: OPERATION_NOT_ATTEMPTED."""
    if call.api_version >= _BATCHED_FROM:
        if may_on_cluster(node, call, Operation.CLUSTER_ACTION):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)
    if not _may_write(node, call, request.v3_and_below_transactional_id):
        return refused(request, call, _ID_DENIED)
    names = [topic.name for topic in request.v3_and_below_topics]
    denied = denied_topics(node, call, Operation.WRITE, (name for name in names if name not in INTERNAL))
    if not denied and INTERNAL.isdisjoint(names):
        return None
    response = failed_response(request, call.api_version, error_codes.OPERATION_NOT_ATTEMPTED)
    for topic in response.results_by_topic_v3_and_below:
        known = node.image.topics.get(topic.name)
        for each in topic.results_by_partition:
            if topic.name in denied or topic.name in INTERNAL:
                each.partition_error_code = error_codes.TOPIC_AUTHORIZATION_FAILED
            elif known is None or each.partition_index not in known.partitions:
                each.partition_error_code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    return Refusal(response)


def write_txn_markers(node: GuardedImage, request: WriteTxnMarkersRequest, call: Call) -> Verdict:
    """WriteTxnMarkers: ALTER for operators, or CLUSTER_ACTION for coordinators."""
    if may_on_cluster(node, call, Operation.ALTER, logs_denial=False) or may_on_cluster(
        node, call, Operation.CLUSTER_ACTION
    ):
        return None
    return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)


def describe_transactions(node: GuardedImage, request: DescribeTransactionsRequest, call: Call) -> Verdict:
    """DescribeTransactions: DESCRIBE on each id. Topics without DESCRIBE are left out."""
    ids = request.transactional_ids
    denied = denied_names(node, call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
    out = with_only(request, "transactional_ids", [each for each in ids if each in denied])
    refusals = failed_response(out, call.api_version, _ID_DENIED).transaction_states if denied else []

    def complete(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            hidden = denied_topics(node, call, Operation.DESCRIBE, (topic.topic for topic in state.topics))
            state.topics = [topic for topic in state.topics if topic.topic not in hidden]
        allowed, refused_states = iter(response.transaction_states), iter(refusals)
        response.transaction_states = [next(refused_states if each in denied else allowed) for each in ids]
        return response

    return Reduced(with_only(request, "transactional_ids", [each for each in ids if each not in denied]), complete)


def list_transactions(node: GuardedImage, request: ListTransactionsRequest, call: Call) -> Verdict:
    """ListTransactions: ids without DESCRIBE are left out."""

    def complete(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if may(
                node,
                call,
                Operation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                state.transactional_id,
                logs_denial=False,
            )
        ]
        return response

    return Reduced(request, complete)
