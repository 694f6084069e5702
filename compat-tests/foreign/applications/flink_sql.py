"""Flink SQL with an exactly-once sink: one transaction for each checkpoint and writer, one JVM that is killed.

After a crash Flink takes the latest checkpoint up, commits what it had prepared and aborts what it had not. A reader of
committed records must find every number once, by either way of naming transactions: with ``pooling`` Flink asks the
broker which transactions are open (ListTransactions), with ``incrementing`` it tries the names that it may have used.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from conftest import NewTopic
from oracle.process import die_with_parent
from oracle.quick import LOGGING, QUICK
from support.waiting import eventually

PROGRAM = Path(__file__).with_name("FlinkSql.java")
OPENED = ("java.base/java.util", "java.base/java.lang", "java.base/java.time")
CUSTOMERS = 7
PATIENCE_S = 400.0

pytestmark = pytest.mark.timeout(1_200)

SCRIPT = """
CREATE TABLE orders (number BIGINT, customer STRING) WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap_servers}',
  'properties.group.id' = '{sink}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE big_orders (number BIGINT, customer STRING, half BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{bootstrap_servers}',
  'properties.transaction.timeout.ms' = '900000', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '{sink}', 'sink.transaction-naming-strategy' = '{naming}', 'format' = 'json');
INSERT INTO big_orders SELECT number, UPPER(customer), number / 2 FROM orders WHERE MOD(number, 2) = 0;
"""


def write(bootstrap_servers: str, topic: str, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(first, last):
        order = {"number": number, "customer": f"customer {number % CUSTOMERS}"}
        producer.produce(topic, json.dumps(order), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0


def expected(last: int) -> Counter[tuple[int, str, int]]:
    return Counter((number, f"CUSTOMER {number % CUSTOMERS}", number // 2) for number in range(0, last, 2))


class Committed:
    """A reader of the sink's committed records."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"{topic}-reader", **settings})
        self._consumer.subscribe([topic])
        self.rows = Counter[tuple[int, str, int]]()

    def read(self, wait_s: float = 0.2) -> int:
        """Take what is there; how many rows there are by now."""
        for message in self._consumer.consume(1_000, wait_s):
            assert message.error() is None
            row = json.loads(message.value() or b"")
            self.rows[row["number"], row["customer"], row["half"]] += 1
        return self.rows.total()

    def close(self) -> None:
        self._consumer.close()


class Job:
    """The statements in a JVM of their own."""

    def __init__(self, directory: Path, script: str) -> None:
        self._directory = directory
        (directory / "job.sql").write_text(script)

    @contextmanager
    def running(self, checkpoint: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
        """Run until the block ends or kills it; goes on from the checkpoint."""
        options = ["-Xmx512m", *QUICK, LOGGING]
        options += [word for package in OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
        words = ["java", *options, "-cp", f"{os.environ['FOREIGN_FLINK']}/*", str(PROGRAM)]
        words += [str(self._directory / "job.sql"), str(self._directory / "checkpoints")]
        log_path = self._directory / "flink.log"
        with open(log_path, "ab") as log:
            job = subprocess.Popen(
                [*words, str(checkpoint)] if checkpoint else words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        try:
            yield job
        except BaseException:
            print(log_path.read_text(errors="replace")[-4_000:])
            raise
        finally:
            job.kill()
            job.wait(PATIENCE_S)

    def latest_checkpoint(self) -> Path:
        """The newest checkpoint that is complete."""
        complete = self._directory.glob("checkpoints/*/chk-*/_metadata")
        return max(complete, key=lambda path: path.stat().st_mtime_ns).parent


@pytest.mark.parametrize("naming", ["pooling", "incrementing"])
def test_every_row_is_there_once_although_the_jvm_is_killed(
    bootstrap_servers: str, new_topic: NewTopic, tmp_path: Path, naming: str
) -> None:
    source, sink = new_topic(2), new_topic(2)
    script = SCRIPT.format(bootstrap_servers=bootstrap_servers, source=source, sink=sink, naming=naming)
    job, committed = Job(tmp_path, script), Committed(bootstrap_servers, sink)
    write(bootstrap_servers, source, 0, 2_000)
    with job.running() as first:
        eventually(lambda: committed.read() >= 500, "the first rows", PATIENCE_S)
        write(bootstrap_servers, source, 2_000, 6_000)
        eventually(lambda: committed.read() >= 1_200, "rows of further checkpoints", PATIENCE_S)
        first.kill()
    with job.running(job.latest_checkpoint()):
        write(bootstrap_servers, source, 6_000, 8_000)
        eventually(lambda: committed.read() >= 4_000, "all rows", PATIENCE_S)
        assert committed.read(wait_s=3.0) == 4_000
    committed.close()
    assert committed.rows == expected(8_000)
