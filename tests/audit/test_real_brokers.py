"""The data that kpybroker and Apache Kafka write audits clean: the files of running and stopped brokers, and Fetch."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from filling import COMPACTED, DELETED, create_topics, fill

from kpybroker.cli import main
from oracle import ApacheKafka, BrokerProcess
from support.targets import KpyBroker

PROPERTIES = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2", "node.id": "1"}
KAFKA_ONLY = {"log.cleaner.backoff.ms": "300", "log.initial.task.delay.ms": "100"}


@pytest.fixture(scope="module", params=["kpybroker", pytest.param("apache-kafka", marks=pytest.mark.java)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("audited")
    started: BrokerProcess
    if request.param == "kpybroker":
        started = KpyBroker(PROPERTIES, directory=directory)
    else:
        started = ApacheKafka({**PROPERTIES, **KAFKA_ONLY}, directory=directory)
    with started:
        create_topics(started.port)
        fill(started.port, 0)
        started.restart()
        fill(started.port, 1)
        yield started


def audit(*words: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["audit", "--json", *words])
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def lines(found: dict[str, Any]) -> list[str]:
    return [" ".join(str(value) for value in each.values()) for each in found["findings"]]


def test_a_running_broker_audits_clean_by_its_files_and_by_fetch(broker: BrokerProcess) -> None:
    by_fetch = audit("-b", f"127.0.0.1:{broker.port}")
    by_files = audit(str(broker.directory / "data"), "--keys")
    for found in (by_fetch, by_files):
        assert found["damages"] == 0, lines(found)
        assert found["whole_transactions"] > 0
        assert found["torn_transactions"] == 0
        assert found["positions"] > 0
        topics = {root.rpartition("-")[0].rpartition("/")[2] for root in found["roots"]}
        assert {COMPACTED, DELETED} <= topics
    assert by_files["partitions"] == by_fetch["partitions"] + 1  # __cluster_metadata


def test_a_later_audit_reads_less_and_extends_the_summary(broker: BrokerProcess, tmp_path: Path) -> None:
    data, summary = str(broker.directory / "data"), str(tmp_path / "summary.json")
    first = audit(data, "--summary", summary)
    second = audit(data, "--since", summary, "--summary", summary)
    assert second["damages"] == 0, lines(second)
    assert second["read_bytes"] < first["read_bytes"]
    fill(broker.port, 2)
    third = audit(data, "--since", summary)
    assert third["damages"] == 0, lines(third)
    assert third["records"] > first["records"]


def test_a_stopped_broker_audits_clean(broker: BrokerProcess) -> None:
    broker.stop()
    try:
        found = audit(str(broker.directory / "data"), "--keys")
        assert found["damages"] == 0, lines(found)
        assert found["torn_transactions"] == 0
    finally:
        broker.start()
