"""What people get wrong on the command line, on a broker that runs: one line that names it, and nothing is changed."""

import json
import socket
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from kpybroker.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", partitions=2)
        running.produce("orders", "first", "second", partition=0)
        yield running


def invoke(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "-b", broker.bootstrap_servers])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("configs", "describe", "-t", "orders", "retention.ms", "retention"),
            "has no config retention (INVALID_CONFIG)",
        ),
        (("configs", "describe", "--broker", "1", "log.retention"), "has no config log.retention (INVALID_CONFIG)"),
        (("cluster", "log-dirs", "--broker", "9"), "there is no broker 9 (BROKER_NOT_AVAILABLE)"),
        (("offsets", "committed", "nobody"), "group nobody does not exist (GROUP_ID_NOT_FOUND)"),
        (("groups", "remove-members", "nobody", "--member", "m"), "Error: m: "),
    ],
)
def test_what_is_not_there_is_named(broker: Broker, words: tuple[str, ...], said: str) -> None:
    result = invoke(broker, *words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert said in result.stderr


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
