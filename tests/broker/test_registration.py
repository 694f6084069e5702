"""The metadata about a running broker: it comes back when it is unregistered, and tells its directories late."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from running_node import RunningNode, start
from test_node import create, produce, read, running

from kpybroker.cli.format import command as format_command
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.broker import BrokerRegistration
from kpywire import error_codes
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from support.raw_client import RawClient
from support.waiting import eventually


@pytest.fixture
def nodes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def registration(node: RunningNode) -> Callable[[], BrokerRegistration | None]:
    def look() -> BrokerRegistration | None:
        assert node.node.broker is not None
        return node.node.broker.image.brokers.get(1)

    return lambda: node.call(look)


def test_a_living_broker_that_is_unregistered_comes_back_with_its_records(nodes: ExitStack, tmp_path: Path) -> None:
    node = running(nodes, start(tmp_path))
    registered = registration(node)
    with RawClient(node.port) as client:
        create(client, "kept")
        assert produce(client, "kept", b"before") == error_codes.NONE
        before = registered()
        assert before is not None
        gone = client.call(UnregisterBrokerRequest(broker_id=1), 0)
        assert (gone.error_code, gone.error_message) == (error_codes.NONE, "")
        eventually(lambda: produce(client, "kept", b"after") == error_codes.NONE)
        assert read(client, "kept") == [b"before", b"after"]
        after = registered()
        assert after is not None
        assert after.epoch > before.epoch
        assert not after.fenced
    assert not node.failures


def test_a_broker_tells_its_directories_when_metadata_version_has_room_for_them(
    nodes: ExitStack, tmp_path: Path
) -> None:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:19093",
        "controller.quorum.voters": "1@127.0.0.1:19093",
        "log.dirs": str(tmp_path / "data"),
    }
    properties = tmp_path / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    arguments = ["-c", str(properties), "-t", "a3B5YnJva2VyLW9yYWNsZQ", "-r", "3.6"]
    formatted = CliRunner().invoke(format_command, arguments)
    assert formatted.exit_code == 0, formatted.output
    settings["listeners"] = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    node = running(nodes, RunningNode(settings))
    registered = registration(node)
    with RawClient(node.port) as client:
        create(client, "old")
        before = registered()
        assert before is not None
        assert not before.directories
        wanted = FeatureUpdateKey(feature="metadata.version", max_version_level=metadata_version.LATEST)
        raised = client.call(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[wanted]), 2)
        assert raised.error_code == error_codes.NONE, raised.error_message
        eventually(lambda: bool((now := registered()) and now.directories))
        after = registered()
        assert after is not None
        assert (after.epoch, after.fenced) == (before.epoch, False)
        create(client, "new")
        for topic in ("old", "new"):
            eventually(lambda topic=topic: produce(client, topic, b"v") == error_codes.NONE)
    assert not node.failures
