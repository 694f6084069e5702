"""The ways of rows into topics: through the driver, by the tasks under the driver's transaction, or at least once.

A way is the same object on the driver and, pickled, in every task. Spark asks for the commit in a process of its own,
so nothing but the tasks' messages connects the two.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kpybroker.client import transactions
from kpybroker.client.appending import Appender
from kpybroker.client.client import Client, Spot
from kpybroker.client.transactions import ProducerIdentity
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan.errors import ScanError
from kpybroker.pipeline.sink import committing
from kpybroker.pipeline.sink.connecting import batch_bytes_of, client_of, codec_of
from kpybroker.pipeline.sink.options import Mark, SinkOptions
from kpybroker.pipeline.sink.packing import Batches, Chooser, Packer, SinkRow
from kpywire import error_codes

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
STAGE_ATTEMPTS: Final = "spark.stage.maxConsecutiveAttempts"
DRIVER_TIMEOUT_MS: Final = 60_000
TASKS_TIMEOUT_MS: Final = 900_000
APPEND_BYTES: Final = 4 * 1024 * 1024
CREATION_PATIENCE_S: Final = 5.0


@dataclass(frozen=True)
class Packed(WriterCommitMessage):
    """The batches of a task, which the driver writes."""

    mark: Mark | None
    batches: Batches


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The numbers of records that a task has written. Without an identity they are in no transaction."""

    mark: Mark | None
    identity: ProducerIdentity | None
    counts: Mapping[Spot, int]


class ThroughDriver:
    """Tasks pack their rows, and the driver writes all of them in one transaction. Any frame can be written so."""

    def __init__(self, options: SinkOptions, transactional_id: str) -> None:
        self._options = options
        self._transactional_id = transactional_id

    def write(self, rows: Iterable[SinkRow], mark: Mark | None) -> Packed:
        """Pack the rows of a task."""
        with client_of(self._options) as client:
            packer = packer_of(self._options, client)
            for row in rows:
                packer.add(row)
        return Packed(mark, packer.take_all())

    def commit(self, messages: Sequence[Any]) -> None:
        timeout_ms = self._options.timeout_ms or DRIVER_TIMEOUT_MS
        parts = [each.batches for each in messages]
        with client_of(self._options) as client:
            committing.write(client, self._transactional_id, timeout_ms, one_mark(messages), parts)

    def abort(self, messages: Sequence[Any]) -> None:
        """Nothing was written yet."""


class ByTasks:
    """Tasks write under the identity of a transaction that the driver began. Each partition has one task.

    The transaction begins when the writer is sent to the tasks, which is when it is pickled. A task that is tried again
    would write behind the records of its first attempt, so none is.
    """

    def __init__(
        self,
        options: SinkOptions,
        transactional_id: str,
        identity: ProducerIdentity | None = None,
        marks: Mapping[str, int] | None = None,
    ) -> None:
        self._options = options
        self._transactional_id = transactional_id
        self._identity = identity
        self._marks = marks or {}
        self._timeout_ms = options.timeout_ms or TASKS_TIMEOUT_MS

    def __reduce__(self) -> tuple[type["ByTasks"], tuple[Any, ...]]:
        if self._identity is None:
            with client_of(self._options) as client:
                self._identity = committing.begin(client, self._transactional_id, self._timeout_ms)
                self._marks = committing.marks(client, self._transactional_id)
        return ByTasks, (self._options, self._transactional_id, self._identity, self._marks)

    def write(self, rows: Iterable[SinkRow], mark: Mark | None) -> Written:
        """Write the rows of a task."""
        check_attempt(TaskContext.get())
        assert self._identity is not None
        if mark is not None and self._marks.get(mark.application, -1) >= mark.version:
            return Written(mark, self._identity, {})
        return Written(mark, self._identity, appended(self._options, self._identity, rows))

    def commit(self, messages: Sequence[Any]) -> None:
        identity = next(each.identity for each in messages)
        with client_of(self._options) as client:
            committing.commit(client, identity, one_mark(messages), [each.counts for each in messages])

    def abort(self, messages: Sequence[Any]) -> None:  # noqa: ARG002 - all ways have it
        with client_of(self._options) as client:
            committing.abort(client, self._transactional_id, self._timeout_ms)


class AtLeastOnce:
    """Each task writes with an idempotent producer of its own, and what it wrote is visible at once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, rows: Iterable[SinkRow], mark: Mark | None) -> Written:
        """Write the rows of a task."""
        with client_of(self._options) as client:
            identity = transactions.begin(client, None)
        return Written(mark, None, appended(self._options, identity, rows))

    def commit(self, messages: Sequence[Any]) -> None:
        """Everything is visible already."""

    def abort(self, messages: Sequence[Any]) -> None:
        """Nothing can be taken back."""


Way = ThroughDriver | ByTasks | AtLeastOnce


def appended(options: SinkOptions, identity: ProducerIdentity, rows: Iterable[SinkRow]) -> dict[Spot, int]:
    """Append rows. Return the number of records in each partition."""
    with client_of(options) as client:
        packer = packer_of(options, client)
        appender = Appender(client, identity)
        for row in rows:
            packer.add(row)
            if packer.full_bytes >= APPEND_BYTES:
                appender.append(packer.take_full())
        appender.append(packer.take_all())
    return appender.counts


def packer_of(options: SinkOptions, client: Client) -> Packer:
    """A packer for the rows of a task. Tasks begin at different partitions with rows that have no key."""
    context = TaskContext.get()
    chooser = Chooser(lambda topic: partition_count(client, topic), 0 if context is None else context.partitionId())
    return Packer(chooser, _now_ms, codec=codec_of(options), batch_bytes=batch_bytes_of(options))


def partition_count(client: Client, topic: str) -> int:
    """The number of partitions of a topic, which the broker may create, if so configured. Raises ScanError if there is
    none, KafkaError, Unreachable."""
    missing_since_s: list[float] = []

    def attempt() -> int:
        try:
            return len(client.topic(topic, create=True).partitions)
        except KafkaError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            missing_since_s.append(time.monotonic())
            if missing_since_s[-1] - missing_since_s[0] > CREATION_PATIENCE_S:
                raise ScanError(f"Topic {topic} not present in metadata; the broker does not create it") from None
            raise

    return client.retrying(attempt)


def mark_of_task() -> Mark | None:
    """The micro-batch that a task belongs to; None if Spark does not tell it."""
    context = TaskContext.get()
    if context is None:
        return None
    query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    return None if query_id is None or batch_id is None else Mark(query_id, int(batch_id))


def one_mark(messages: Sequence[Any]) -> Mark | None:
    """The mark that all tasks had. Raises ScanError."""
    found: set[Mark | None] = {each.mark for each in messages}
    if len(found) != 1:
        raise ScanError("the tasks belong to several micro-batches: nothing was written")
    return found.pop()


def check_attempt(context: Any) -> None:
    """Raise ScanError for a task that may have been tried before in the same transaction."""
    if context.attemptNumber() > 0:
        raise ScanError(
            "a task was tried again, and its first attempt may have written rows: the whole micro-batch must be; "
            "start the query again"
        )
    if context.getLocalProperty(STAGE_ATTEMPTS) != "1":
        raise ScanError(
            f"tasks that write under one transaction must not be tried again: set {STAGE_ATTEMPTS}=1 for this "
            "application, or write the frame without by_partition"
        )


def new_transactional_id(prefix: str) -> str:
    """The transactional id of a batch write that nobody repeats."""
    return prefix + os.urandom(10).hex()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
