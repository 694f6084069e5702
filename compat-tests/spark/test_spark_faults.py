"""Spark streaming over a broker that dies: whatever the query survives, its checkpoint and the log agree exactly."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from conftest import StartBroker
from oracle import free_port
from support import spark_formats
from support.clients import Confluent, Record, Sending
from support.spark_pipeline import Pipeline, has_read, sizes
from support.targets import KpyBroker
from support.topics import create_topic
from support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

IMPATIENT = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000", "fetchOffset.numRetries": "1"}


class SteadyWriter(threading.Thread):
    """Writes numbers to a topic, some hundred a second, idempotently, until told to stop."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int = 2) -> None:
        super().__init__(name="steady writer", daemon=True)
        self.count = 0
        self.stopping = threading.Event()
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self.stopping.wait(0.02):
            for _ in range(10):
                self._producer.produce(self._topic, str(self.count).encode(), partition=self.count % self._partitions)
                self.count += 1
            self._producer.poll(0)

    @contextmanager
    def writing(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.stopping.set()
            self.join(30)
            assert self._producer.flush(60) == 0


def test_a_query_survives_a_kill_and_goes_on_from_its_checkpoint_after_another(
    spark: SparkSession, start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker()
    create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "numbers", 2)
    flow = Pipeline(spark, broker.bootstrap_servers, tmp_path / "flow", subscribe="numbers", **IMPATIENT)
    writer = SteadyWriter(broker.bootstrap_servers, "numbers")
    with writer.writing():
        patient = Pipeline(spark, broker.bootstrap_servers, tmp_path / "flow", subscribe="numbers")
        with patient.running() as query:
            eventually(partial(has_read, query, 100), "the first records", within_s=60)
            broker.restart(kill=True)
            eventually(partial(has_read, query, writer.count), "what was written until the restart", within_s=90)
        query = flow.start(processingTime="100 milliseconds")
        eventually(partial(has_read, query, 1), "the query to go on", within_s=60)
        broker.kill()
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(120)
        broker.start()
        flow.run_available()
    flow.run_available()
    assert sorted(map(int, flow.values())) == list(range(writer.count))


@pytest.mark.usefixtures("kafka_sink")
def test_the_sink_loses_nothing_when_the_broker_is_killed(
    spark: SparkSession, start_broker: StartBroker, tmp_path: Path
) -> None:
    if spark_formats.one_batch_a_run(spark):
        pytest.skip("the kill comes between batches of availableNow, which is one batch before Spark 4.2")
    broker = start_broker()
    admin, confluent = AdminClient({"bootstrap.servers": broker.bootstrap_servers}), Confluent(broker.bootstrap_servers)
    for topic in ("source", "target"):
        create_topic(admin, topic, 1)
    values = [str(number).encode() for number in range(3_000)]
    confluent.produce("source", [Record(value) for value in values], Sending(linger_ms=10))
    flow = Pipeline(spark, broker.bootstrap_servers, tmp_path, subscribe="source", maxOffsetsPerTrigger="100")

    def copy() -> Any:
        sink = flow.source().selectExpr("value", "'target' topic").writeStream.format("kafka")
        sink = sink.option("kafka.bootstrap.servers", broker.bootstrap_servers)
        return sink.option("checkpointLocation", str(tmp_path / "sink")).trigger(availableNow=True).start()

    query = copy()
    eventually(lambda: len(sizes(query)) >= 3, "some batches to be written", within_s=60)
    broker.restart(kill=True)
    try:
        query.awaitTermination(120)
    except StreamingQueryException:
        query = copy()
        assert query.awaitTermination(120)
    copied = [record.value for record in confluent.read("target")]
    assert set(copied) == set(values)


class Lending(KpyBroker):
    """kpybroker with a second port, at which it lends its files."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory)
        self.second_port = f"127.0.0.1:{free_port()}"

    def command(self) -> Sequence[str]:
        return [*super().command()[:-1], self.second_port]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["fetch", "files", "auto"])
def test_a_stream_of_kpybrokers_source_goes_on_however_often_its_broker_is_stopped(
    spark: SparkSession,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    transport: str,
) -> None:
    if spark_formats.version(spark) < (4, 0):
        pytest.skip("Spark has data sources in Python since 4.0")
    monkeypatch.setattr(spark_formats, "chosen", spark_formats.KPYBROKER)
    moments = random.Random(f"{transport} {pytestconfig.getoption('--seed')}")
    with Lending(tmp_path / "broker") as broker:
        create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "numbers", 2)
        options = {"transport": transport, "secondPorts": broker.second_port, "maxBytesPerTrigger": "100000"}
        flow = Pipeline(spark, broker.bootstrap_servers, tmp_path / "flow", subscribe="numbers", **options)
        writer = SteadyWriter(broker.bootstrap_servers, "numbers")
        with flow.running() as query:
            with writer.writing():
                eventually(partial(has_read, query, 1), "the first records", within_s=90)
                for _ in range(8):
                    time.sleep(moments.uniform(0, 4))
                    (broker.kill if moments.random() < 0.5 else broker.stop)()
                    time.sleep(moments.uniform(0, 3))
                    broker.start()
            eventually(partial(has_read, query, writer.count), "all records", within_s=120)
    assert sorted(map(int, flow.values())) == list(range(writer.count))
