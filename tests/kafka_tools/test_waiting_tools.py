"""Init containers run a tool to wait for a broker that starts later."""

import threading
import time
from pathlib import Path

import pytest

from kpybroker.cli.kafka_tools.__main__ import main
from kpybroker.testing import Broker
from oracle import free_port


@pytest.mark.parametrize(
    "words",
    [
        ("kafka-topics", "--bootstrap-server", "AT", "--list"),
        (
            "kafka-console-consumer",
            "--bootstrap-server",
            "AT",
            "--topic",
            "t",
            "--from-beginning",
            "--max-messages",
            "1",
        ),
        ("cub", "kafka-ready", "1", "30", "-b", "AT"),
    ],
    ids=lambda words: words[0],
)
def test_a_tool_waits_for_a_broker_that_starts_later(words: tuple[str, ...], tmp_path: Path) -> None:
    port = free_port()
    codes: list[int] = []
    arguments = [word.replace("AT", f"127.0.0.1:{port}") for word in words[1:]]
    tool = threading.Thread(target=lambda: codes.append(main(words[0], arguments)))
    tool.start()
    time.sleep(0.3)
    assert not codes
    with Broker(port=port, directory=tmp_path) as broker:
        broker.produce("t", ["value"])
        tool.join(20)
    assert codes == [0]


def test_a_tool_without_a_broker_fails_in_its_time(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("default.api.timeout.ms=300\n")
    server = ["--bootstrap-server", f"127.0.0.1:{free_port()}", "--command-config", str(tmp_path / "client.properties")]
    assert main("kafka-topics", [*server, "--list"]) == 1
    assert main("cub", ["kafka-ready", "1", "1", "-b", server[1]]) == 1
