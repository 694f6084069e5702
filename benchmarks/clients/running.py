"""Starts a client process and reads its result."""

import json
import re
import subprocess
import sys
from typing import Final, cast

from benchmarks import CHECKOUT
from oracle.jars import LOGGING, classpath

CLIENT_TIMEOUT_S: Final = 300
TOOL_JVM: Final = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")
SUMMARY: Final = re.compile(
    r"(?P<count>\d+)(?P<steady> steady state)? records sent, (?P<rate>[\d.]+) records/sec .*?, (?P<p50>\d+) ms 50th,"
    r" (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th"
)


class ClientError(RuntimeError):
    """A client ended with an error or printed no result."""


def confluent(module: str, *arguments: object) -> float:
    """Runs one of this package's confluent-kafka clients; the seconds it measured. Raises ClientError."""
    command = [sys.executable, "-m", f"benchmarks.clients.{module}", *map(str, arguments)]
    printed = _output(command)
    return cast(float, json.loads(printed)["seconds"])


def producer_performance(bootstrap: str, topic: str, count: int, warm_count: int, record_bytes: int) -> float:
    """Kafka's ProducerPerformance with the Java producer's defaults, acks=all and idempotent.

    Returns its records per second after the first ``warm_count`` ones. Raises ClientError.
    """
    command = ["java", *TOOL_JVM, LOGGING, "-cp", classpath(), "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"]
    command += ["--num-records", str(count + warm_count), "--warmup-records", str(warm_count)]
    command += ["--record-size", str(record_bytes), "--reporting-interval", "600000"]
    return steady_rate(_output(command))


def steady_rate(printed: str) -> float:
    """Records per second from ProducerPerformance's summary, without its warm-up. Raises ClientError."""
    summaries = list(SUMMARY.finditer(printed))
    steady = [match for match in summaries if match["steady"]] or summaries
    if not steady:
        raise ClientError(f"ProducerPerformance printed no summary:\n{printed}")
    return float(steady[-1]["rate"])


def _output(command: list[str]) -> str:
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False, cwd=CHECKOUT
    )
    if finished.returncode != 0:
        raise ClientError(f"{' '.join(command[:4])} ...:\n{finished.stdout[-2000:]}{finished.stderr[-2000:]}")
    return finished.stdout
