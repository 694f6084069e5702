"""Starts a client process and reads its result."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from benchmarks import CHECKOUT
from oracle.jars import classpath
from oracle.quick import LOGGING

if TYPE_CHECKING:
    from benchmarks.rows.shape import Shape

CLIENT_TIMEOUT_S: Final = 300
NO_SECURITY: Final[Mapping[str, str]] = {}
TOOL_JVM: Final = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")
SUMMARY: Final = re.compile(
    r"(?P<count>\d+)(?P<steady> steady state)? records sent, (?P<rate>[\d.]+) records/sec .*?, (?P<p50>\d+) ms 50th,"
    r" (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th"
)
FETCH_RATE_COLUMN: Final = "fetch.nMsg.sec"
LATENCY: Final = re.compile(r"Avg latency: *(?P<mean>[\d.]+) *ms")


class ClientError(RuntimeError):
    """A client ended with an error or printed no result."""


def client(module: str, *arguments: object) -> float:
    """Runs one of this package's clients; the seconds it measured. Raises ClientError."""
    printed = _output([sys.executable, "-m", f"benchmarks.clients.{module}", *map(str, arguments)])
    return cast(float, json.loads(printed)["seconds"])


def confluent_produce(
    bootstrap: str, topic: str, count: int, shape: "Shape", security: Mapping[str, str] = NO_SECURITY
) -> float:
    """Seconds that confluent-kafka took for ``count`` records of a shape. ``security`` are its settings for a listener
    that is not plain. Raises ClientError."""
    settings = [*_settings(shape), *(f"{key}={value}" for key, value in security.items())]
    return client("confluent_produce", bootstrap, topic, count, *shape.sizes, *settings)


def confluent_fill(bootstrap: str, topic: str, count: int, shape: "Shape") -> None:
    """Write ``count`` records of a shape, in the same batches to every broker. Raises ClientError."""
    client("confluent_fill", bootstrap, topic, shape.partitions, count, *shape.sizes, *_settings(shape))


def _settings(shape: "Shape") -> list[str]:
    """The settings of a producer of confluent-kafka that a shape names."""
    settings = [f"acks={shape.acks}"]
    if shape.idempotent:
        settings.append("enable.idempotence=true")
    if shape.codec != "none":
        settings.append(f"compression.type={shape.codec}")
    return settings


def confluent_consume(
    bootstrap: str, topic: str, partitions: int, count: int, security: Mapping[str, str] = NO_SECURITY
) -> float:
    """Seconds that confluent-kafka took to read ``count`` records. Raises ClientError."""
    settings = [f"{key}={value}" for key, value in security.items()]
    return client("confluent_consume", bootstrap, topic, partitions, count, *settings)


def python_produce(bootstrap: str, topic: str, count: int, shape: "Shape") -> float:
    """Seconds that kafka-python took, acks=1 and uncompressed. Raises ClientError."""
    return client("python_produce", bootstrap, topic, count, shape.record_bytes)


def producer_performance(
    bootstrap: str,
    topic: str,
    count: int,
    warm_count: int,
    shape: "Shape",
    security: Mapping[str, str] = NO_SECURITY,
) -> float:
    """Kafka's ProducerPerformance, with the Java producer's defaults where the shape says nothing. ``security`` are its
    settings for a listener that is not plain.

    Returns its records per second after the first ``warm_count`` ones. Raises ClientError.
    """
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"]
    arguments += ["--num-records", str(count + warm_count), "--warmup-records", str(warm_count)]
    arguments += ["--record-size", str(shape.record_bytes), "--reporting-interval", "600000"]
    arguments += ["--command-property", f"acks={shape.acks}", f"enable.idempotence={str(shape.idempotent).lower()}"]
    arguments.append(f"compression.type={shape.codec}")
    arguments += [f"{key}={value}" for key, value in security.items()]
    return steady_rate(_tool("ProducerPerformance", arguments))


def consumer_performance(bootstrap: str, topic: str, count: int) -> float:
    """Kafka's ConsumerPerformance from a topic's start; its records per second of fetching. Raises ClientError."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count), "--timeout", "30000"]
    return fetch_rate(_tool("ConsumerPerformance", arguments))


def end_to_end_latency(bootstrap: str, topic: str, count: int, record_bytes: int) -> float:
    """Kafka's EndToEndLatency, acks=1: a producer and a consumer, one record after the other.

    The mean in milliseconds, since its percentiles are whole ones. Raises ClientError.
    """
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count)]
    arguments += ["--producer-acks", "1", "--record-size", str(record_bytes)]
    return mean_latency_ms(_tool("EndToEndLatency", arguments))


def steady_rate(printed: str) -> float:
    """Records per second from ProducerPerformance's summary, without its warm-up. Raises ClientError."""
    summaries = list(SUMMARY.finditer(printed))
    steady = [match for match in summaries if match["steady"]] or summaries
    if not steady:
        raise ClientError(f"ProducerPerformance printed no summary:\n{printed}")
    return float(steady[-1]["rate"])


def fetch_rate(printed: str) -> float:
    """Records per second from ConsumerPerformance's table: without its rebalance. Raises ClientError."""
    lines = [[cell.strip() for cell in line.split(",")] for line in printed.splitlines() if line.count(",") > 5]
    heads = [line for line in lines if FETCH_RATE_COLUMN in line]
    if not heads or lines[-1] == heads[-1]:
        raise ClientError(f"ConsumerPerformance printed no result:\n{printed}")
    return float(lines[-1][heads[-1].index(FETCH_RATE_COLUMN)])


def mean_latency_ms(printed: str) -> float:
    """The mean that EndToEndLatency prints. Raises ClientError."""
    found = LATENCY.search(printed)
    if found is None:
        raise ClientError(f"EndToEndLatency printed no result:\n{printed}")
    return float(found["mean"])


def _tool(name: str, arguments: list[str]) -> str:
    return _output(["java", *TOOL_JVM, LOGGING, "-cp", classpath(), f"org.apache.kafka.tools.{name}", *arguments])


def _output(command: list[str]) -> str:
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False, cwd=CHECKOUT
    )
    if finished.returncode != 0:
        raise ClientError(f"{' '.join(command[:4])} ...:\n{finished.stdout[-2000:]}{finished.stderr[-2000:]}")
    return finished.stdout
