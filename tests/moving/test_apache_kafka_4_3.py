"""A house for two: Apache Kafka 4.3 and kpybroker serve one data directory by turns, and all stays as it is."""

from pathlib import Path

import pytest
from contents import differences, look
from filling import PLAIN, create_topics, fill, numbered, write
from tenant import Tenant, check, wait_for_log_start

from oracle import ApacheKafka
from support.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

PROPERTIES = {
    "log.cleaner.backoff.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
}


def test_a_default_directory_moves_to_and_fro(tmp_path: Path) -> None:
    kafka = ApacheKafka(PROPERTIES, directory=tmp_path)
    kafka.start_timeout_s = Tenant.start_timeout_s
    ours = Tenant(kafka)
    with kafka:
        create_topics(kafka.port)
        fill(kafka.port, 0)
        seen = look(kafka.port)
        for turn, (leaves, comes, kill) in enumerate(
            [(kafka, ours, True), (ours, kafka, False), (kafka, ours, False), (ours, kafka, True)], 1
        ):
            if kill:
                wait_for_log_start(kafka.data, seen)
                leaves.kill()
            else:
                leaves.stop()
            check(kafka.data)
            comes.start()
            assert not differences(seen, look(comes.port))
            with RawClient(comes.port) as raw:
                again = write(raw, PLAIN, numbered(turn - 1), 2)
            assert again == 3 * (turn - 1)
            fill(comes.port, turn)
            seen = look(comes.port)
        kafka.stop()
        check(kafka.data)
