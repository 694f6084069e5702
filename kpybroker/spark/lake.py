"""Lake tables that Spark writes: `kpybroker lake` with executors that read, decode and write files.

The driver plans and commits as `kpybroker.pipeline.lake` does, so a table is the same whichever of the two writes it,
and each can go on where the other ended. The commit has the offsets in it. Files of tasks that failed are no part of
the table.

Rows of an upsert pass the driver, as do dead letters: a commit is as large as the limits say.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kpybroker.client.schemas.registry import Registry
from kpybroker.machines.lake.naming import NamingRule
from kpybroker.machines.lake.planning import CommitLimits
from kpybroker.machines.scan.options import read_options
from kpybroker.pipeline.lake import following
from kpybroker.pipeline.lake.checking import NOT_COMPARED, TableCheck, as_text
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.formats import comparable, values_of
from kpybroker.pipeline.lake.generations import WriteMode, dead_letters_of, opened
from kpybroker.pipeline.lake.target import Target, target_of
from kpybroker.pipeline.lake.topic import LakeTopic
from kpybroker.pipeline.lake.values import Values, sources
from kpybroker.pipeline.lake.writing import CommitOutcome
from kpybroker.pipeline.scan.connecting import client_of, old_records_of
from kpybroker.spark.lake_reading import LakeReadSettings
from kpybroker.spark.lake_writer import SparkWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIB = 1024 * 1024 * 1024
ISOLATION = "kafka.isolation.level"
LIMITS = CommitLimits(rows=20_000_000, bytes=GIB)
"""Commits of many tasks. An upsert has those of one process."""


class Lake:
    """A topic and the table that is written from it.

    ``options`` are those of ``format("kpybroker")`` that say how to reach a cluster; committed records are read unless
    they say otherwise. ``table`` is ``delta:PATH`` or ``iceberg:NAMESPACE.TABLE``, or a `Target` with settings of its
    storage or catalog.
    """

    def __init__(
        self,
        spark: "SparkSession",
        options: Mapping[str, str],
        topic: str,
        table: str | Target,
        write_mode: WriteMode | None = None,
        limits: CommitLimits | None = None,
        schema_registry: str | None = None,
    ) -> None:
        """LakeError, SchemaError, BadOption, and ValueError for a text that names no table."""
        self._spark = spark
        self._options = read_options({ISOLATION: "read_committed", **_lower(options), "subscribe": topic})
        self._name = topic
        self._target = target_of(table, {}) if isinstance(table, str) else table
        self._write_mode = write_mode or WriteMode()
        self._limits = limits
        self._registry_url = schema_registry

    def once(self, say: Callable[[str], object] = print) -> Iterator[CommitOutcome]:
        """The commits up to the ends of the partitions as they are now."""
        with self._topic() as topic:
            yield from following.once(self._writer(topic, topic.find()), topic, _Never(), say)

    def follow(self, stop: following.StopEvent, say: Callable[[str], object] = print) -> Iterator[CommitOutcome]:
        """The commits until ``stop``, a ``threading.Event``, is set."""
        with self._topic() as topic:
            topic_id = topic.find()
            yield from following.follow(self._writer(topic, topic_id), topic, topic_id, stop, say)

    def check(self) -> tuple[bool, list[str]]:
        """Whether table = topic, and the lines that ``kpybroker lake check`` prints. LakeError."""
        with self._topic() as topic:
            table = self._target.open()
            origin = None if table is None else table.origin()
            if table is None or origin is None:
                raise LakeError(f"{self._target!r} is no table that kpybroker lake made")
            kind = origin.values
            values = comparable(kind, lambda: self._values(kind, self._target.rule))
            dead_letters = self._target.dead_letters().open()
            check = TableCheck(topic, topic.find(), table, dead_letters, origin.mode, values)
            counts = list(check.counts())
        lines = [as_text(origin.mode, count) for count in counts]
        lines += [f"{self._name}-{each.partition}, offset {each.offset} {each.what}" for each in check.findings]
        if values is None:
            lines.append(NOT_COMPARED)
        return all(count.holds for count in counts), lines

    @contextmanager
    def _topic(self) -> Iterator[LakeTopic]:
        client = client_of(self._options)
        wanted = self._options.wanted
        topic = LakeTopic(
            client,
            lambda: client_of(self._options),
            self._name,
            committed_only=wanted.committed_only,
            fails_on_data_loss=wanted.fails_on_data_loss,
            old=old_records_of(self._options),
        )
        try:
            yield topic
        finally:
            topic.close()
            client.close()

    def _values(self, kind: str, rule: NamingRule) -> Values:
        return values_of(kind, None if self._registry_url is None else Registry(self._registry_url), rule=rule)

    def _writer(self, topic: LakeTopic, topic_id: str) -> SparkWriter:
        topic.extra = sources(self._write_mode.extra)
        table = opened(self._target, topic, topic_id, self._write_mode, self._values)
        origin = table.origin()
        assert origin is not None
        limits = self._limits or (LIMITS if origin.mode == "append" else CommitLimits())
        reading = LakeReadSettings(self._options, origin, topic_id, self._registry_url, self._target.rule)
        dead_letters = partial(dead_letters_of, self._target, origin)
        writer = SparkWriter(self._spark, reading, topic, table, dead_letters, limits, random.getrandbits(62))
        writer.take_over(self._target.dead_letters().open())
        writer.begin(backfill=False)
        return writer


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}


class _Never:
    """Nothing that stops."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float) -> bool:  # noqa: ARG002
        return False
