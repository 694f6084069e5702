"""The files that ``format`` and the first start write into empty log directories (Kafka's ``Formatter`` and
``StorageTool``).

Every directory gets its ``meta.properties``, and the metadata directory of a controller a snapshot that names its
voters and holds the records that the first leader writes to the log (KIP-1170). At levels that Kafka 4.3 has, these
records are in the ``bootstrap.checkpoint`` of every directory instead, where 4.3 reads them; 4.4 does, too.

A directory is formatted once its ``meta.properties`` is there, which is written last. The metadata directory is
formatted after all others. A formatted directory is never formatted again: a voter that forgot its vote could vote
twice.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from kpybroker.hosts.quorum.metadata_log import metadata_log_path, read_checkpoint
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.controller.activation import bootstrap_levels
from kpybroker.machines.endpoints import HIGHEST_PORT
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.chosen_levels import FormatRefused
from kpybroker.machines.metadata.image import KRAFT_VERSION
from kpybroker.machines.metadata.topic import directory_is_reserved
from kpybroker.machines.raft.control_records import (
    ControlRecord,
    control_batch,
    kraft_version,
    kraft_voters,
    snapshot_footer,
    snapshot_header,
)
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, Voters, voter_set
from kpystorage import meta_properties, snapshot
from kpystorage.disk import Disk
from kpystorage.meta_properties import MetaProperties
from kpystorage.snapshot import BOOTSTRAP_ID
from kpywire import uuid
from kpywire.errors import Malformed
from kpywire.metadata_records import decode_record, encode_record
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from kpywire.record import Record, build_batch, read_batch

_MOST_DIGITS = 10
_INT_MAX = 2**31 - 1
_LEFT_BY_ANYBODY = frozenset(("lost+found",))
_LEFT_BY_AN_INTERRUPTED_FORMAT = frozenset(
    (".lock", snapshot.BOOTSTRAP, snapshot.BOOTSTRAP + snapshot.PARTIAL, "meta.properties.tmp", "__cluster_metadata-0")
)


class Formatting(NamedTuple):
    """The identity and the features to format directories with."""

    cluster_id: str
    node_id: int
    directories: Sequence[str]
    metadata_directory: str
    levels: Mapping[str, int]
    """All features with the levels to finalise."""
    voters: Voters | None
    """The initial controllers of a dynamic quorum; None if the configuration or another node names them."""
    users: Sequence[UserScramCredentialRecord] = ()
    """The users that the cluster begins with."""
    is_controller: bool = True
    """Whether the node may lead; a broker alone needs none of the records."""


def parse_initial_controllers(text: str, listener_name: str) -> Voters:
    """Parse ``id@host:port:directory-id,...``. Raises FormatRefused."""
    voters = [_parse_voter(part, listener_name) for part in text.strip().split(",") if part]
    if not voters:
        raise FormatRefused("No voters given.")
    for voter in voters:
        if sum(voter.id == other.id for other in voters) > 1:
            raise FormatRefused(f"Node id {voter.id} was specified more than once.")
    return voter_set(voters)


def _parse_voter(text: str, listener_name: str) -> Voter:
    """Parse one voter (``DynamicVoter.parse``)."""
    node, at_sign, rest = text.strip().partition("@")
    if not at_sign:
        raise FormatRefused("No @ found in dynamic voter string.")
    if not node:
        raise FormatRefused("Invalid @ at beginning of dynamic voter string.")
    node_id = _parse_int(node, "node id")
    if node_id < 0:
        raise FormatRefused(f"Invalid negative node id {node_id} in dynamic voter string.")
    if not rest:
        raise FormatRefused("No hostname found after node id.")
    host, rest = _parse_host(rest)
    port_text, colon, directory = rest.partition(":")
    if not colon:
        raise FormatRefused("No colon following port could be found.")
    port = _parse_int(port_text, "port")
    if not 0 <= port <= HIGHEST_PORT:
        raise FormatRefused(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = uuid.from_string(directory)
    except ValueError:
        raise FormatRefused("Failed to parse directory ID in dynamic voter string.") from None
    if not host:
        raise FormatRefused("No hostname found after node id.")
    return Voter(node_id, directory_id, (VoterEndpoint(listener_name, host, port),))


def _parse_host(text: str) -> tuple[str, str]:
    """Split off the host, without its brackets. Return it with the text after the colon that follows it."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise FormatRefused("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise FormatRefused("Port section must start with a colon.")
        return host, rest[1:]
    host, colon, rest = text.partition(":")
    if not colon:
        raise FormatRefused("No colon following hostname could be found.")
    return host, rest


def _parse_int(text: str, what: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _MOST_DIGITS or int(digits) > _INT_MAX:
        raise FormatRefused(f"Failed to parse {what} in dynamic voter string.")
    return int(text)


def bootstrap_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """The records that the first controller of a cluster writes. Features that are off, and the quorum's own, are left
    out."""
    names = sorted(set(levels) - {metadata_version.FEATURE_NAME, KRAFT_VERSION})
    return [
        FeatureLevelRecord(name=name, feature_level=levels[name])
        for name in (metadata_version.FEATURE_NAME, *names)
        if levels[name] > 0
    ]


# What is there.


def read_identities(
    disk: Disk,
    directories: Sequence[str],
    node_id: int,
    cluster_id: str | None = None,
    *,
    may_be_migrated: bool = False,
) -> dict[str, MetaProperties]:
    """Read the ``meta.properties`` of the directories that are formatted. All must belong to one cluster and to this
    node. ``may_be_migrated``: whether they may be those of a broker that was in ZooKeeper mode.

    Raises StartRefused in Kafka's words if they do not, CorruptFile if one cannot be read.
    """
    found: dict[str, MetaProperties] = {}
    owners: dict[bytes, str] = {}
    for directory in directories:
        properties = meta_properties.read(disk, directory) if disk.status(directory) else None
        if properties is None:
            continue
        path = f"{directory}/meta.properties"
        if properties.version == 0 and not may_be_migrated:
            raise StartRefused(
                f"{directory} belongs to a broker in ZooKeeper mode ({path} is of version 0). Only a broker of a "
                "cluster that was migrated to KRaft may use it, without the role of a controller: see docs/zookeeper.md"
            )
        if properties.cluster_id is None:
            raise StartRefused(f"cluster.id was not specified in {path}")
        cluster_id = cluster_id or properties.cluster_id
        if properties.cluster_id != cluster_id:
            raise StartRefused(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {properties.cluster_id}"
            )
        if properties.node_id != node_id:
            raise StartRefused(
                f"Stored node id {properties.node_id} doesn't match previous node id {node_id} in {path}. If you moved "
                "your data, make sure your configured node id matches. If you intend to create a new node, you should "
                "remove all data in your data directories."
            )
        _check_directory_id(properties.directory_id, directory, owners)
        found[directory] = properties
    return found


def _check_directory_id(directory_id: bytes | None, directory: str, owners: dict[bytes, str]) -> None:
    if directory_id is None:
        return
    text = uuid.to_string(directory_id)
    if directory_is_reserved(directory_id):
        raise StartRefused(f"Invalid reserved directory ID {text} found in {directory}")
    other = owners.setdefault(directory_id, directory)
    if other != directory:
        raise StartRefused(f"Duplicate directory ID {text} found. It was the ID of {other}, but also of {directory}")


def is_empty(disk: Disk, directory: str, *, or_formatted: bool = False) -> bool:
    """Whether a directory holds nothing but what an interrupted format may have left.

    With ``or_formatted`` it may also hold what a complete format left, if no node was ever started there.
    """
    if disk.status(directory) is None:
        return True
    names = set(disk.list_directory(directory)) - _LEFT_BY_ANYBODY
    if or_formatted:
        names.discard("meta.properties")
    if not names <= _LEFT_BY_AN_INTERRUPTED_FORMAT:
        return False
    log_path = metadata_log_path(directory)
    left = set(disk.list_directory(log_path)) if disk.status(log_path) else set()
    name = snapshot.snapshot_name(BOOTSTRAP_ID)
    return left <= {name, name + snapshot.PARTIAL}


def read_bootstrap_records(disk: Disk, metadata_directory: str) -> list[object]:
    """The records that the first leader of the cluster writes to the log.

    Kafka 4.4 keeps them in the snapshot that formatting writes (KIP-1170), earlier versions in
    ``bootstrap.checkpoint``. If neither has any, they are those of the newest features. Raises Malformed.
    """
    name = snapshot.snapshot_name(BOOTSTRAP_ID)
    for path in (f"{metadata_log_path(metadata_directory)}/{name}", f"{metadata_directory}/{snapshot.BOOTSTRAP}"):
        records = _records_of(disk, path)
        if records:
            if metadata_version.FEATURE_NAME not in bootstrap_levels(records):
                raise Malformed(f"{path}: no level of {metadata_version.FEATURE_NAME} is among its records")
            return records
    return list(bootstrap_records({metadata_version.FEATURE_NAME: metadata_version.LATEST}))


def _records_of(disk: Disk, path: str) -> list[object]:
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return []
    return [
        decode_record(record.value or b"")
        for header, batch in read_checkpoint(data, path.rpartition("/")[2])
        if not header.is_control
        for record in read_batch(batch, header)
    ]


# Doing it.


def format_directories(
    disk: Disk, formatting: Formatting, rng: Random, now_ms: int, *, ignore_formatted: bool = False
) -> list[str]:
    """Format the directories that are not formatted yet. Return what was done, line by line. Raises FormatRefused,
    StartRefused, OSError."""
    found = read_identities(disk, formatting.directories, formatting.node_id, formatting.cluster_id)
    if found and not ignore_formatted:
        raise FormatRefused(
            f"Log directory {next(iter(found))} is already formatted. Use --ignore-formatted to ignore this directory "
            "and format the others."
        )
    empty = [directory for directory in formatting.directories if directory not in found]
    if not empty:
        return ["All of the log directories are already formatted."]
    lines = []
    taken = {properties.directory_id for properties in found.values()}
    for directory in sorted(empty, key=lambda directory: directory == formatting.metadata_directory):
        kind = _kind(formatting, directory)
        release = metadata_version.name_of(formatting.levels[metadata_version.FEATURE_NAME])
        lines.append(f"Formatting {kind} {directory} with {metadata_version.FEATURE_NAME} {release}.")
        directory_id = _directory_id(formatting, directory, taken, rng)
        taken.add(directory_id)
        _format(disk, formatting, directory, directory_id, now_ms)
    return lines


def _kind(formatting: Formatting, directory: str) -> str:
    if directory != formatting.metadata_directory:
        return "data directory"
    if formatting.voters is None:
        return "metadata directory"
    voter = formatting.node_id in formatting.voters
    return "dynamic metadata voter directory" if voter else "dynamic metadata directory"


def _directory_id(formatting: Formatting, directory: str, taken: set[bytes | None], rng: Random) -> bytes:
    if directory == formatting.metadata_directory and formatting.voters is not None:
        me = formatting.voters.get(formatting.node_id)
        if me is not None:
            return me.directory_id
    voters = (formatting.voters or {}).values()
    return new_uuid(rng, taken | {voter.directory_id for voter in voters})


def new_uuid(rng: Random, taken: "set[bytes | None] | frozenset[bytes | None]" = frozenset()) -> bytes:
    """A random id that Kafka could have created and that is not in ``taken``."""
    while True:
        value = uuid.random_uuid(rng.randbytes(uuid.UUID_BYTES))
        if uuid.usable(value) and value not in taken:
            return value


def _format(disk: Disk, formatting: Formatting, directory: str, directory_id: bytes, now_ms: int) -> None:
    make_directories(disk, directory)
    records = [encode_record(record, 0) for record in (*bootstrap_records(formatting.levels), *formatting.users)]
    as_kafka_4_3 = formatting.levels[metadata_version.FEATURE_NAME] < metadata_version.ONE_BOOTSTRAP
    if as_kafka_4_3:
        batches = _checkpoint([snapshot_header(0)], records, now_ms)
        snapshot.write_batches(disk, f"{directory}/{snapshot.BOOTSTRAP}", batches)
        records = []
    needs_snapshot = formatting.voters is not None if as_kafka_4_3 else formatting.is_controller
    if directory == formatting.metadata_directory and needs_snapshot:
        header = [snapshot_header(now_ms)]
        if formatting.levels[KRAFT_VERSION] > 0:
            header.append(kraft_version(formatting.levels[KRAFT_VERSION]))
        if formatting.voters is not None:
            header.append(kraft_voters(formatting.voters))
        log_path = metadata_log_path(directory)
        make_directories(disk, log_path)
        snapshot.write(disk, log_path, BOOTSTRAP_ID, _checkpoint(header, records, now_ms))
    meta_properties.write(disk, directory, MetaProperties(formatting.cluster_id, formatting.node_id, directory_id))


def _checkpoint(header: Sequence[ControlRecord], records: Sequence[bytes], now_ms: int) -> list[bytes]:
    """The batches of a snapshot at offset 0."""
    batches = [control_batch(header, 0, 0, now_ms)]
    if records:
        values = [Record(timestamp=now_ms, value=value) for value in records]
        batches.append(build_batch(values, base_offset=len(header), partition_leader_epoch=0))
    return [*batches, control_batch([snapshot_footer()], len(header) + len(records), 0, now_ms)]


def make_directories(disk: Disk, path: str) -> None:
    """Make a directory and its missing parents, durably."""
    if path and disk.status(path) is None:
        parent = path.rpartition("/")[0]
        make_directories(disk, parent)
        disk.make_directory(path)
        disk.synchronize_directory(parent or "/")
