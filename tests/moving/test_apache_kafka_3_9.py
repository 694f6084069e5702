"""The same with the last Kafka before 4.0: what kpybroker writes there stays of versions that Kafka 3.9 reads."""

from pathlib import Path

import pytest
from contents import differences, look
from filling import create_topics, fill
from tenant import Tenant, check, wait_for_log_start

from oracle import ApacheKafka, free_port
from oracle.jars import KAFKA_BEFORE_4

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

STATIC_VOTER_PORT = free_port()
PROPERTIES = {
    "log.cleaner.backoff.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
}


def of_static_quorum(directory: Path) -> ApacheKafka:
    """Formatted as most of 3.9 are: the configuration names the voters."""
    kafka = ApacheKafka(directory=directory, release=KAFKA_BEFORE_4, formatting=())
    kafka.properties |= PROPERTIES
    kafka.properties.pop("controller.quorum.bootstrap.servers")
    kafka.properties["controller.quorum.voters"] = f"1@127.0.0.1:{kafka.controller_port}"
    kafka.properties["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{kafka.port}"
    return kafka


def test_a_directory_of_kafka_3_9_moves_to_and_fro(tmp_path: Path) -> None:
    kafka = of_static_quorum(tmp_path)
    kafka.start_timeout_s = Tenant.start_timeout_s
    ours = Tenant(kafka)
    with kafka:
        create_topics(kafka.port)
        fill(kafka.port, 0)
        seen = look(kafka.port)
        kafka.stop()
        check(kafka.data)
        ours.start()
        assert not differences(seen, look(ours.port))
        fill(ours.port, 1)
        seen = look(ours.port)
        wait_for_log_start(kafka.data, seen)
        ours.kill()
        check(kafka.data)
        kafka.start()
        assert not differences(seen, look(kafka.port))
        fill(kafka.port, 2)
        seen = look(kafka.port)
        wait_for_log_start(kafka.data, seen)
        kafka.kill()
        check(kafka.data)
        ours.start()
        assert not differences(seen, look(ours.port))
        ours.stop()
        check(kafka.data)


def test_a_directory_of_zookeeper_times_is_refused_in_one_line(tmp_path: Path) -> None:
    kafka = of_static_quorum(tmp_path)
    kafka.write_properties()
    kafka.data.mkdir()
    (kafka.data / "meta.properties").write_text(
        "#\n#Fri Nov 20 20:00:00 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=a3B5YnJva2VyLW9yYWNsZQ\n"
    )
    assert "ZooKeeper" in Tenant(kafka).refusal()
