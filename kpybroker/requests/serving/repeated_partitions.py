"""Partitions that a Produce request names more than once (``KafkaApis.handleProduceRequest``).

Kafka keeps refused and accepted batches in two maps by partition. So the last of the acceptable batches is appended;
but if another batch of the partition was refused before it reached the log, that refusal is the answer. Only the checks
of ``ProduceRequest`` itself count here: one batch, a known format, a codec of the version.
"""

from collections.abc import Generator, Sequence

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.validation import sole_batch
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, at_once, in_blocks
from kpywire import error_codes
from kpywire.produce import Partitions, Records, TopicKey

Topics = Sequence[tuple[TopicKey, Partitions]]
Overruled = dict[tuple[TopicKey, int], KafkaError]
"""The errors by topic and partition that are answered, whatever the result of the append is."""


def one_of_each(topics: Topics, api_version: int) -> tuple[Topics, Overruled]:
    """Each partition once, and the errors that replace the result of an append. Topics without any are left out."""
    if len(topics) == 1 and len(dict(topics[0][1])) == len(topics[0][1]) > 0:
        return topics, {}
    found: tuple[Topics, Overruled] = at_once(one_of_each_in_steps(topics, api_version))
    return found


def one_of_each_in_steps(topics: Topics, api_version: int) -> Generator[None, None, tuple[Topics, Overruled]]:
    """Return what `one_of_each` returns, in steps."""
    named = 0
    by_topic: dict[TopicKey, dict[int, Records | None]] = {}
    repeated: dict[tuple[TopicKey, int], list[Records | None]] = {}
    for key, partitions in topics:
        for index, records in partitions:
            named += 1
            if named % STEP_ELEMENTS == 0:
                yield
            of_topic = by_topic.setdefault(key, {})
            if index in of_topic:
                repeated.setdefault((key, index), [of_topic[index]]).append(records)
            of_topic[index] = records
    overruled: Overruled = {}
    for (key, index), batches in repeated.items():
        errors = yield from in_blocks(batches, lambda records: _error_of(records, api_version))
        named += 1
        if named % STEP_ELEMENTS == 0:
            yield
        accepted = [records for records, error in zip(batches, errors, strict=True) if error is None]
        refused = [error for error in errors if error is not None]
        if accepted and refused:
            by_topic[key][index] = accepted[-1]
            overruled[key, index] = refused[-1]
    kept = yield from in_blocks(by_topic.items(), lambda item: (item[0], list(item[1].items())))
    return kept, overruled


def _error_of(records: Records | None, api_version: int) -> KafkaError | None:
    """The error for which a batch is refused before its partition is found; None if it is not."""
    if records is None:
        return KafkaError(error_codes.INVALID_RECORD)
    try:
        sole_batch(records, api_version)
    except KafkaError as error:
        return error
    return None
