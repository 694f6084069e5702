"""``kpybroker start --secure`` as users have it: the files that it writes are all that each client needs."""

import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from kpybroker.cli import main, secure_files
from kpybroker.node.local_cluster.child import READY, python_path
from oracle import java

START = [sys.executable, "-P", "-m", "kpybroker", "start", "--secure", "--port", "0"]


def started(directory: Path, http: str = "off", printed: list[str] | None = None) -> "subprocess.Popen[str]":
    """The process, once it serves clients and has said how to reach it."""
    process = subprocess.Popen(
        [*START, "--data", str(directory), "--http", http],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    reported: list[str] = [] if printed is None else printed
    for line in process.stdout:
        reported.append(line)
        if "KafkaConsumer(" in line:
            break
    assert any(READY in line for line in reported), "".join(reported)
    return process


def stop(process: "subprocess.Popen[str]") -> str:
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    return output


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a node that was started twice."""
    found = tmp_path_factory.mktemp("secure") / "data"
    first = started(found)
    password = json.loads((found / secure_files.PYTHON).read_text())["sasl_plain_password"]
    assert run(found, "topics", "create", "before").exit_code == 0
    assert password not in stop(first)
    second = started(found)
    try:
        yield found
    finally:
        stop(second)


def run(directory: Path, *words: str, stdin: str = "") -> Result:
    arguments = [*words, "--command-config", str(directory / secure_files.JAVA)]
    return CliRunner().invoke(main, arguments, input=stdin)


def test_commands_need_the_file_alone_also_after_another_start(directory: Path) -> None:
    assert "before" in run(directory, "topics", "list").stdout
    assert run(directory, "produce", "before", "-q", stdin="one\n").exit_code == 0
    assert run(directory, "consume", "before", "-c", "1", "-q").stdout == "one\n"


def test_kafka_python_and_librdkafka_connect_by_their_files(directory: Path) -> None:
    python = json.loads((directory / secure_files.PYTHON).read_text())
    consumer = KafkaConsumer(**python)
    assert "before" in consumer.topics()
    consumer.close()
    lines = (directory / secure_files.LIBRDKAFKA).read_text().splitlines()
    admin = AdminClient(dict(line.split("=", 1) for line in lines))
    assert "before" in admin.list_topics(timeout=20).topics


def test_a_client_without_the_password_or_the_authority_learns_what_is_missing(directory: Path) -> None:
    server = json.loads((directory / secure_files.PYTHON).read_text())["bootstrap_servers"]
    bare = CliRunner().invoke(main, ["topics", "list", "-b", server])
    assert bare.exit_code == 3
    assert "set security.protocol=SSL, or SASL_SSL" in bare.stderr
    wrong = run(directory, "produce", "before", "-X", "sasl.jaas.config=" + secure_files.jaas("guess"), stdin="x\n")
    assert wrong.exit_code == 1
    assert "refuses the login of user 'admin' by SCRAM-SHA-512" in wrong.stderr
    authority = str(directory / secure_files.CA)
    certificate = ["security.protocol=SSL", f"ssl.ca.location={authority}"]
    words = [word for pair in certificate for word in ("-X", pair)]
    anonymous = CliRunner().invoke(main, ["consume", "before", *words, "-b", server])
    assert "demands a login by SCRAM-SHA-512: set security.protocol=SASL_SSL" in anonymous.stderr


def test_the_doctor_finds_the_listener_and_the_configs_in_order(directory: Path) -> None:
    found = json.loads(run(directory, "doctor", "--patience", "0", "--json").stdout)
    (listener,) = (each for each in found if each["check"] == "listeners")
    assert listener["level"] == "good", listener
    assert "issued by CN=kpybroker authority" in listener["message"]
    assert listener["message"].endswith("logins by SCRAM-SHA-512")
    assert [each["level"] for each in found if each["check"] == "configs"] == ["good"], found


def answer_of(address: str, login: str = "") -> int:
    request = Request(
        address, headers={"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
    )
    try:
        with urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_the_console_opens_with_a_password_that_is_printed_once(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    for is_first in (True, False):
        printed: list[str] = []
        process = started(directory, "127.0.0.1:0", printed)
        try:
            (console,) = (line.split()[1] for line in printed if line.startswith("console: "))
            password = json.loads((directory / secure_files.PYTHON).read_text())["sasl_plain_password"]
            (login,) = (line.strip() for line in printed if line.startswith("  user admin"))
            kept = directory / secure_files.JAVA
            once = f"user admin, password {password} (printed this once; it is in {kept})"
            assert login == (once if is_first else f"user admin; its password is in {kept}")
            pages = [answer_of(f"{console}{path}") for path in ("", "api/cluster", "live", "metrics")]
            assert pages == [401, 401, 200, 200]
            assert answer_of(f"{console}api/cluster", f"admin:{password}") == 200
            assert answer_of(console, "admin:guess") == 401
        finally:
            stop(process)


def test_beyond_loopback_the_console_takes_https_and_the_metrics_a_login() -> None:
    here, beyond = (secure_files.console_settings(http, Path("/d")) for http in (None, "0.0.0.0:9404"))
    assert here["kpybroker.http.open.paths"] == "/live,/ready,/metrics"
    assert "kpybroker.http.ssl.keystore.location" not in here
    assert beyond["kpybroker.http.ssl.keystore.location"] == "/d/server-keystore.pem"
    assert "kpybroker.http.open.paths" not in beyond
    assert here["kpybroker.http.users"] == beyond["kpybroker.http.users"] == "scram"


@pytest.mark.java
def test_kafkas_own_tools_connect_by_their_file(directory: Path) -> None:
    file = directory / secure_files.JAVA
    server = json.loads((directory / secure_files.PYTHON).read_text())["bootstrap_servers"]
    words = ("--bootstrap-server", server, "--command-config", str(file), "--list")
    listed = java("org.apache.kafka.tools.TopicCommand", *words)
    assert "before" in listed.stdout, listed.stderr
