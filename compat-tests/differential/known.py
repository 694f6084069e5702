"""Answers of kpybroker that differ on purpose or until something is built, each by its row in KNOWN_DIFFERENCES.md.

Anything else that differs is a finding. An entry says as narrowly as it can what it covers; `test_differential` holds
that its row is there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from differential.comparison import Difference
from differential.steps import Batch, Call
from kpywire import api, error_codes
from kpywire.batch import LENGTH_END, MAGIC, MAGIC_POSITION
from kpywire.uuid import ZERO_UUID
from support.raw_client import api_key_of

FINAL_EPOCH = -1
"""The epoch of a Fetch that is in no session."""
SMALLEST_BATCH_LENGTH = 14
"""The least length that Kafka's reader of batches demands (``LegacyRecord.RECORD_OVERHEAD_V0``)."""


class Known(NamedTuple):
    """A difference that is no finding."""

    name: str
    row: str
    """Words of its row in KNOWN_DIFFERENCES.md."""
    apis: frozenset[int]
    matches: Callable[[Any, Difference, Any], bool]
    """By request, difference and Apache Kafka's whole answer."""
    ends: bool = False
    """Whether what follows in the sequence cannot be compared any more."""


def known_for(call: Call, difference: Difference, kafka: Any) -> Known | None:
    """The entry that covers a difference, if one does."""
    key = api_key_of(call.request)
    return next((each for each in KNOWN if key in each.apis and each.matches(call.request, difference, kafka)), None)


def _keys(*keys: int) -> frozenset[int]:
    return frozenset(keys)


def _says(*names: str) -> Callable[[Any, Difference, Any], bool]:
    """One side's value of a field of these names, whatever it is."""
    return lambda request, difference, kafka: difference.path.rpartition(".")[2] in names  # noqa: ARG005


def _unknown_operation(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return any(not 0 <= each.config_operation <= 3 for resource in request.resources for each in resource.configs)


def _impossible_batch(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    """Only where Apache Kafka refuses the request as a whole."""
    if not any(_is_impossible(each.records) for topic in request.topic_data for each in topic.partition_data):
        return False
    answers = [each for topic in kafka["responses"] for each in topic["partition_responses"]]
    return all(each["error_code"] == error_codes.CORRUPT_MESSAGE for each in answers)


def _is_impossible(records: Any) -> bool:
    if isinstance(records, Batch):
        return records.damage in ("length too small", "negative length", "magic 3")
    if not isinstance(records, bytes) or len(records) <= MAGIC_POSITION:
        return False
    length = int.from_bytes(records[8:LENGTH_END], "big", signed=True)
    return length < SMALLEST_BATCH_LENGTH or records[MAGIC_POSITION] > MAGIC


def _several_features(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return len(request.feature_updates) > 1


def _never_answered(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return isinstance(kafka, str) and kafka.startswith(("waits", "no answer"))


def _sent_again_elsewhere(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    rebalances = isinstance(difference.kpybroker, dict) and difference.kpybroker.get("error_code") == 27
    return kafka == "waits" and rebalances


def _negative_session(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return isinstance(request.session_id, int) and not 0 <= request.session_id < 2**31 - 8


def _one_protocol_twice(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    names = [each.name for each in request.protocols]
    return len(set(names)) < len(names)


def _one_of_several_mistakes(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return difference.path.rpartition(".")[2] == "error_message" and repr(request).count("value=") > 1


def _beyond_a_full_answer(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return bool(request.session_epoch > 0 and request.max_bytes <= 100)


def _no_partitions(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return any(not topic.partitions for group in request.groups for topic in group.topics or ())


def _removed_while_it_waits(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    answer = difference.kpybroker
    if kafka != "waits" or not isinstance(answer, dict):
        return False
    parts = [part for topic in answer["responses"] for part in topic["partitions"]]
    return any(part["error_code"] == error_codes.OFFSET_OUT_OF_RANGE for part in parts)


def _topic_id_of_zeros(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    failed = isinstance(kafka, dict) and kafka.get("error_code") == error_codes.UNKNOWN_SERVER_ERROR
    named = any(topic.topic_id == ZERO_UUID for topic in request.topics)
    return failed and (named or request.session_epoch != FINAL_EPOCH)


def _acknowledged_elsewhere(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    failed = isinstance(kafka, dict) and kafka.get("error_code") == error_codes.UNKNOWN_SERVER_ERROR
    return failed and bool(request.topics)


KNOWN = (
    Known(
        "a batch whose length or format is impossible",
        "Produce of a batch whose length or format is impossible",
        _keys(api.PRODUCE),
        _impossible_batch,
    ),
    Known(
        "which of several wrong features is named",
        "Apache Kafka takes several of them from hash maps",
        _keys(api.UPDATE_FEATURES),
        _several_features,
    ),
    Known(
        "a member removed while it syncs",
        "a member that is removed while its SyncGroup waits",
        _keys(api.SYNC_GROUP),
        _never_answered,
        ends=True,
    ),
    Known(
        "a member that asks again on another connection",
        "a JoinGroup or SyncGroup that its member sends again on another connection",
        _keys(api.JOIN_GROUP, api.SYNC_GROUP),
        _sent_again_elsewhere,
        ends=True,
    ),
    Known(
        "a resource named twice",
        "AlterConfigs that names a resource twice",
        _keys(api.ALTER_CONFIGS),
        _never_answered,
        ends=True,
    ),
    Known(
        "negative session ids",
        "Fetch of a session with a negative id",
        _keys(api.FETCH),
        _negative_session,
    ),
    Known(
        "a protocol offered twice",
        "JoinGroup that offers one protocol twice",
        _keys(api.JOIN_GROUP),
        _one_protocol_twice,
        ends=True,
    ),
    Known(
        "which of several wrong configs is named",
        "Apache Kafka takes several of them from hash maps",
        _keys(api.CREATE_TOPICS, api.ALTER_CONFIGS, api.INCREMENTAL_ALTER_CONFIGS),
        _one_of_several_mistakes,
    ),
    Known(
        "partitions beyond a full answer",
        "Fetch in a session whose answer is full",
        _keys(api.FETCH),
        _beyond_a_full_answer,
        ends=True,
    ),
    Known(
        "a topic without partitions",
        "DescribeShareGroupOffsets that names a topic without partitions",
        _keys(api.DESCRIBE_SHARE_GROUP_OFFSETS),
        _no_partitions,
    ),
    Known(
        "an offset that is removed while a fetch waits",
        "a Fetch that waits at an offset which DeleteRecords has removed",
        _keys(api.FETCH),
        _removed_while_it_waits,
        ends=True,
    ),
    Known(
        "a topic id of zeros",
        "Fetch of a topic id of zeros",
        _keys(api.FETCH),
        _topic_id_of_zeros,
        ends=True,
    ),
    Known(
        "an acknowledgement of an unknown topic id",
        "ShareAcknowledge of an unknown topic id where there is an authorizer",
        _keys(api.SHARE_ACKNOWLEDGE),
        _acknowledged_elsewhere,
        ends=True,
    ),
    Known(
        "unknown operations",
        "IncrementalAlterConfigs with an unknown operation on anything but a broker",
        _keys(api.INCREMENTAL_ALTER_CONFIGS),
        _unknown_operation,
    ),
    Known(
        "leaders and protocols by hash",
        "which member leads when the leader has gone",
        _keys(api.JOIN_GROUP),
        _says("leader"),
        ends=True,
    ),
)
"""In the order in which they are tried."""
