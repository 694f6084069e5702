"""Spark's Kafka source and sink: one Spark, warm, that works with both brokers in turn."""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import CHECKOUT, processes
from benchmarks.clients.running import CLIENT_TIMEOUT_S, ClientError
from benchmarks.figures import Figure
from benchmarks.rows.row import FULL, Effort, Meter, RoundError, Row
from benchmarks.sides import Side

RECORDS: Final = 5_000_000
RECORD_BYTES: Final = 276
SINK_SHARE: Final = 5
"""The sink writes fewer records than the source reads, by this factor, since it takes longer for each."""
IN_MEMORY: Final = Path("/dev/shm")
"""For Spark's checkpoints: it waits for the disk twice per micro-batch, which no broker can change."""
BATCH = Figure("batch scan", "records/s", True)
STREAM = Figure("streaming scan", "records/s", True)
SINK = Figure("sink", "records/s", True)
SCAN_CPU = Figure("broker CPU, batch scan", "s/GB", False)
SINK_CPU = Figure("broker CPU, sink", "s/GB", False)


class SparkProcess:
    """``benchmarks.clients.spark``: started once, asked line by line, ended by the end of its input."""

    def __init__(self) -> None:
        place = IN_MEMORY if IN_MEMORY.is_dir() else None
        self._directory = tempfile.TemporaryDirectory(prefix="kpybench-spark-", dir=place, ignore_cleanup_errors=True)
        self._output = Path(self._directory.name) / "output.log"
        command = [sys.executable, "-m", "benchmarks.clients.spark", self._directory.name]
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True, cwd=CHECKOUT
            )

    def ask(self, do: str, side: Side, topic: str, count: int, more: Mapping[str, Any] | None = None) -> float:
        """The seconds it took. Raises ClientError, and RoundError when other records were moved than ``count``."""
        asked = {"do": do, "bootstrap": side.bootstrap_servers, "topic": topic, "count": count, **(more or {})}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = threading.Timer(CLIENT_TIMEOUT_S, self._process.kill)
        deadline.start()
        try:
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            deadline.cancel()
        if not line:
            raise ClientError(f"Spark has ended: {self._output.read_text(errors='replace')[-400:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClientError(f"Spark, {do}: {answer['error']}")
        if answer["count"] != count:
            raise RoundError(f"Spark, {do}: {answer['count']} of {count} records")
        return float(answer["seconds"])

    def cpu_seconds(self) -> float:
        """The CPU that Spark's JVM and all its Python processes have used."""
        return processes.cpu_seconds(self._process.pid)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()


class SparkRow(Row):
    """A row that Spark plays: one process for all sides, from the first that is opened to the last that is closed."""

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.spark: SparkProcess | None = None
        self._open: set[Side] = set()

    def spark_for(self, side: Side) -> SparkProcess:
        """The process, from now on for this side too."""
        self._open.add(side)
        if self.spark is None:
            self.spark = SparkProcess()
        return self.spark

    def close(self, side: Side) -> None:
        self._open.discard(side)
        if not self._open and self.spark is not None:
            self.spark.end()
            self.spark = None


class SparkScanAndSink(SparkRow):
    """A topic read as a batch, read as a stream in ten micro-batches, and another one written."""

    key = "spark"
    title = "Spark"
    figures = (BATCH, STREAM, SINK, SCAN_CPU, SINK_CPU)
    warms_up = False
    expected_s = 300.0

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.count = RECORDS * effort.produced_mb // FULL.produced_mb
        self.title = f"Spark, {self.count / 1e6:.1f} M records of {RECORD_BYTES} B"
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        """Fills the topic; then a round that does not count, since Spark's first queries are slow."""
        topic = self.topics[side] = side.create_topic("scan", self.effort.partitions)
        self.spark_for(side).ask("fill", side, topic, self.count)
        self.expect(side, topic, self.count)
        self.play(side)

    def play(self, side: Side) -> dict[str, float]:
        assert self.spark is not None
        topic, written = self.topics[side], self.count // SINK_SHARE
        target = side.create_topic("sink", self.effort.partitions)
        meter = Meter(side)
        scan_s = self.spark.ask("scan", side, topic, self.count)
        _, scan_cpu_s = meter.end()
        stream_s = self.spark.ask("stream", side, topic, self.count)
        meter.begin()
        sink_s = self.spark.ask("sink", side, target, written)
        _, sink_cpu_s = meter.end()
        self.expect(side, target, written)
        side.delete_topic(target)
        return {
            BATCH.name: self.count / scan_s,
            STREAM.name: self.count / stream_s,
            SINK.name: written / sink_s,
            SCAN_CPU.name: scan_cpu_s / (self.count * RECORD_BYTES) * 1e9,
            SINK_CPU.name: sink_cpu_s / (written * RECORD_BYTES) * 1e9,
        }

    def expect(self, side: Side, topic: str, count: int) -> None:
        """Raises RoundError."""
        found = side.record_count(topic, self.effort.partitions)
        if found != count:
            raise RoundError(f"{topic} has {found} of {count} records")

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))
        super().close(side)
