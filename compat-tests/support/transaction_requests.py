"""An ordinary request of each API of transactions, for the suites that send one of everything."""

from typing import Any

from kpywire import api
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kpywire.messages.describe_transactions import DescribeTransactionsRequest
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.list_transactions import ListTransactionsRequest
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kpywire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

PRODUCER = {"producer_id": 1 << 40, "producer_epoch": 0}
"""Nobody's."""


def plausible_transaction(version: int, topic: str) -> dict[int, Any]:
    """By API key, of a transaction that nobody has begun."""
    added = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=PRODUCER["producer_id"],
        v3_and_below_topics=added,
    )
    if version >= 4:
        one = AddPartitionsToTxnTransaction(transactional_id="t", topics=added, **PRODUCER)
        adding = AddPartitionsToTxnRequest(transactions=[one])
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    marker = WritableTxnMarker(
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=f"{topic}-none", partition_indexes=[0])],
        coordinator_epoch=0,
        **PRODUCER,
    )
    return {
        api.ADD_PARTITIONS_TO_TXN: adding,
        api.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest(transactional_id="t", group_id="g", **PRODUCER),
        api.END_TXN: EndTxnRequest(transactional_id="t", committed=True, **PRODUCER),
        api.TXN_OFFSET_COMMIT: TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[offset])],
            **PRODUCER,
        ),
        api.WRITE_TXN_MARKERS: WriteTxnMarkersRequest(markers=[marker]),
        api.DESCRIBE_TRANSACTIONS: DescribeTransactionsRequest(transactional_ids=["t"]),
        api.LIST_TRANSACTIONS: ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
    }
