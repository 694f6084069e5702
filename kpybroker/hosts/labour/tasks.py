"""The tasks of the process beside the event loop, and their answers. Plain tuples, since they pass a pipe.

Pure. A task is bounded by the size of a batch, what it may inflate to, and the records that it may have.
"""

from collections.abc import Sequence
from time import thread_time_ns
from typing import Any, NamedTuple

from kpybroker.machines.partition.validation import Accepted, BatchRefused, ValidationConfig, validate
from kpywire.batch import BATCH_LENGTH, HEADER_BYTES, LENGTH_END, Fields, parse_header
from kpywire.errors import Malformed
from kpywire.time_search import Found, first_not_older
from kpywire.walk import OversizedRecord


class BatchCheck(NamedTuple):
    """A produced batch to be checked by the rules of its topic."""

    records: bytes
    rules: dict[str, Any]
    now_ms: int
    topic_partition: str


class BatchSearch(NamedTuple):
    """A stored batch in which a record is searched by its time."""

    batch: bytes
    timestamp: int
    start_offset: int
    most_record_bytes: int


class CheckedBatch(NamedTuple):
    """An accepted batch, without its place in the log."""

    fields: Fields
    head: bytes
    section: bytes | None
    """The records, if they are not the ones that were produced: they were compressed again."""
    append_time_ms: int

    def accepted(self, records: bytes | memoryview) -> Accepted:
        """The outcome for the batch that was produced."""
        batch = bytearray(self.head)
        end = self.fields[BATCH_LENGTH] + LENGTH_END
        batch += records[HEADER_BYTES:end] if self.section is None else self.section
        return self.fields, memoryview(batch), self.append_time_ms


class Denied(NamedTuple):
    """A refused batch: the arguments of `BatchRefused`."""

    code: int
    reason: str
    message: str | None
    record_errors: Sequence[tuple[int, str]]

    def error(self) -> BatchRefused:
        """The refusal."""
        return BatchRefused(*self)


class Located(NamedTuple):
    """The record that was searched, if there is one."""

    found: Found


class Oversized(NamedTuple):
    """The error of a search that met a record with more bytes than its topic allows."""

    size: int
    most_bytes: int


class TaskFailed(NamedTuple):
    """A task that could not be done: the batch is damaged, or the process has ended."""

    reason: str


class Overloaded(NamedTuple):
    """A task that is not taken, since too much waits already."""


Answer = CheckedBatch | Denied | Located | Oversized | TaskFailed | Overloaded


class TaskDone(NamedTuple):
    """The answer to a task, with the CPU time that it took."""

    answer: Answer
    worked_ns: int


def done(task: BatchCheck | BatchSearch) -> TaskDone:
    """Do a task, and measure it."""
    began_ns = thread_time_ns()
    found = answer(task)
    return TaskDone(found, thread_time_ns() - began_ns)


def answer(task: BatchCheck | BatchSearch) -> Answer:
    """Do a task."""
    if isinstance(task, BatchSearch):
        try:
            return Located(first_not_older(task.batch, parse_header(task.batch), *task[1:]))
        except OversizedRecord as error:
            return Oversized(error.size, error.most_bytes)
        except Malformed as error:
            return TaskFailed(str(error))
    batch = memoryview(bytearray(task.records))
    try:
        fields, stamped, append_time_ms = validate(
            batch, ValidationConfig(**task.rules), task.now_ms, 0, 0, task.topic_partition
        )
    except BatchRefused as error:
        return Denied(error.code, str(error.args[0]), error.message, error.record_errors)
    head = bytes(stamped[:HEADER_BYTES])
    is_other = len(stamped) != len(batch) or stamped[HEADER_BYTES:] != batch[HEADER_BYTES:]
    return CheckedBatch(tuple(fields), head, bytes(stamped[HEADER_BYTES:]) if is_other else None, append_time_ms)
