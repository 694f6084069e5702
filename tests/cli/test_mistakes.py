"""Mistakes on the command line, on a broker that runs: one line names the mistake, and nothing is changed."""

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from kpybroker.client.sender import Round, Sender, SendRefused
from kpybroker.machines.errors import KafkaError
from kpybroker.testing import Broker
from kpywire import error_codes


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", partitions=2)
        running.produce("orders", "first", "second", partition=0)
        yield running


def invoke(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "-b", broker.bootstrap_servers])


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (
            ("configs", "describe", "-t", "orders", "retention.ms", "retention"),
            "has no config retention; did you mean retention.ms",
        ),
        (
            ("configs", "describe", "--broker", "1", "log.retention"),
            "has no config log.retention; did you mean log.retention.ms",
        ),
        (
            ("topics", "create", "new", "-c", "retention.mss=5"),
            "Unknown topic config name: retention.mss; did you mean retention.ms",
        ),
        (("configs", "alter", "-t", "orders", "--set", "retention.mss=5"), "retention.mss; did you mean retention.ms"),
        (("cluster", "log-dirs", "--broker", "9"), "there is no broker 9 (BROKER_NOT_AVAILABLE)"),
        (("cluster", "api-versions", "--broker", "9"), "there is no broker 9 (BROKER_NOT_AVAILABLE)"),
        (("producers", "ordrs"), "topic ordrs does not exist; did you mean orders? (UNKNOWN_TOPIC"),
        (("replicas", "verify", "ordrs"), "topic ordrs does not exist; did you mean orders? (UNKNOWN_TOPIC"),
        (("cluster", "elect", "ordrs"), "topic ordrs does not exist; did you mean orders? (UNKNOWN_TOPIC"),
        (("transactions", "find-hanging", "orders:9"), "topic orders has no partition 9, only 0 to 1"),
        (("transactions", "list", "--state", "Ongoin"), "no state Ongoin of a transaction; did you mean Ongoing?"),
        (("replicas", "move", "orders", "--broker-id", "1", "--to", "/none"), "(LOG_DIR_NOT_FOUND)"),
        (("offsets", "committed", "nobody"), "group nobody does not exist (GROUP_ID_NOT_FOUND)"),
        (("groups", "remove-members", "nobody", "--member", "m"), "Error: m: "),
    ],
)
def test_missing_things_are_named_in_the_error(broker: Broker, words: tuple[str, ...], reported: str) -> None:
    result = invoke(broker, *words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert reported in result.stderr


def test_records_are_not_deleted_before_an_offset_that_was_never_reached(broker: Broker) -> None:
    result = invoke(broker, "offsets", "delete-records", "orders", "--before-offset", "2")
    assert result.exit_code == 1
    assert "partition orders-1 ends at 0, below 2; nothing was deleted (OFFSET_OUT_OF_RANGE)" in result.stderr
    assert len(broker.records("orders")) == 2
    assert invoke(broker, "offsets", "delete-records", "orders:0", "--before-offset", "2").exit_code == 0
    assert broker.records("orders") == []


def test_a_metrics_page_that_was_named_and_cannot_be_read_is_a_finding(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    result = invoke(broker, "doctor", "--http", address, "--patience", "0", "--json")
    findings = {each["check"]: each for each in json.loads(result.stdout)}
    assert findings["metrics page"]["level"] == "unknown"
    assert address in findings["metrics page"]["message"]


@pytest.mark.parametrize(
    ("words", "code", "reported"),
    [
        (("topics", "describe", "ordrs"), 1, "topic ordrs does not exist; did you mean orders? (UNKNOWN_TOPIC"),
        (("topics", "describe", "Orders"), 1, "topic Orders does not exist; did you mean orders? (UNKNOWN_TOPIC"),
        (("consume", "order"), 1, "topic order does not exist; did you mean orders? (UNKNOWN_TOPIC"),
        (("consume", "nothing-like-it"), 1, "topic nothing-like-it does not exist (UNKNOWN_TOPIC"),
        (
            ("configs", "alter", "-t", "orders", "retention.ms=1"),
            2,
            "unexpected 'retention.ms=1'; use --set retention.ms=1",
        ),
        (("configs", "alter", "-t", "orders"), 2, "nothing to alter: use --set KEY=VALUE"),
        (("topic", "list"), 2, "No such command 'topic'. Did you mean 'topics'?"),
    ],
)
def test_an_obvious_slip_is_answered_with_what_was_meant(
    broker: Broker, words: tuple[str, ...], code: int, reported: str
) -> None:
    result = invoke(broker, *words)
    assert result.exit_code == code
    assert reported in result.stderr


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("cluster", "-b", "x:1"), "-b stands behind the command: kpybroker cluster describe -b"),
        (("cluster", "-b", "x:1", "log-dirs"), "-b stands behind the command: kpybroker cluster log-dirs -b"),
        (("-b", "x:1", "topics", "list"), "-b stands behind the command: kpybroker topics list -b"),
        (("-b", "x:1", "consume", "t"), "-b stands behind the command: kpybroker consume -b"),
        (("--nonsense", "topics", "list"), "No such option '--nonsense'."),
        (("start", "--brokers", "0"), "0 is not in the range x>=1"),
    ],
)
def test_a_misplaced_option_is_refused_with_its_place(words: tuple[str, ...], reported: str) -> None:
    result = CliRunner().invoke(main, list(words), prog_name="kpybroker")
    assert result.exit_code == 2
    assert reported in result.stderr


def test_doubtful_lines_of_a_file_are_reported_once(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("securty.protocol=SSL\nclient.id==me\nmetadata.max.age.ms=5000\nclient.rack=r\n")
    result = invoke(broker, "consume", "orders", "-e", "-q", "--command-config", str(path))
    assert result.exit_code == 0
    doubled, misspelt = result.stderr.splitlines()
    assert misspelt == (
        f"kpybroker: {path}:1: securty.protocol is not known and has no effect; did you mean security.protocol?"
    )
    assert doubled.startswith(f"kpybroker: {path}:2: the value of client.id begins with '=', since the line has '=='")


def test_without_a_name_all_topics_are_described(broker: Broker) -> None:
    assert [each["name"] for each in json.loads(invoke(broker, "topics", "describe", "--json").stdout)] == ["orders"]
    with Broker() as empty:
        assert invoke(empty, "topics", "describe", "--json").stdout == "[]\n"
        assert "No topics." in invoke(empty, "topics", "describe").stderr


def test_an_auto_created_topic_of_a_mistyped_name_is_reported(broker: Broker) -> None:
    result = CliRunner().invoke(main, ["produce", "oders", "-b", broker.bootstrap_servers], input="x\n")
    broker.delete_topic("oders")
    assert result.exit_code == 0
    assert "Topic oders did not exist; the broker has created it; did you mean orders?\n" in result.stderr


def test_an_empty_key_and_a_missing_delimiter_are_reported_once() -> None:
    with Broker() as running:
        running.create_topic("t")
        words = ["produce", "t", "-b", running.bootstrap_servers]
        empty = CliRunner().invoke(main, [*words, "-K="], input="==\n=x\n")
        doubled = CliRunner().invoke(main, [*words, "-K=="], input="a=1\nb=2\n")
        null = CliRunner().invoke(main, [*words, "-K=", "-Z"], input="==\n")
        assert [each.key for each in running.records("t")] == [b"", b"", None, None, None]
    assert empty.stderr.count("Line 1 has an empty key, which is a key like any other; -Z makes it null.") == 1
    assert empty.stderr.count("empty key") == 1
    assert "No line has the delimiter '==', so none has a key of its own. To have '=', say -K=" in doubled.stderr
    assert null.stderr == "1 record to t\n"


class _Closing(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.peek(1)[:1]  # type: ignore[attr-defined]
        if self.raw_requestline != b"H":
            self.close_connection = True
            return
        super().handle_one_request()


def test_a_web_server_that_only_hangs_up_is_recognised() -> None:
    """It answers as a broker's second port does."""
    with HTTPServer(("127.0.0.1", 0), _Closing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        result = CliRunner().invoke(main, ["topics", "list", "-b", f"127.0.0.1:{server.server_port}"])
        server.shutdown()
        thread.join()
    assert result.exit_code == 3
    assert "speaks HTTP, not Kafka's protocol" in result.stderr


def test_records_that_are_refused_are_counted_at_the_end(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_sender: Sender) -> Round:
        raise SendRefused(KafkaError(error_codes.KAFKA_STORAGE_ERROR, "partition orders-0: the disk is full"))

    monkeypatch.setattr(Sender, "round", refuse)
    words = ["produce", "orders", "-b", broker.bootstrap_servers]
    result = CliRunner().invoke(main, words, input="first\nsecond\n")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error: 2 records were not delivered: lines 1-2",
        "0 records to orders, 2 not delivered",
        "Error: partition orders-0: the disk is full (KAFKA_STORAGE_ERROR)",
    ]


def test_produce_does_not_sleep_once_its_last_record_is_acknowledged(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("kpybroker.cli.delivering.time.sleep", slept.append)
    result = CliRunner().invoke(main, ["produce", "orders", "-b", broker.bootstrap_servers], input="last\n")
    assert (result.exit_code, result.stderr) == (0, "1 record to orders\n")
    assert not [each for each in slept if each > 0]
