"""A topic in memory for tests of writers, and targets of both formats."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from kpybroker.machines.lake.coverage import LaneStep
from kpybroker.machines.lake.planning import CommitLimits
from kpybroker.pipeline.lake.generations import dead_letters_of
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.tables import LakeTable, Origin
from kpybroker.pipeline.lake.target import Target, target_of
from kpybroker.pipeline.lake.topic import COLUMNS
from kpybroker.pipeline.lake.values import Values
from kpybroker.pipeline.lake.writing import GenerationWriter
from kpywire.columns.schema import schema_of

ID = "AAAAAAAAAAAAAAAAAAAAAA"
FORMATS = ("delta", "iceberg")

Content = tuple[bytes | None, bytes | None]


class MemoryTopic:
    """Partitions of keys and values by offset; an offset that is not there is a gap."""

    name = "flights"
    fails_on_data_loss = True

    def __init__(self, partitions: int = 1, *, compacted: bool = False) -> None:
        self.logs: list[dict[int, Content]] = [{} for _ in range(partitions)]
        self.last = [0] * partitions
        self.first = dict.fromkeys(range(partitions), 0)
        self.compacted = compacted
        self.extra: tuple[str, ...] = ()
        self.times_us: dict[int, int] = {}
        """The timestamps of offsets that have another one than the usual."""
        self.headers: dict[int, list[tuple[str, bytes | None]]] = {}

    def put(self, partition: int, *content: Content | None) -> None:
        """Append records; None for an offset without one."""
        for each in content:
            if each is not None:
                self.logs[partition][self.last[partition]] = each
            self.last[partition] += 1

    def starts(self) -> dict[int, int]:
        return dict(self.first)

    def ends(self) -> dict[int, int]:
        return dict(enumerate(self.last))

    def is_compacted(self) -> bool:
        return self.compacted

    def log_ends(self) -> dict[int, int]:
        return self.ends()

    def read(self, steps: Iterable[LaneStep], most_bytes: int) -> tuple[pa.Table, list[LaneStep]]:  # noqa: ARG002
        steps, columns = list(steps), COLUMNS + self.extra
        batches = [batch for step in steps for batch in self.batches(step, columns)]
        return pa.Table.from_batches(batches, schema_of(columns)), steps

    def batches(self, step: LaneStep, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        log = self.logs[step.partition]
        offsets = [offset for offset in range(step.start, step.end) if offset in log]
        cells: dict[str, list[Any]] = {
            "key": [log[offset][0] for offset in offsets],
            "value": [log[offset][1] for offset in offsets],
            "partition": [step.partition] * len(offsets),
            "offset": offsets,
            "timestamp": [self.times_us.get(offset, 1_700_000_000_000_000 + offset) for offset in offsets],
            "headers": [self._headers(offset) for offset in offsets],
            "leaderEpoch": [offset // 2 for offset in offsets],
        }
        yield pa.record_batch([pa.array(cells[name], schema_of([name])[0].type) for name in columns], columns)

    def _headers(self, offset: int) -> list[dict[str, Any]] | None:
        usual = [("at", b"%d" % offset)] if offset % 2 else []
        return [{"key": key, "value": value} for key, value in self.headers.get(offset, usual)] or None


def target_in(directory: Path, kind: str) -> Target:
    if kind == "delta":
        return target_of(f"delta:{directory}/table", {})
    options = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/warehouse"}
    return target_of("iceberg:lake.table", options)


def made(target: Target, topic: MemoryTopic, mode: str = "append") -> LakeTable:
    """The table, made with JSON columns if there is none."""
    schema = JsonValues().first_schema(pa.table({"value": pa.array([b'{"n": 1}'])}))
    return target.open() or target.create(schema, Origin(topic.name, (ID,), mode, "json"))


def writer_of(
    target: Target,
    topic: MemoryTopic,
    table: LakeTable,
    number: int = 1,
    rows: int = 1_000_000,
    values: Values | None = None,
) -> GenerationWriter:
    origin = table.origin()
    assert origin is not None
    limits = CommitLimits(rows=rows)
    return GenerationWriter(
        topic, ID, table, lambda: dead_letters_of(target, origin), values or JsonValues(), limits, number
    )


def started(
    target: Target, topic: MemoryTopic, mode: str = "append", rows: int = 1_000_000, number: int = 1
) -> GenerationWriter:
    """A writer as it is after the start of a process."""
    writer = writer_of(target, topic, made(target, topic, mode), number, rows)
    writer.take_over(target.dead_letters().open())
    writer.begin(backfill=False)
    return writer


def written(writer: GenerationWriter, topic: MemoryTopic) -> int:
    """Write up to the end; return the number of commits."""
    commits = 0
    while writer.write(topic.ends()) is not None:
        commits += 1
    return commits
