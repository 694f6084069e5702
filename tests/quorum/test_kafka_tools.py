"""Apache Kafka's own tools on what this controller writes: log, snapshots, a formatted directory."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from host_world import HostWorld

import oracle
from kpybroker.cli.format import command
from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy
from kpybroker.machines.metadata import features
from kpystorage.real_disk import RealDisk
from kpywire import uuid
from kpywire.control_record import KRAFT_VOTERS, SNAPSHOT_HEADER
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.metadata_records import decode_record
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.record import read_records
from oracle import compile_java, java
from oracle.jars import KAFKA_BEFORE, KAFKA_VERSION

pytestmark = pytest.mark.java

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
PAYLOAD = re.compile(r"payload: (\{.*\})")
CONTROL = re.compile(r"\b(LeaderChange|KRaftVersion|KRaftVoters|SnapshotHeader|SnapshotFooter):? (\{.*\})")
PORTS = {"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> HostWorld:
    """A node that lived a little on a real disk, with a snapshot in the middle of its log. Its levels are those of
    Kafka 4.3, the last one whose metadata shell can be had."""
    path = str(tmp_path_factory.mktemp("node") / "data")
    policy = SnapshotPolicy(max_new_record_bytes=1_500, delay_ms=0)
    world = HostWorld(RealDisk(), path=path, overrides=PORTS, policy=policy, release="4.3").start().with_broker()
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
    assert finalized == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


def test_the_metadata_shell_reads_a_snapshot(node: HostWorld) -> None:
    snapshot = sorted((Path(node.path) / "__cluster_metadata-0").glob("*.checkpoint"))[-1]
    arguments = ("--snapshot", str(snapshot), "cat", "/image/topics/byName/orders/0")
    for _ in range(10):
        finished = java("org.apache.kafka.shell.MetadataShell", *arguments, release=KAFKA_BEFORE)
        if "No such file" not in finished.stdout:  # which it also says while it has not read the snapshot yet
            break
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.startswith("PartitionRegistration(replicas=[1], directories=[")
    assert "isr=[1], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=1" in finished.stdout


IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA")
INITIAL = ",".join(f"{number}@h{number}:9093:{directory_id}" for number, directory_id in enumerate(IDS, 1))
QUORUMS = {
    "dynamic": "controller.quorum.bootstrap.servers=h1:9093,h2:9093,h3:9093",
    "static": "controller.quorum.voters=1@h1:9093,2@h2:9093,3@h3:9093",
}
NODES = {
    "both": "node.id=1\nprocess.roles=broker,controller\nlisteners=PLAINTEXT://h1:9092,CONTROLLER://h1:9093",
    "broker": "node.id=7\nprocess.roles=broker\nlisteners=PLAINTEXT://h1:9092",
    "controller": "node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://h1:9093",
}
FORMATS: list[tuple[str, ...]] = [
    (),
    ("-s",),
    ("-N",),
    ("-I", INITIAL),
    ("-I", INITIAL, "-f", "kraft.version=0"),
    ("-N", "-f", "kraft.version=1"),
    ("-f", "kraft.version=1"),
    ("-N", "-f", "kraft.version=0"),
    ("-s", "-r", "3.9"),
    ("-N", "-r", "4.0"),
    ("-s", "-r", "4.3"),
    ("-r", "4.4"),
    ("-s", "-r", "4.4-IV0", "-S", "SCRAM-SHA-256=[name=ann,saltedpassword=QUFB,salt=QUFB]"),
    ("-N", "-f", "metadata.version=32"),
    ("-N", "-r", "3.8"),
    ("-s", "-f", "transaction.version=1"),
    ("-r", "3.2"),
    ("-N", "-r", "nonsense"),
    ("-N", "-f", "nonsense=1"),
    ("-N", "-f", "group.version=9"),
    ("-N", "-f", "metadata.version=25"),
    ("-N", "-f", "metadata.version=25", "-r", "4.0"),
    ("-N", "-f", "foo"),
    ("-N", "-f", "foo=x"),
    ("-N", "-f", "group.version=0", "-f", "transaction.version=0"),
]
WRONG_CONTROLLERS = [
    ",",
    "1h1:9093",
    "@h1",
    "1@",
    "1@h1",
    "1@h1:9093",
    "1@h1:x:y",
    "1@h1:70000:y",
    "1@h1:-5:y",
    "1@[::1:9093:y",
    "1@[::1]9093:y",
    "1@::1:9093:y",
    "x@h1:9093:y",
    "-1@h1:9093:y",
    "99999999999@h1:9093:y",
    "1@h1:9093:",
    f"1@h1:9093:{IDS[0]}:x",
    f"1@h1:9093:{IDS[0]},1@h2:9093:{IDS[1]}",
]


def is_level_of_4_3(options: tuple[str, ...]) -> bool:
    """Whether options choose a level that Kafka 4.3 has. Directories are formatted as it does then."""
    return bool({"3.8", "3.9", "4.0", "4.3", "metadata.version=25"} & {*options})


def test_format_says_and_writes_what_kafka_storage_does(tmp_path: Path) -> None:
    cases = [(node, quorum, options) for node in NODES for quorum in QUORUMS for options in FORMATS]
    cases += [("both", "dynamic", (f"--initial-controllers={wrong}",)) for wrong in WRONG_CONTROLLERS]
    commands = []
    for number, (node, quorum, options) in enumerate(cases):
        for caller in ("kafka", "kpybroker"):
            directory = tmp_path / str(number) / caller
            directory.mkdir(parents=True)
            lines = (NODES[node], QUORUMS[quorum], "controller.listener.names=CONTROLLER")
            text = "\n".join((*lines, f"log.dirs={directory}/data,{directory}/more"))
            (directory / "server.properties").write_text(text)
        commands.append(["format", "-t", CLUSTER_ID, "-c", str(tmp_path / str(number) / "kafka/server.properties")])
        commands[-1] += options
    of_4_3 = [is_level_of_4_3(case[2]) for case in cases]
    answers = {
        is_old: iter(
            kafka_storage([each for each, old in zip(commands, of_4_3, strict=True) if old is is_old], release)
        )
        for is_old, release in ((True, KAFKA_BEFORE), (False, KAFKA_VERSION))
    }
    differing = {}
    for number, (case, is_old) in enumerate(zip(cases, of_4_3, strict=True)):
        kafka = next(answers[is_old])
        ours = CliRunner().invoke(command, [part.replace("/kafka/", "/kpybroker/") for part in commands[number][1:]])
        reported = ours.output.replace("kpybroker format: ", "").replace("/kpybroker/", "/kafka/")
        found = outcome(ours.exit_code, reported, tmp_path / str(number) / "kpybroker")
        expected = outcome(kafka["code"], kafka["said"], tmp_path / str(number) / "kafka")
        if found != expected:
            differing[case] = (expected, found)
    assert differing == {}


def kafka_storage(commands: list[list[str]], release: str) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(each) + "\n" for each in commands)
    source = Path(oracle.__file__).with_name("StorageOracle.java")
    finished = java("StorageOracle", classes=[compile_java(source)], stdin=lines, release=release)
    answers = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(commands), finished.stderr
    return answers


def outcome(code: int, reported: str, directory: Path) -> tuple[int, list[str], dict[str, Any]]:
    """The exit code, what was said, in any order, and what is in the files: without times, ids made by chance, and
    levels that are not there yet."""
    lines = sorted(line for line in reported.splitlines() if line and not line.startswith("Bootstrap metadata"))
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "server.properties"]
    return code, lines, {str(path.relative_to(directory)): contents(path) for path in sorted(files)}


def contents(path: Path) -> Any:
    if path.name == "meta.properties":
        given = [f"directory.id={each}" for each in IDS]
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        return sorted(line for line in lines if not line.startswith("directory.id") or line in given)
    found: list[Any] = []
    for record in read_records(path.read_bytes()):
        assert record.value is not None
        if record.key is None:
            level = decode_record(record.value)
            if not isinstance(level, FeatureLevelRecord):
                found.append(level)
                continue
            found.append((level.name, min(level.feature_level, features.SUPPORTED[level.name].highest)))
            continue
        kind, value = int.from_bytes(record.key[2:]), record.value
        if kind == SNAPSHOT_HEADER:
            value = value[:2]
        if kind == KRAFT_VOTERS and not any(uuid.from_string(each) in value for each in IDS):
            end = value.index(b"CONTROLLER") - 2  # of an id made by chance
            value = value[: end - uuid.UUID_BYTES] + value[end:]
        found.append((kind, value))
    return found
