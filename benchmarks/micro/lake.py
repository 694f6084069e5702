"""Topics to Delta tables, end to end but for the network: a log's bytes through decoder and writer into files.

CPU of the whole process counts, since delta-rs has threads of its own.
"""

import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.micro.clock import Operation
from kpybroker.machines.lake.coverage import LaneStep
from kpybroker.machines.lake.planning import CommitLimits
from kpybroker.pipeline.lake.formats import values_of
from kpybroker.pipeline.lake.generations import dead_letters_of
from kpybroker.pipeline.lake.tables import BYTES, Origin
from kpybroker.pipeline.lake.target import Target, target_of
from kpybroker.pipeline.lake.topic import COLUMNS
from kpybroker.pipeline.lake.values import Values
from kpybroker.pipeline.lake.writing import GenerationWriter
from kpywire.aborted import Aborted
from kpywire.columns.decoder import DecodedPartition, Decoder
from kpywire.columns.schema import schema_of
from kpywire.record import Record, build_batch

ROWS = 260_000
BATCH_RECORDS = 1_300
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def operations() -> Iterator[Operation]:
    rng = random.Random(1)
    yield _row("append, values of 100 B as bytes", Log([rng.randbytes(100) for _ in range(ROWS)]), "bytes")
    documents = [b'{"carrier": "UA", "flight": %d, "delay": %d.5, "origin": "EWR"}' % (n, n % 60) for n in range(ROWS)]
    yield _row("append, JSON of 63 B in four columns", Log(documents), "json")


def _row(name: str, topic: "Log", kind: str) -> Operation:
    call = partial(written, topic, values_of(kind, None), kind)
    return Operation(name, call, per=ROWS, unit="row", clock=time.process_time)


class Log:
    """A partition of records in batches of about 130 KB."""

    name = "measured"
    fails_on_data_loss = True

    def __init__(self, values: list[bytes]) -> None:
        batches = []
        for first in range(0, ROWS, BATCH_RECORDS):
            content = values[first : first + BATCH_RECORDS]
            records = [Record(timestamp=first + n, value=value) for n, value in enumerate(content)]
            batches.append(build_batch(records, base_offset=first))
        self._log = b"".join(batches)

    def starts(self) -> dict[int, int]:
        return {0: 0}

    def ends(self) -> dict[int, int]:
        return {0: ROWS}

    def log_ends(self) -> dict[int, int]:
        return self.ends()

    def read(self, steps: Iterable[LaneStep], most_bytes: int) -> tuple[pa.Table, list[LaneStep]]:  # noqa: ARG002
        steps = list(steps)
        batches: list[Any] = []
        for step in steps:
            decoder = Decoder(DecodedPartition("t", 0), COLUMNS, start_offset=step.start, end_offset=step.end)
            batches += [*decoder.decode(self._log, Aborted()), *decoder.take()]
        return pa.Table.from_batches(batches, schema_of(COLUMNS)), steps


def written(topic: Log, values: Values, kind: str) -> None:
    """Make a table of all records."""
    with tempfile.TemporaryDirectory(prefix="kpybroker-lake-") as directory:
        target: Target = target_of(f"delta:{Path(directory) / 'table'}", {})
        origin = Origin(topic.name, (TOPIC_ID,), "append", kind)
        schema = values.first_schema(topic_sample(topic)) if kind == "json" else BYTES
        table = target.create(schema, origin)
        writer = GenerationWriter(
            topic, TOPIC_ID, table, partial(dead_letters_of, target, origin), values, CommitLimits(), 1
        )
        writer.take_over(None)
        writer.begin(backfill=False)
        while writer.write(topic.ends()) is not None:
            pass
        assert table.count() == ROWS


def topic_sample(topic: Log) -> pa.Table:
    return topic.read([LaneStep(0, 0, 0, 1_000)], 1 << 20)[0]
