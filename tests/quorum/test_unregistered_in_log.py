"""A metadata log of Kafka 4.4 that says that a controller was unregistered (KIP-1312): it is read whole."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from host_world import HostWorld

from kpybroker.cli import main
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import InvalidMetadata, MetadataImage
from kpystorage.real_disk import RealDisk
from kpywire.metadata_records.register_controller_record import RegisterControllerRecord
from kpywire.metadata_records.unregister_controller_record import UnregisterControllerRecord

SEVENTH = RegisterControllerRecord(
    controller_id=7, incarnation_id=bytes(16), zk_migration_ready=False, end_points=[], features=[]
)
PORTS = {"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The directory of a node whose log registers controller 7 and takes that back."""
    world = HostWorld(RealDisk(), path=str(tmp_path / "data"), overrides=PORTS).start().with_broker()
    reign = world.host._reign
    assert reign is not None
    reign._append([SEVENTH, UnregisterControllerRecord(controller_id=7)], None, 0)
    world.scheduler.run()
    assert not world.failures
    world.stop()
    return world.path


def answered(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_tools_that_read_files_know_the_record(path: str) -> None:
    assert "DAMAGE" not in answered("check", path)
    assert answered("metadata", "-d", path, "ls", "/image/cluster/controllers").split() == ["1"]
    (log,) = map(str, (Path(path) / "__cluster_metadata-0").glob("*.log"))
    dumped = answered("dump-log", "--cluster-metadata-decoder", log)
    (line,) = [each for each in dumped.splitlines() if "UNREGISTER_CONTROLLER_RECORD" in each]
    assert json.loads(line[line.index("{") :]) == {
        "type": "UNREGISTER_CONTROLLER_RECORD",
        "version": 0,
        "data": {"controllerId": 7},
    }


def test_the_controller_is_gone_and_the_change_is_reported() -> None:
    image = MetadataImage("cluster")
    image.apply(SEVENTH, 0, MetadataDelta())
    delta = MetadataDelta()
    image.apply(UnregisterControllerRecord(controller_id=7), 1, delta)
    assert not image.controllers
    assert delta.controllers == {7}


def test_a_controller_that_is_not_registered_cannot_go() -> None:
    with pytest.raises(InvalidMetadata, match="names controller 7, which is not there"):
        MetadataImage("cluster").apply(UnregisterControllerRecord(controller_id=7), 0, MetadataDelta())
