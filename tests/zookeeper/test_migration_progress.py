"""``kpybroker migrate status``: the phase of a migration, what is left, and what may go wrong next."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from test_view import BROKER, STATE, TOPIC, tree_of

from kpybroker.cli import migrate, zookeeper
from kpybroker.cli.options import NOT_IN_ORDER
from kpybroker.machines.zookeeper.progress import MigrationOverview, MigrationPhase, NodeAnswer, progress_of
from kpybroker.machines.zookeeper.snapshot import TreeSnapshot

KRAFT = {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 4}
READY, UNREADY = NodeAnswer("c1:9093", is_ready=True), NodeAnswer("c2:9093", is_ready=False)


def mark(offset: int) -> dict[str, int]:
    return {
        "version": 0,
        "kraft_metadata_offset": offset,
        "kraft_controller_id": 3000,
        "kraft_metadata_epoch": 1,
        "kraft_controller_epoch": 4,
    }


def progress(
    controllers: tuple[NodeAnswer, ...] = (), brokers: dict[int, NodeAnswer] | None = None, **changed: Any
) -> MigrationOverview:
    return progress_of(tree_of(**changed), brokers or {}, list(controllers))


@pytest.mark.parametrize(
    ("changed", "controllers", "phase", "left"),
    [
        ({}, (), MigrationPhase.IN_ZOOKEEPER, "format and start controllers"),
        ({"/migration": mark(-1)}, (READY,), MigrationPhase.PREPARED, "the copy begins when all brokers"),
        ({"/migration": mark(-1)}, (READY, UNREADY), MigrationPhase.PREPARED, "on the controllers c2:9093"),
        ({"/migration": mark(-1), "/brokers/ids/2": "missing"}, (), MigrationPhase.PREPARED, "start the brokers 2"),
        ({"/migration": mark(-1), "/controller": KRAFT}, (), MigrationPhase.COPYING, "wait"),
        (
            {"/migration": mark(9), "/controller": KRAFT},
            (READY,),
            MigrationPhase.DUAL_WRITE,
            "restart the brokers 1, 2",
        ),
        (
            {"/migration": mark(9), "/controller": KRAFT, "/brokers/ids/1": "missing", "/brokers/ids/2": "missing"},
            (READY,),
            MigrationPhase.DUAL_WRITE,
            "that is final",
        ),
        ({"/migration": mark(9), "/controller": KRAFT}, (UNREADY,), MigrationPhase.FINALISED, "stop the brokers 1, 2"),
        ({"/migration": mark(9)}, (), MigrationPhase.IN_ZOOKEEPER, "format and start controllers"),
    ],
)
def test_the_phase_and_what_is_left(
    changed: dict[str, Any], controllers: tuple[NodeAnswer, ...], phase: MigrationPhase, left: str
) -> None:
    found = progress(controllers, **changed)
    assert found.phase is phase
    assert any(left in each for each in found.left), found.left


def test_brokers_without_the_flag_are_named() -> None:
    asked = {1: NodeAnswer("h:9092", is_ready=True), 2: NodeAnswer("h:9093", is_ready=False)}
    found = progress(brokers=asked, **{"/migration": mark(-1)})
    assert any("restart the brokers 2 one by one" in each for each in found.left)


@pytest.mark.parametrize(
    ("changed", "controllers", "risk"),
    [
        ({"/brokers/topics/t/partitions/0/state": {**STATE, "controller_epoch": 9}}, (), "KAFKA-20488"),
        ({"/brokers/topics/t": {**TOPIC, "topic_id": None}}, (), "topic t has no id"),
        ({"/config/brokers/1": {"version": 1, "config": {"x": "encryptedPassword:A"}}}, (), "encrypted password"),
        ({"/admin/delete_topics/t": None}, (), "t are being deleted"),
        ({"/brokers/ids/1": b"{"}, (), "cannot be understood"),
        ({}, (NodeAnswer("c3:9093", is_ready=None),), "c3:9093 does not answer"),
        ({"/migration": mark(9), "/controller": KRAFT}, (READY, UNREADY), "leave them behind"),
    ],
)
def test_likely_problems_of_the_migration_are_reported(
    changed: dict[str, Any], controllers: tuple[NodeAnswer, ...], risk: str
) -> None:
    assert any(risk in each for each in progress(controllers, **changed).risks)


def test_a_healthy_cluster_has_no_migration_problems() -> None:
    assert progress().risks == []
    assert progress().facts["brokers in ZooKeeper mode"] == [1, 2]
    assert BROKER["version"] == 5


def test_the_command_prints_it_for_people_and_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of(**{"/migration": mark(9), "/controller": KRAFT})

    async def read(connect: str, timeout_s: float) -> TreeSnapshot:
        assert (connect, timeout_s) == ("zk/kafka", 10.0)
        return tree

    monkeypatch.setattr(zookeeper, "read_snapshot", read)
    shown = CliRunner().invoke(migrate.command, ["status", "zk/kafka", "--no-brokers"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("Phase: dual write")
    assert "brokers in ZooKeeper mode: 1, 2" in shown.output
    assert "- restart the brokers 1, 2 one by one" in shown.output
    assert "Nothing is known that may go wrong next." in shown.output
    words = ["status", "zk/kafka", "--no-brokers", "--json", "--bootstrap-controller", "127.0.0.1:1"]
    found = CliRunner().invoke(migrate.command, words)
    assert found.exit_code == NOT_IN_ORDER
    document = json.loads(found.output)
    assert document["phase"] == "dual_write"
    assert document["risks"] == ["the controller 127.0.0.1:1 does not answer"]
