"""``kpybroker share``: records are accepted, released or rejected, and the groups say so."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from killable import Command, KillableBroker

from kpybroker.cli import main
from kpybroker.testing import Broker

READ = ("share", "consume", "g", "t", "-q", "--timeout-ms")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t")
        run(running, "configs", "alter", "--group", "g", "--set", "share.auto.offset.reset=earliest")
        yield running


def run(broker: Broker, *words: str) -> str:
    result = CliRunner().invoke(main, [*words, "-b", broker.bootstrap_servers])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def lag(broker: Broker) -> Any:
    (group,) = json.loads(run(broker, "groups", "describe", "g", "--json"))
    return sum(each["lag"] for each in group["partitions"])


def test_records_are_accepted_released_and_rejected(broker: Broker) -> None:
    broker.produce("t", *(str(number) for number in range(6)))
    assert run(broker, *READ, "20000", "-c", "2") == "0\n1\n"
    assert lag(broker) == 4
    assert run(broker, *READ, "20000", "-c", "2", "--ack", "release") == "2\n3\n"
    assert lag(broker) == 4
    assert run(broker, *READ, "20000", "-c", "1", "--ack", "reject") == "2\n"
    assert lag(broker) == 3
    assert sorted(run(broker, *READ, "1000").splitlines()) == ["3", "4", "5"]
    assert lag(broker) == 0


def test_a_member_survives_its_broker(tmp_path: Path) -> None:
    with KillableBroker(tmp_path) as broker:
        runner = CliRunner()
        at = ("-b", broker.server)
        assert runner.invoke(main, ["topics", "create", "t", "-p", "2", *at]).exit_code == 0
        setting = ["configs", "alter", "--group", "g", "--set", "share.auto.offset.reset=earliest", *at]
        assert runner.invoke(main, setting).exit_code == 0
        with (
            Command(broker.server, "share", "consume", "g", "t") as member,
            Command(broker.server, "produce", "t") as writing,
        ):
            writing.write("before")
            member.has(member.out, "before")
            broker.end()
            member.has(member.err, "; waiting for it.")
            broker.start()
            writing.write("behind")
            member.has(member.out, "behind")
            assert writing.end() == 0
            assert member.end(signal.SIGTERM) == 128 + signal.SIGTERM
        described = runner.invoke(main, ["groups", "describe", "g", "--json", *at])
        (group,) = json.loads(described.stdout)
        assert group["state"] == "Empty"
        assert sum(each["lag"] for each in group["partitions"]) == 0
