"""Formatting: the same bytes as Kafka's, never twice, durable, and refused where it would be dangerous."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from kpybroker.cli.format import command
from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.first_start import identify
from kpybroker.hosts.quorum.formatter import (
    Formatting,
    bootstrap_records,
    format_directories,
    is_empty,
    parse_initial_controllers,
    read_bootstrap_records,
    read_identities,
)
from kpybroker.hosts.quorum.metadata_log import metadata_log_path, read_checkpoint
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.metadata.chosen_levels import FormatRefused, choose_levels, parse_levels
from kpybroker.machines.raft.control_records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    SNAPSHOT_FOOTER,
    read_control_record,
    voters_of,
)
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, voter_set
from kpystorage import meta_properties
from kpystorage.errors import CorruptFile
from kpystorage.memory_disk import MemoryDisk
from kpystorage.meta_properties import MetaProperties
from kpystorage.sim_disk import SimDisk, SimulatedCrash
from kpystorage.snapshot import BOOTSTRAP, BOOTSTRAP_ID, snapshot_name
from kpywire import uuid
from kpywire.metadata_records import decode_record
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.record import read_records

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NOW_MS = 1_700_000_000_000
ONE, TWO = "/data/one", "/data/two"
VOTER = Voter(1, b"v" * 16, (VoterEndpoint("CONTROLLER", "localhost", 9093),))


def formatting(levels: Mapping[str, int] | None = None, **fields: object) -> Formatting:
    return Formatting(
        **{  # type: ignore[arg-type]
            "cluster_id": CLUSTER_ID,
            "node_id": 1,
            "directories": [ONE, TWO],
            "metadata_directory": ONE,
            "levels": levels or choose_levels(None, {}, dynamic_quorum=True),
            "voters": voter_set([VOTER]),
            **fields,
        }
    )


def snapshot_of(disk: MemoryDisk, directory: str) -> list[object]:
    path = f"{metadata_log_path(directory)}/{snapshot_name(BOOTSTRAP_ID)}"
    return [
        read_control_record(record) if record.key is not None else decode_record(record.value or b"")
        for record in read_records(disk.read(path))
    ]


def begun_with(level: int) -> list[FeatureLevelRecord]:
    return [
        FeatureLevelRecord(name="metadata.version", feature_level=level),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="share.version", feature_level=2 if level >= 31 else 1),
        FeatureLevelRecord(name="streams.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
    ]


@pytest.mark.parametrize(("release", "level"), [("4.3-IV0", 30), ("4.4-IV2", 33)])
def test_every_directory_gets_its_identity_and_the_node_the_bootstrap_records(release: str, level: int) -> None:
    disk = MemoryDisk()
    levels = choose_levels(release, {}, dynamic_quorum=True)
    lines = format_directories(disk, formatting(levels), Random(1), NOW_MS)
    assert lines == [
        f"Formatting data directory /data/two with metadata.version {release}.",
        f"Formatting dynamic metadata voter directory /data/one with metadata.version {release}.",
    ]
    for directory in (ONE, TWO):
        assert (disk.status(f"{directory}/{BOOTSTRAP}") is not None) is (level == 30)
    found = read_identities(disk, [ONE, TWO], 1)
    assert {properties.cluster_id for properties in found.values()} == {CLUSTER_ID}
    assert found[ONE].directory_id == VOTER.directory_id
    assert uuid.usable(found[TWO].directory_id or b"")
    assert read_bootstrap_records(disk, ONE) == begun_with(level)


@pytest.mark.parametrize(("release", "within"), [("4.3", []), ("4.4", begun_with(33))])
def test_the_snapshot_of_a_new_quorum_names_its_voters(release: str, within: list[object]) -> None:
    disk = MemoryDisk()
    levels = choose_levels(release, {}, dynamic_quorum=True)
    format_directories(disk, formatting(levels), Random(1), NOW_MS)
    _, version, voters, *records, footer = snapshot_of(disk, ONE)
    assert records == within
    assert version.type == KRAFT_VERSION  # type: ignore[attr-defined]
    assert version.message.kraft_version == 1  # type: ignore[attr-defined]
    assert voters.type == KRAFT_VOTERS  # type: ignore[attr-defined]
    assert voters_of(voters) == {1: VOTER}  # type: ignore[arg-type]
    assert footer.type == SNAPSHOT_FOOTER  # type: ignore[attr-defined]
    assert disk.status(metadata_log_path(TWO)) is None


def test_a_quorum_named_elsewhere_gets_no_voters() -> None:
    disk = MemoryDisk()
    levels = choose_levels("4.4", {}, dynamic_quorum=False)
    format_directories(disk, formatting(levels, voters=None), Random(1), NOW_MS)
    _, *records, _ = snapshot_of(disk, ONE)
    assert records == begun_with(33)
    disk = MemoryDisk()
    levels = choose_levels("4.3", {}, dynamic_quorum=False)
    lines = format_directories(disk, formatting(levels, voters=None), Random(1), NOW_MS)
    assert lines[-1].startswith("Formatting metadata directory /data/one")
    assert levels["kraft.version"] == 0
    assert disk.status(metadata_log_path(ONE)) is None


def test_a_broker_alone_gets_its_identity_and_no_more() -> None:
    disk = MemoryDisk()
    levels = choose_levels("4.4", {}, dynamic_quorum=False)
    format_directories(disk, formatting(levels, voters=None, is_controller=False), Random(1), NOW_MS)
    assert disk.list_directory(ONE) == disk.list_directory(TWO) == ["meta.properties"]


def test_a_formatted_directory_is_never_formatted_again() -> None:
    disk = MemoryDisk()
    format_directories(disk, formatting(directories=[ONE]), Random(1), NOW_MS)
    before = disk.read(f"{ONE}/meta.properties")
    with pytest.raises(FormatRefused, match=r"/data/one is already formatted. Use --ignore-formatted"):
        format_directories(disk, formatting(), Random(2), NOW_MS)
    (line,) = format_directories(disk, formatting(), Random(2), NOW_MS, ignore_formatted=True)
    assert "data directory /data/two" in line
    assert disk.read(f"{ONE}/meta.properties") == before
    assert format_directories(disk, formatting(), Random(2), NOW_MS, ignore_formatted=True) == [
        "All of the log directories are already formatted."
    ]


def test_directories_of_another_cluster_or_node_are_refused() -> None:
    disk = MemoryDisk()
    format_directories(disk, formatting(directories=[ONE]), Random(1), NOW_MS)
    with pytest.raises(StartRefused, match=r"Invalid cluster.id in: /data/one/meta.properties. Expected other"):
        read_identities(disk, [ONE], 1, "other")
    with pytest.raises(StartRefused, match=r"Stored node id 1 doesn't match previous node id 2 in /data/one"):
        read_identities(disk, [ONE], 2)


def test_directory_ids_are_real_and_different() -> None:
    disk = MemoryDisk()
    format_directories(disk, formatting(), Random(1), NOW_MS)
    meta_properties.write(disk, TWO, MetaProperties(CLUSTER_ID, 1, VOTER.directory_id))
    with pytest.raises(StartRefused, match=r"Duplicate directory ID"):
        read_identities(disk, [ONE, TWO], 1)
    meta_properties.write(disk, TWO, MetaProperties(CLUSTER_ID, 1, bytes(15) + b"\x02"))
    with pytest.raises(StartRefused, match=r"Invalid reserved directory ID"):
        read_identities(disk, [ONE, TWO], 1)


@pytest.mark.parametrize("crash", ["power failure", "process death"])
def test_a_format_that_was_interrupted_is_undone_or_whole(crash: str) -> None:
    def crashed(at: int, luck: int) -> SimDisk:
        disk = SimDisk(Random(luck))
        disk.crash_at = at
        with suppress(SimulatedCrash):
            format_directories(disk, formatting(directories=[ONE]), Random(1), NOW_MS)
        return disk.after_power_failure() if crash == "power failure" else disk.after_process_death()

    whole = SimDisk(Random(0))
    format_directories(whole, formatting(directories=[ONE]), Random(1), NOW_MS)
    outcomes = set()
    for at, luck in product(range(1, whole.calls + 1), range(5)):
        disk = crashed(at, luck)
        formatted = bool(read_identities(disk, [ONE], 1))
        outcomes.add(formatted)
        if formatted:
            assert read_bootstrap_records(disk, ONE)
            assert len(snapshot_of(disk, ONE)) == 4 + len(begun_with(33))
        else:
            assert is_empty(disk, ONE)
            format_directories(disk, formatting(directories=[ONE]), Random(2), NOW_MS)
    assert outcomes == {False, True}


@pytest.mark.parametrize(
    ("release", "chosen", "dynamic", "message"),
    [
        (
            "4.3",
            {"metadata.version": 30},
            True,
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
        ),
        (None, {"metadata.version": 99}, True, "No MetadataVersion with feature level 99."),
        ("9.9", {}, True, "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, "),
        (
            None,
            {"nope": 1},
            True,
            "Unsupported feature: nope. Supported features are: eligible.leader.replicas.version, ",
        ),
        (
            None,
            {"streams.version": 2},
            True,
            "No feature:streams.version with feature level 2",
        ),
        (
            None,
            {"eligible.leader.replicas.version": 2},
            True,
            "No feature:eligible.leader.replicas.version with",
        ),
        (
            "4.0-IV0",
            {"eligible.leader.replicas.version": 1},
            True,
            ("eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23"),
        ),
        (None, {"kraft.version": 0}, True, "Cannot set kraft.version to 0 if controller.quorum.voters is empty"),
        (None, {"kraft.version": 1}, False, "Cannot set kraft.version to 1 unless controller.quorum.voters is empty"),
    ],
)
def test_levels_that_cannot_be(release: str | None, chosen: dict[str, int], dynamic: bool, message: str) -> None:
    with pytest.raises(FormatRefused) as refused:
        choose_levels(release, chosen, dynamic_quorum=dynamic)
    assert str(refused.value).startswith(message)


def test_levels_that_can_be() -> None:
    assert choose_levels("3.9", {"group.version": 0}, dynamic_quorum=True) == {
        "metadata.version": 21,
        "kraft.version": 1,
        "transaction.version": 0,
        "eligible.leader.replicas.version": 0,
        "group.version": 0,
        "share.version": 0,
        "streams.version": 0,
    }
    assert choose_levels(None, {"metadata.version": 17, "transaction.version": 1}, dynamic_quorum=False) == {
        "metadata.version": 17,
        "kraft.version": 0,
        "transaction.version": 1,
        "eligible.leader.replicas.version": 0,
        "group.version": 0,
        "share.version": 0,
        "streams.version": 0,
    }
    off = {"eligible.leader.replicas.version": 0}
    for release, chosen, level in (("4.0", {}, 0), ("4.1-IV0", {}, 1), (None, {}, 1), (None, off, 0)):
        levels = choose_levels(release, chosen, dynamic_quorum=True)
        assert levels["eligible.leader.replicas.version"] == level
    assert choose_levels("4.0-IV1", {"eligible.leader.replicas.version": 1}, dynamic_quorum=True)
    names = [record.name for record in bootstrap_records({"metadata.version": 30, "b": 1, "a": 0, "kraft.version": 1})]
    assert names == ["metadata.version", "b"]
    assert parse_levels(["a=1", " b = 2"]) == {"a": 1, "b": 2}
    for text in ("a", "a=x"):
        with pytest.raises(FormatRefused, match=r"Can't parse feature=level string"):
            parse_levels([text])


def test_initial_controllers_are_parsed_as_kafka_parses_them() -> None:
    directory = uuid.to_string(b"d" * 16)
    voters = parse_initial_controllers(f"0@a.example:9093:{directory},1@[::1]:9094:{directory}", "C")
    assert voters[0] == Voter(0, b"d" * 16, (VoterEndpoint("C", "a.example", 9093),))
    assert voters[1].endpoints[0].host == "::1"
    for text in ("", "1", "x@h:1:" + directory, "1@h:1", "1@h:70000:" + directory, "1@h:1:zz", "1@:1:" + directory):
        with pytest.raises(FormatRefused):
            parse_initial_controllers(text, "C")
    with pytest.raises(FormatRefused, match=r"Node id 1 was specified more than once."):
        parse_initial_controllers(f"1@h:1:{directory},1@h:2:{directory}", "C")


# The first start.


def first_start(disk: MemoryDisk, directories: list[str] | None = None, **overrides: str) -> object:
    config = BrokerConfig.load(None, {key.replace("_", "."): value for key, value in overrides.items()})
    return identify(config, disk, directories or [ONE, TWO], ONE, Random(5), NOW_MS)


def test_a_lone_node_formats_its_empty_directories_once() -> None:
    disk = MemoryDisk()
    identity = first_start(disk)
    assert len(identity.formatted) == 2  # type: ignore[attr-defined]
    assert identity.voter.directory_id == identity.directory_ids[ONE]  # type: ignore[attr-defined]
    again = first_start(disk)
    assert again.formatted == []  # type: ignore[attr-defined]
    assert again[:4] == identity[:4]  # type: ignore[index]


def test_a_directory_that_holds_something_is_not_taken() -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.make_directory(ONE)
    disk.write(f"{ONE}/letters", b"", synchronize=True)
    with pytest.raises(StartRefused, match=r"/data/one is not empty, but has no meta.properties"):
        first_start(disk)
    assert disk.list_directory(ONE) == ["letters"]


def test_the_lost_and_found_of_a_file_system_is_nothing() -> None:
    disk = MemoryDisk()
    for path in ("/data", ONE, f"{ONE}/lost+found"):
        disk.make_directory(path)
    assert first_start(disk, [ONE]).formatted  # type: ignore[attr-defined]


def test_a_node_of_a_configured_quorum_is_not_formatted_by_itself() -> None:
    disk = MemoryDisk()
    with pytest.raises(StartRefused, match=r"use `kpybroker format`"):
        first_start(
            disk,
            controller_quorum_voters="1@localhost:9093",
            controller_listener_names="CONTROLLER",
            listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        )
    assert disk.status("/data") is None


def test_a_new_directory_beside_old_ones_is_not_formatted_by_itself() -> None:
    disk = MemoryDisk()
    first_start(disk, [ONE])
    with pytest.raises(StartRefused, match=r"No meta.properties found in /data/two. Format it with"):
        first_start(disk, [ONE, TWO])


def test_a_metadata_log_in_another_directory_is_refused() -> None:
    disk = MemoryDisk()
    first_start(disk)
    disk.make_directory(metadata_log_path(TWO))
    with pytest.raises(StartRefused, match=r"Found unexpected metadata location in data directory"):
        first_start(disk)


def test_directories_from_before_kafka_3_7_get_an_id() -> None:
    disk = MemoryDisk()
    first_start(disk)
    meta_properties.write(disk, TWO, MetaProperties(read_identities(disk, [ONE], 1)[ONE].cluster_id, 1, None))
    given = first_start(disk).directory_ids[TWO]  # type: ignore[attr-defined]
    assert uuid.usable(given)
    assert first_start(disk).directory_ids[TWO] == given  # type: ignore[attr-defined]


def test_a_meta_properties_that_cannot_be_read_is_no_invitation_to_format() -> None:
    disk = MemoryDisk()
    first_start(disk)
    disk.write(f"{ONE}/meta.properties", b"version=7\n", synchronize=True)
    with pytest.raises(CorruptFile):
        first_start(disk)


# The command.


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(arguments))
    return result.exit_code, result.output


@pytest.fixture
def properties(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path / 'one'},{tmp_path / 'two'}\n"
        "controller.quorum.bootstrap.servers=localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
    )
    return str(path)


def test_the_command_formats_a_standalone_node(properties: str, tmp_path: Path) -> None:
    code, output = run("-t", CLUSTER_ID, "-c", properties, "--standalone")
    assert code == 0
    assert f"Formatting dynamic metadata voter directory {tmp_path / 'one'}" in output
    assert f"cluster.id={CLUSTER_ID}" in (tmp_path / "one" / "meta.properties").read_text()
    name = snapshot_name(BOOTSTRAP_ID)
    data = (tmp_path / "one" / "__cluster_metadata-0" / name).read_bytes()
    assert len(list(read_checkpoint(data, name))) == 3
    assert not (tmp_path / "one" / "bootstrap.checkpoint").exists()
    assert run("-t", CLUSTER_ID, "-c", properties, "--standalone")[0] == 1
    assert run("-t", CLUSTER_ID, "-c", properties, "--standalone", "-g") == (
        0,
        "All of the log directories are already formatted.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (),
            "you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.",
        ),
        (("--standalone", "--no-initial-controllers"), "Give one of --standalone"),
        (("-s", "-f", "streams.version=2"), "No feature:streams.version with feature level 2"),
        (("-s", "--override", "nonsense"), "--override takes KEY=VALUE"),
        (("-I", "1@h"), "No colon following hostname could be found."),
    ],
)
def test_the_command_refuses_in_one_line(properties: str, arguments: tuple[str, ...], message: str) -> None:
    code, output = run("-t", CLUSTER_ID, "-c", properties, *arguments)
    assert code == 1
    assert message in output
    assert output.count("\n") == 1
    assert output.startswith("kpybroker format: ")


def test_the_command_makes_ids() -> None:
    code, output = run("random-uuid")
    assert code == 0
    assert uuid.usable(uuid.from_string(output.strip()))


def test_without_an_id_directories_join_the_cluster_that_is_there_already(properties: str, tmp_path: Path) -> None:
    assert run("-t", CLUSTER_ID, "-c", properties, "--standalone", "--override", f"log.dirs={tmp_path / 'one'}")[0] == 0
    code, output = run("-c", properties, "--standalone")
    assert code == 1
    assert "one is already formatted. Use --ignore-formatted" in output
    assert run("-c", properties, "--standalone", "--ignore-formatted")[0] == 0
    assert f"cluster.id={CLUSTER_ID}" in (tmp_path / "two" / "meta.properties").read_text()
