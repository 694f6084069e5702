"""Kafka's ReplicaVerificationTool, which reads every replica, compares them, and never ends by itself."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from oracle.jars import KAFKA_VERSION, jvm
from oracle.process import die_with_parent

REPORT_MS = 200
EARLIEST = "-2"


@contextmanager
def verifying(servers: str, topics: str, errors: Path, release: str = KAFKA_VERSION) -> Iterator[IO[str]]:
    """The output of the tool while it compares the topics that a pattern matches; its log goes to ``errors``.

    It asks in its newest versions, so a broker of Kafka 3.9 needs that ``release``.
    """
    command = [
        *jvm(heap="128m", release=release),
        "org.apache.kafka.tools.ReplicaVerificationTool",
        "--broker-list",
        servers,
    ]
    command += ["--report-interval-ms", str(REPORT_MS), "--time", EARLIEST, "--topics-include", topics]
    with open(errors, "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=die_with_parent)
    try:
        assert process.stdout is not None
        assert "verification process is started" in process.stdout.readline()
        yield process.stdout
    finally:
        process.kill()
        process.communicate()
