"""The history of a node lies in its directory: Apache Kafka starts there, and leaves it as it is."""

from pathlib import Path

import pytest
from tenant import Tenant, check

from kpybroker.client.client import Client
from kpybroker.monitoring.history.codec import Writer, read
from kpybroker.monitoring.history.file import NAME, TEMPORARY
from kpybroker.monitoring.history.samples import HistoryEvent, Rings
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oracle import ApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.slow]

STARTED = HistoryEvent(1_700_000_000_000, "started", "1")


def test_apache_kafka_starts_beside_a_history_and_leaves_it(tmp_path: Path) -> None:
    rings = Rings()
    rings.note(STARTED)
    content = b"".join(Writer().whole(rings))
    kafka = ApacheKafka(directory=tmp_path)
    kafka.start_timeout_s = Tenant.start_timeout_s
    kafka.prepare()
    for name in (NAME, TEMPORARY):
        (kafka.data / name).write_bytes(content)
    for number, node in enumerate((kafka, Tenant(kafka), kafka)):
        with node:
            topic = CreatableTopic(
                name=f"topic-{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            with Client(node.bootstrap_servers) as client:
                request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
                assert client.call(request).topics[0].error_code == 0
        check(kafka.data)
    assert read((kafka.data / NAME).read_bytes()).rings.events[0] == STARTED
