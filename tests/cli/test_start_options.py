"""The options of ``kpybroker start``, as they are read before a node exists."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kpybroker.cli import loading, main
from kpybroker.config.broker import BrokerConfig
from kpybroker.node import node


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """The configs that nodes would have run with."""
    seen: list[BrokerConfig] = []
    monkeypatch.setattr(node, "run", lambda config, _started: seen.append(config) or 0)
    return seen


def start(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["start", "--log-level", "error", *options])
    return result.exit_code, result.output


def test_options_win_over_overrides_and_these_over_the_file(configs: list[BrokerConfig], tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\ndefault.replication.factor=1\nlog.dirs=/from/file\n")
    options = ["--override", "num.partitions = 3", "--data", "/from/option", "--listen", "127.0.0.1:0"]
    assert start(str(path), *options)[0] == 0
    (config,) = configs
    assert (config.num_partitions, config.log_dirs) == (3, ("/from/option",))
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://127.0.0.1:0"]


def test_variables_of_kafkas_images_are_read_when_asked_for(
    configs: list[BrokerConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    monkeypatch.setenv("KAFKA_LOG_DIRS", "/from/environment")
    assert start()[0] == start("--environment", "--override", "log.dirs=/from/override")[0] == 0
    assert [config.num_partitions for config in configs] == [1, 7]
    assert configs[1].log_dirs == ("/from/override",)


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", "*:9092", ":9092"])
def test_every_interface_can_be_listened_on(configs: list[BrokerConfig], address: str) -> None:
    assert start("--listen", address)[0] == 0
    assert configs[0].listeners[0][:3] == ("PLAINTEXT", "", 9092)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--override", "log.segment.bytes=1"], "kpybroker: Invalid value 1 for configuration log.segment.bytes: "),
        (["--override", "sasl.enabled.mechanism=PLAIN"], "kpybroker: sasl.enabled.mechanism: "),
        (["--override", "zookeeper.connect=localhost:2181"], "kpybroker: zookeeper.connect together with "),
        (["--listen", "host:port"], "kpybroker: Error creating broker listeners from '[PLAINTEXT://host:port]': "),
        (["--http", "everywhere"], "kpybroker: Invalid value everywhere for configuration kpybroker.http.listener"),
    ],
)
def test_a_config_that_is_refused_is_one_line(configs: list[BrokerConfig], options: list[str], line: str) -> None:
    code, reported = start(*options)
    assert code == 1
    assert reported.startswith(line)
    assert reported.count("\n") == 1
    assert configs == []


@pytest.mark.parametrize(
    "options",
    [["--override", "nonsense"], ["/no/such/server.properties"], ["--log-level", "loud"], ["--listen", "9092"]],
)
def test_usage_errors_have_their_own_exit_code(configs: list[BrokerConfig], options: list[str]) -> None:
    assert start(*options)[0] == 2
    assert configs == []


NOT_OF_A_START = (
    "cramjam",
    "dataclasses",
    "difflib",
    "email",
    "gzip",
    "importlib.metadata",
    "importlib.resources",
    "kpybroker.client.client",
    "kpybroker.config.documentation",
    "kpybroker.machines.groups",
    "kpybroker.requests.handlers.produce",
    "kpybroker.node.local_cluster",
    "kpybroker.monitoring.metrics.exposition",
    "kpybroker.testing",
    "kpybroker.machines.transactions.coordinator",
    "kpybroker.machines.transactions.record",
    "kpystorage.checking",
    "kpystorage.compaction.rewriting",
    "kpywire.group_records",
    "kpywire.messages.join_group",
    "kpywire.messages.produce",
    "kpywire.transaction_records",
    "multiprocessing",
    "prometheus_client",
    "re2",
)
"""The modules that cost time to import, and that a node that starts on an empty directory can do without."""

START = """
import os, signal, sys
import kpybroker.cli.start
from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import run
def started(node):
    print(*sys.modules)
    os.kill(os.getpid(), signal.SIGTERM)
settings = {"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0", "kpybroker.http.listener": "127.0.0.1:0"}
run(BrokerConfig.load(None, settings), started)
"""


def test_a_start_loads_nothing_that_only_later_requests_and_other_commands_need(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START, str(tmp_path / "data")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "kpybroker.hosts.quorum.reign" in loaded
    assert [name for name in NOT_OF_A_START if name in loaded] == []


def test_loading_is_not_interrupted_by_the_collector_which_works_afterwards() -> None:
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
