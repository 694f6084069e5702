"""The examples of docs/testing.md run as they stand there."""

import re
from pathlib import Path

import pytest

from kpybroker.testing import Broker, Snapshot
from kpybroker.testing.embedded import DEFAULTS

pytest_plugins = ["pytester"]

TEXT = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def block_with(words: str) -> str:
    (found,) = (block for block in BLOCKS if words in block)
    return found


@pytest.mark.parametrize("words", ["for record in", "clock.advance(hours", "compact_topic", "prepared"])
def test_a_block_about_a_broker_runs(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        exec(block_with(words), {"broker": broker, "Broker": Broker, "Snapshot": Snapshot})


def test_the_blocks_about_users_run() -> None:
    inside = "".join(f"    {line}\n" for line in block_with("settings.aiokafka()").splitlines())
    exec(block_with("over TLS, as alice") + inside, {})


def test_the_test_with_users_passes_as_it_is(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("from kafka import KafkaProducer\n" + block_with("def test_alice_sends"))
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_block_about_faults_asks_for_faults_that_there_are() -> None:
    program = block_with("faults.fail").replace("    assert fault.hits > 0\n", "")
    with Broker() as broker:
        exec(program, {"broker": broker})


def test_the_first_test_passes_as_it_is(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(block_with("def test_an_order_is_sent"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=60).assert_outcomes(passed=1)


def test_the_container_that_is_shown_starts() -> None:
    shown = block_with("KafkaContainer()").replace(
        "    producer =", "    from kafka import KafkaProducer\n    producer ="
    )
    exec(shown + "    producer.close()\n", {})


def test_every_default_of_a_test_broker_is_documented() -> None:
    notified = set(re.findall(r"^\| `([a-z]+\.[a-z.]+)`", TEXT, re.MULTILINE))
    alike = {"transaction.state.log.num.partitions", "share.coordinator.state.topic.num.partitions"}
    assert set(DEFAULTS) - alike == notified


@pytest.mark.slow
def test_the_cluster_that_is_shown_survives() -> None:
    exec(block_with("cluster.kill"), {})


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_python(block: str) -> None:
    compile(block, "docs/testing.md", "exec")
