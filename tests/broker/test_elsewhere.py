"""A node, its tools and its second port where nothing of Linux's own is there, all at once, as on macOS.

The processes are of the command line, in a Python from which `elsewhere/sitecustomize.py` takes what only Linux has.
"""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaProducer

from oracle.process import free_port
from oracle.started import started

ELSEWHERE = Path(__file__).with_name("elsewhere")
RECORDS = 2_000


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ELSEWHERE), *(each for each in sys.path if each)])
    return {**os.environ, "PYTHONPATH": path, "KPYBROKER_NO_UVLOOP": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def command_line(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kpybroker", *words]
    return subprocess.run(
        command, env=environment(), input=text, capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def node(data: Path, port: int, http_port: int, ending: signal.Signals) -> Iterator[None]:
    """A broker, until ``ending`` is sent to it."""
    words = ["start", "--data", str(data), "--port", str(port), "--http", f"127.0.0.1:{http_port}"]
    command = [sys.executable, "-m", "kpybroker", *words, "--override", "log.segment.bytes=1048576"]
    with started(command, environment=environment(), ending=ending):
        yield


def test_a_node_runs_without_functions_that_only_linux_has(tmp_path: Path) -> None:
    port, http_port = free_port(), free_port()
    at = ("-b", f"127.0.0.1:{port}")
    with node(tmp_path, port, http_port, signal.SIGKILL):
        producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}", linger_ms=5, compression_type="gzip")
        for number in range(RECORDS):
            producer.send("flights", b"%d " % number + os.urandom(500).hex().encode())
        producer.flush()
        producer.close()
        assert command_line("consume", "flights", "-G", "readers", "-q", "-c", "10", *at).returncode == 0
    with node(tmp_path, port, http_port, signal.SIGTERM):
        read = command_line("consume", "flights", "-e", "-f", r"%o %V\n", *at)
        sizes = [line.split() for line in read.stdout.splitlines()]
        assert [(int(offset), int(size)) for offset, size in sizes] == [
            (number, len(str(number)) + 1_001) for number in range(RECORDS)
        ]
        assert "flights" in command_line("groups", "describe", "readers", *at).stdout
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=60) as answer:
            page = answer.read().decode()
        assert "kafka_server_kafkaserver_brokerstate 3" in page
        assert "\nkafka_server_kafkaserver_linux_disk_read_bytes " not in page
        doctor = command_line("doctor", "--http", f"127.0.0.1:{http_port}", "--patience", "0", *at)
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert command_line("check", str(tmp_path)).returncode == 0


def test_functions_that_only_linux_has_are_hidden_in_this_test() -> None:
    look = "import os, select, sys; print(sys.platform, hasattr(select, 'epoll'), hasattr(os, 'posix_fadvise'))"
    found = subprocess.run(
        [sys.executable, "-c", look], env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.split() == ["freebsd14", "False", "False"], found.stderr
