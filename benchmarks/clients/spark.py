"""Spark in a process of its own, for both sides: does what lines on its standard input say, and ends with them.

    python -m benchmarks.clients.spark DIRECTORY

A line is a JSON object with ``do`` (the name of a job of `Work`), ``bootstrap``, ``topic``, ``count`` and what the job
needs beside them.
Its answer, a line too, has the ``seconds`` it took and the ``count`` of records that Spark says it moved, or ``error``.
"""

import json
import os
import random
import sys
import time
import uuid
from collections.abc import Iterable
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from confluent_kafka import Producer
from pyspark.sql import Observation, SparkSession
from pyspark.sql.functions import count as count_of
from pyspark.sql.functions import lit

from kpybroker.pipeline.lake.generations import WriteMode
from kpybroker.spark.lake import Lake
from support.spark_session import small_spark

MEMORY: Final = "2g"
FILLING: Final = {"kafka.linger.ms": "50", "kafka.batch.size": "65536"}
"""Batches are full, so that what is read is the same on both sides however fast each was to write."""
FILLED_BYTES: Final = 131_072
BATCHES: Final = 10
VALUE: Final = "concat(lpad(cast(id as string), 20, '0'), repeat(md5(cast(id as string)), 8)) value"
"""276 bytes: the number, and text that differs from record to record."""
DOCUMENT: Final = b'{"carrier": "UA", "flight": %d, "delay": %d.5, "origin": "EWR", "dest": "IAH", "tail": "N%05d"}'
PATIENCE_S: Final = 280


class Work:
    """The jobs that a round asks for, each returning the number of records that were moved."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory

    def fill(self, bootstrap: str, topic: str, count: int) -> int:
        return self._write(bootstrap, topic, count, FILLING)

    def fill_random(self, bootstrap: str, topic: str, count: int, size: int) -> int:
        """Values of ``size`` bytes that no codec makes smaller, a half for each of two partitions."""
        self._produce(bootstrap, topic, repeat(os.urandom(size), count))
        return count

    def fill_lake(self, bootstrap: str, topic: str, count: int, values: str) -> int:
        """Values of about 100 bytes, a half for each of two partitions: objects of six fields, or random bytes."""
        rng = random.Random(1)
        made = (DOCUMENT % (n, n % 60, n % 50_000) if values == "json" else rng.randbytes(100) for n in range(count))
        self._produce(bootstrap, topic, made)
        return count

    def _produce(self, bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": FILLED_BYTES})
        for number, value in enumerate(values):
            while True:
                try:
                    producer.produce(topic, value, partition=number % 2)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(PATIENCE_S):
            raise RuntimeError("the broker does not take the records")

    def lake(self, bootstrap: str, topic: str, count: int, values: str) -> int:  # noqa: ARG002
        """A new Delta table of the topic."""
        with TemporaryDirectory(dir=self.directory) as place:
            servers = {"kafka.bootstrap.servers": bootstrap}
            lake = Lake(self.spark, servers, topic, f"delta:{place}/table", WriteMode(values=values))
            return sum(commit.rows for commit in lake.once())

    def read(self, bootstrap: str, topic: str, count: int, source: str, options: dict[str, str]) -> int:  # noqa: ARG002
        """A batch query that takes all columns of all rows, into nothing."""
        rows = self.spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
        seen = Observation()
        frame = rows.option("subscribe", topic).options(**options).load().observe(seen, count_of(lit(1)).alias("n"))
        frame.write.format("noop").mode("overwrite").save()
        return int(seen.get["n"])

    def sink(self, bootstrap: str, topic: str, count: int) -> int:
        """The sink with its usual settings: idempotent, acks=all, no linger."""
        return self._write(bootstrap, topic, count, {})

    def _write(self, bootstrap: str, topic: str, count: int, options: dict[str, str]) -> int:
        rows = self.spark.range(count).selectExpr(VALUE)
        sink = rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        sink.option("topic", topic).options(**options).save()
        return count

    def scan(self, bootstrap: str, topic: str, count: int) -> int:  # noqa: ARG002  it finds out itself
        """A batch query that looks at every value."""
        source = self.spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        rows = source.option("subscribe", topic).load()
        (row,) = rows.selectExpr("count(*) n", "min(length(value)) shortest").collect()
        if row.shortest != 276:
            raise RuntimeError(f"a value of {row.shortest} bytes")
        return int(row.n)

    def stream(self, bootstrap: str, topic: str, count: int) -> int:
        """A streaming query from the beginning to the end in ten batches, with a checkpoint, into nothing."""
        source = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        source = source.option("subscribe", topic).option("startingOffsets", "earliest")
        rows: Any = source.option("maxOffsetsPerTrigger", max(count // BATCHES, 1)).load().writeStream.format("noop")
        checkpoint = self.directory / f"checkpoint-{uuid.uuid4().hex}"
        query = rows.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        if not query.awaitTermination(PATIENCE_S):
            raise RuntimeError("the streaming query does not come to an end")
        return sum(json.loads(progress.json())["numInputRows"] for progress in query._jsq.recentProgress())


def serve(work: Work, results: IO[str]) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.perf_counter()
        try:
            moved = getattr(work, asked.pop("do"))(**asked)
        except Exception as failure:  # whatever Spark raises is the answer
            answer: dict[str, Any] = {"error": f"{type(failure).__name__}: {failure}"}
        else:
            answer = {"seconds": time.perf_counter() - began, "count": moved}
        results.write(json.dumps(answer) + "\n")
        results.flush()


def main() -> None:
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark's JVM prints is no result
    directory = Path(sys.argv[1])
    with small_spark(directory, MEMORY, "-XX:+UseG1GC") as spark:
        serve(Work(spark, directory), results)


if __name__ == "__main__":
    main()
