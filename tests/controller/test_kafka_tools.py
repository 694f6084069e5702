"""Apache Kafka's own tools on what this controller writes: log, snapshots, a formatted directory."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from host_world import HostWorld

from kpybroker.cli.format import command
from kpybroker.controller.snapshotting import SnapshotPolicy
from kpystorage.real_disk import RealDisk
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.record import read_records
from oracle import java

pytestmark = pytest.mark.java

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
PAYLOAD = re.compile(r"payload: (\{.*\})")
CONTROL = re.compile(r"\b(LeaderChange|KRaftVersion|KRaftVoters|SnapshotHeader|SnapshotFooter):? (\{.*\})")
PORTS = {"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> HostWorld:
    """A node that lived a little on a real disk, with a snapshot in the middle of its log."""
    path = str(tmp_path_factory.mktemp("node") / "data")
    policy = SnapshotPolicy(max_new_record_bytes=1_500)
    world = HostWorld(RealDisk(), path=path, overrides=PORTS, policy=policy).start().with_broker()
    world.create("orders", "payments", configs={"retention.ms": "1234"})
    world.create("gone")
    world.ask(DeleteTopicsRequest(topics=[], topic_names=["gone"], timeout_ms=1_000))
    world.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch))
    for number in range(12):
        world.create(f"topic-{number}")
    world.stop()
    return world


def dump(*files: Path) -> str:
    arguments = ("--cluster-metadata-decoder", "--deep-iteration", "--files", ",".join(map(str, files)))
    finished = java("org.apache.kafka.tools.DumpLogSegments", *arguments)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "isvalid: false" not in finished.stdout
    return finished.stdout


def payloads(text: str) -> list[dict[str, Any]]:
    return [json.loads(match) for match in PAYLOAD.findall(text)]


def test_dump_log_segments_reads_log_snapshots_and_bootstrap(node: HostWorld) -> None:
    directory = Path(node.path)
    log_directory = directory / "__cluster_metadata-0"
    snapshots = sorted(log_directory.glob("*.checkpoint"))
    assert len(snapshots) >= 2
    log = log_directory / "00000000000000000000.log"
    text = dump(log, snapshots[-1], directory / "bootstrap.checkpoint")
    of_log, of_snapshot, of_bootstrap = text.split("Dumping ")[1:]

    topics = [each["data"]["name"] for each in payloads(of_log) if each["type"] == "TOPIC_RECORD"]
    assert topics == ["orders", "payments", "gone", *(f"topic-{number}" for number in range(12))]
    kinds = {(each["type"], each["version"]) for each in payloads(of_log)}
    assert {("REGISTER_BROKER_RECORD", 4), ("PARTITION_RECORD", 2), ("REMOVE_TOPIC_RECORD", 0)} <= kinds
    assert [kind for kind, _ in CONTROL.findall(of_log)] == ["LeaderChange", "KRaftVersion", "KRaftVoters"]
    voters = json.loads(dict(CONTROL.findall(of_log))["KRaftVoters"])["voters"]
    assert voters[0]["endpoints"] == [{"name": "CONTROLLER", "host": "localhost", "port": 9093}]

    assert payloads(of_snapshot)[0]["data"] == {"name": "metadata.version", "featureLevel": 30}
    snapshot_controls = [kind for kind, _ in CONTROL.findall(of_snapshot)]
    assert snapshot_controls == ["SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"]
    finalized = {each["data"]["name"]: each["data"]["featureLevel"] for each in payloads(of_bootstrap)}
    assert finalized == {"metadata.version": 30, "transaction.version": 2}


def test_the_metadata_shell_reads_a_snapshot(node: HostWorld) -> None:
    snapshot = sorted((Path(node.path) / "__cluster_metadata-0").glob("*.checkpoint"))[-1]
    arguments = ("--snapshot", str(snapshot), "cat", "/image/topics/byName/orders/0")
    for _ in range(10):
        finished = java("org.apache.kafka.shell.MetadataShell", *arguments)
        if "No such file" not in finished.stdout:  # which it also says while it has not read the snapshot yet
            break
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.startswith("PartitionRegistration(replicas=[1], directories=[")
    assert "isr=[1], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=1" in finished.stdout


def test_format_writes_what_kafka_storage_writes(tmp_path: Path) -> None:
    features = ["group", "transaction", "share", "streams", "eligible.leader.replicas"]
    options = [part for name in features for part in ("--feature", f"{name}.version=0")]
    written = {}
    for who in ("kafka", "ours"):
        properties = tmp_path / f"{who}.properties"
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
            "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={tmp_path / who}\n"
        )
        arguments = ["--standalone", "-t", CLUSTER_ID, "-c", str(properties), *options]
        if who == "kafka":
            finished = java("kafka.tools.StorageTool", "format", *arguments)
            assert finished.returncode == 0, finished.stdout + finished.stderr
            said = finished.stdout.splitlines()[-1]
        else:
            result = CliRunner().invoke(command, arguments)
            assert result.exit_code == 0, result.output
            said = result.output.splitlines()[-1]
        written[who] = (said.replace(f"/{who} ", "/_ "), contents(tmp_path / who))
    assert written["ours"] == written["kafka"]


def contents(directory: Path) -> dict[str, Any]:
    """Files and what is in them, without times and random ids."""
    files = {str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()}
    properties = files.pop("meta.properties").read_text()
    directory_id = re.search(r"directory\.id=(\S+)", properties)
    assert directory_id is not None
    known = {line for line in properties.splitlines() if not line.startswith(("#", "directory.id"))}
    result: dict[str, Any] = {"meta.properties": known}
    for name, path in files.items():
        result[name] = [
            (record.offset, record.key, None if record.value is None else len(record.value))
            for record in read_records(path.read_bytes())
        ]
    return result
