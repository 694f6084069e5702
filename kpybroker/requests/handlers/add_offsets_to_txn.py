"""AddOffsetsToTxn (25), versions 0-4: a transaction is about to commit offsets of a group.

- The partition of ``__consumer_offsets`` that stores the group becomes part of the transaction.
- v2: PRODUCER_FENCED; earlier versions INVALID_PRODUCER_EPOCH.
"""

from typing import Any

from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.requests.serving.transaction_requests import transaction_request
from kpybroker.runtime.calls.call import Call
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(broker: Context, request: AddOffsetsToTxnRequest, call: Call) -> Any:
    """Ask the transaction's coordinator."""
    partitions = broker.groups.partitions or int(broker.config["offsets.topic.num.partitions"])
    group_partition = partition_for(request.group_id, partitions)
    return broker.transactions.submit(
        request.transactional_id,
        transaction_request(broker, request, call.api_version, group_partition=group_partition),
        lambda code: AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=coordinator_error(code)),
    )
