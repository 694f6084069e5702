"""Produce requests that write into a transaction: how they are recognised, and refused as a whole."""

from collections.abc import Sequence
from typing import Final

from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpywire import error_codes
from kpywire.batch import ATTRIBUTES_POSITION, LENGTH_END, MAGIC, MAGIC_POSITION, TRANSACTIONAL_MASK
from kpywire.produce import Answers, Partitions, TopicKey, codec_for

_FLAGS: Final = ATTRIBUTES_POSITION + 1
"""The position of the attributes' low byte, which holds the flags."""


def writes_into_transaction(topics: Sequence[tuple[TopicKey, Partitions]]) -> bool:
    """Whether the first batch of any partition is transactional (``RequestUtils.hasTransactionalRecords``). A cut-off
    batch is none."""
    for _, partitions in topics:
        for _, records in partitions:
            try:
                # A length would be asked for with every partition; what is too short for this is no batch at all.
                if records and records[_FLAGS] & TRANSACTIONAL_MASK and records[MAGIC_POSITION] == MAGIC:
                    length = int.from_bytes(records[8:LENGTH_END], signed=True)
                    if LENGTH_END + length <= len(records):
                        return True
            except IndexError:
                continue
    return False


def denied_whole(call: Call, acks: int, topics: Sequence[tuple[TopicKey, Partitions]]) -> Answers:
    """The refusal of a whole request that writes into a transaction without naming it (``KafkaApis``)."""
    if acks == 0:
        raise CloseConnection("a produce request without acknowledgement writes into no transaction in particular")
    code, codec_of_call = error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, codec_for(call.api_version)
    refused: dict[TopicKey, dict[int, bytes]] = {}
    for key, partitions in topics:
        for index, _ in partitions:
            refused.setdefault(key, {})[index] = codec_of_call.refusal(index, code, None)
            call.counters.count_error(code)
    return [(key, list(answers.values())) for key, answers in refused.items()]
