"""Directories that the ``kafka-storage`` of Kafka 4.4 formatted and kpybroker starts first (KIP-1170).

``formatted_by_4_4/`` is what Apache Kafka 4.4.0 left for ``format --standalone --release-version 4.3`` with the users
bob and ann: features and users are in the snapshot at offset 0, and there is no ``bootstrap.checkpoint``.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from host_world import PATH, HostWorld

from kpybroker.cli.check_metadata import MetadataCheck
from kpybroker.cli.metadata_source import read_image
from kpybroker.hosts.quorum.formatter import Formatting, bootstrap_records, format_directories, read_bootstrap_records
from kpybroker.hosts.quorum.metadata_log import metadata_log_path
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.machines.metadata.image import BROKER_RESOURCE
from kpybroker.machines.raft.control_records import control_batch, snapshot_footer, snapshot_header
from kpystorage import snapshot
from kpystorage.checking.findings import NOTE, Finding
from kpystorage.real_disk import RealDisk
from kpystorage.sim_disk import SimDisk
from kpystorage.snapshot import BOOTSTRAP_ID
from kpywire.errors import Malformed
from kpywire.metadata_records import decode_record, encode_record
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from kpywire.record import Record, build_batch, read_batch

LEFT = Path(__file__).with_name("formatted_by_4_4")
LEVELS = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
SCRAM_SHA_256, SCRAM_SHA_512 = 1, 2
USERS = [(SCRAM_SHA_256, "bob"), (SCRAM_SHA_512, "ann")]


def formatted() -> SimDisk:
    disk = SimDisk(Random(1))
    for path in (PATH.rpartition("/")[0], PATH, metadata_log_path(PATH)):
        disk.make_directory(path)
    for file in LEFT.rglob("*"):
        if file.is_file():
            disk.write(f"{PATH}/{file.relative_to(LEFT)}", file.read_bytes(), synchronize=True)
    return disk


def log_records(world: HostWorld) -> list[Any]:
    """The records of the metadata log, without those of the quorum."""
    return [
        decode_record(record.value or b"")
        for header, batch in world.metadata_log.batches(0)
        if not header.is_control
        for record in read_batch(batch, header)
    ]


def test_the_first_leader_writes_the_features_and_users_of_the_snapshot_to_the_log() -> None:
    world = HostWorld(formatted()).start()
    assert not world.failures
    begin, *records = log_records(world)
    assert begin == BeginTransactionRecord(name="Bootstrap records")
    records = records[: records.index(EndTransactionRecord())]
    features = [each for each in records if isinstance(each, FeatureLevelRecord)]
    assert {each.name: each.feature_level for each in features} == LEVELS
    users = [each for each in records if isinstance(each, UserScramCredentialRecord)]
    assert [(each.mechanism, each.name) for each in users] == USERS
    assert [
        (each.resource_type, each.resource_name, each.name, each.value) for each in records[len(features) + 2 :]
    ] == [(BROKER_RESOURCE, "", "min.insync.replicas", "1")]
    assert world.image.finalized_features == LEVELS
    assert sorted(world.image.scram_credentials) == sorted(USERS)


def test_the_records_are_written_once() -> None:
    world = HostWorld(formatted()).start()
    first = log_records(world)
    again = world.again().start()
    assert log_records(again)[: len(first)] == first
    assert sum(isinstance(each, FeatureLevelRecord) for each in log_records(again)) == len(LEVELS)
    assert again.image.finalized_features == LEVELS


def test_unwritten_bootstrap_records_are_not_taken_for_metadata(tmp_path: Path) -> None:
    world = HostWorld(formatted())
    assert world.image.metadata_version is None
    assert not world.image.scram_credentials
    for file in LEFT.rglob("*.checkpoint"):
        (tmp_path / "__cluster_metadata-0").mkdir()
        (tmp_path / "__cluster_metadata-0" / file.name).write_bytes(file.read_bytes())
    assert read_image(RealDisk(), tmp_path).metadata_version is None
    (path,) = (tmp_path / "__cluster_metadata-0").iterdir()
    assert read_image(RealDisk(), path).finalized_features == LEVELS
    assert checked(RealDisk(), str(tmp_path)) == []


def test_the_snapshot_counts_before_a_bootstrap_checkpoint() -> None:
    """Kafka 4.4.0 does the same; where the snapshot holds no records, the file counts."""
    disk = formatted()
    other = bootstrap_records({"metadata.version": 29})
    snapshot.write_batches(disk, f"{PATH}/{snapshot.BOOTSTRAP}", checkpoint(*other))
    assert len(read_bootstrap_records(disk, PATH)) == len(LEVELS) + len(USERS)
    snapshot.write(disk, metadata_log_path(PATH), BOOTSTRAP_ID, checkpoint())
    assert read_bootstrap_records(disk, PATH) == other


def checkpoint(*records: Any) -> list[bytes]:
    values = [Record(timestamp=1, value=encode_record(record, 0)) for record in records]
    batches = [control_batch([snapshot_header(0)], 0, 0, 1)]
    if values:
        batches.append(build_batch(values, base_offset=1, partition_leader_epoch=0))
    return [*batches, control_batch([snapshot_footer()], 1 + len(values), 0, 1)]


def test_records_without_a_metadata_version_are_refused() -> None:
    disk = formatted()
    snapshot.write(
        disk,
        metadata_log_path(PATH),
        BOOTSTRAP_ID,
        checkpoint(FeatureLevelRecord(name="group.version", feature_level=1)),
    )
    with pytest.raises(Malformed, match=r"0000000000\.checkpoint: no level of metadata\.version is among its records"):
        HostWorld(disk)


def checked(disk: Any, directory: str) -> list[Finding]:
    findings: list[Finding] = []
    MetadataCheck(disk, directory, findings.append).run()
    return findings


@pytest.mark.parametrize(
    ("rewritten", "text"),
    [
        (lambda value: b"\x01\x7f\x00" + value[3:], "record type 127 in the metadata log is of a newer version"),
        (
            lambda value: value[:2] + b"\x63" + value[3:],
            "version 99 of FeatureLevelRecord in the metadata log is of a newer version",
        ),
    ],
)
def test_records_of_a_newer_version_are_not_called_damaged(rewritten: Callable[[bytes], bytes], text: str) -> None:
    disk = SimDisk(Random(1))
    levels = choose_levels("4.3", {}, dynamic_quorum=True)
    world = HostWorld(disk).start()
    value = rewritten(encode_record(bootstrap_records(levels)[0], 0))
    batch = build_batch(
        [Record(timestamp=1, value=value)], base_offset=world.metadata_log.next_offset, partition_leader_epoch=1
    )
    world.metadata_log.append([batch], 1)
    world.metadata_log._log.flush()
    world.stop()
    (finding,) = checked(disk, PATH)
    assert finding == Finding(
        NOTE, metadata_log_path(PATH), f"{text}: the cluster's metadata cannot be compared with the rest"
    )
    with pytest.raises(Malformed, match=text):
        world.again()


def test_a_directory_formatted_as_by_4_3_is_read_as_before() -> None:
    disk = SimDisk(Random(1))
    levels = choose_levels("4.3", {}, dynamic_quorum=False)
    format_directories(disk, Formatting("c" * 22, 1, [PATH], PATH, levels, None), Random(1), 1)
    assert read_bootstrap_records(disk, PATH) == bootstrap_records(levels)
