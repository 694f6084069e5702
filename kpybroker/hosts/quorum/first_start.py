"""Finds out which node the log directories of a starting node belong to, and formats them if this is the first start of
a node that stands alone.

A directory is formatted by itself only where the configuration names no quorum and every directory is empty. Everything
else that is not formatted is refused in one line that says what to do.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.quorum.formatter import (
    Formatting,
    format_directories,
    is_empty,
    new_uuid,
    read_bootstrap_records,
    read_identities,
)
from kpybroker.hosts.quorum.metadata_log import metadata_log_path
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, Voters, voter_set
from kpystorage import meta_properties
from kpystorage.disk import Disk
from kpystorage.meta_properties import MetaProperties
from kpywire import uuid
from kpywire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig


class NodeIdentity(NamedTuple):
    """The identity of this node, from its directories and its configuration."""

    cluster_id: str
    directory_ids: Mapping[str, bytes]
    voter: Voter
    """This node in the quorum."""
    static_voters: Sequence[Voter]
    """The voters that the configuration names; none if the metadata log does."""
    bootstrap_records: Sequence[Any]
    formatted: Sequence[str]
    """The directories that were formatted just now, as lines of text."""


def identify(
    config: "BrokerConfig",
    disk: Disk,
    directories: Sequence[str],
    metadata_directory: str,
    rng: Random,
    now_ms: int,
    this_machine: str = "localhost",
) -> NodeIdentity:
    """Read every ``meta.properties``, or format a new node. All paths are absolute.

    ``this_machine`` is the host name that other nodes use for it if the configuration names none.

    Blocks; raises StartRefused, CorruptFile, Malformed, OSError.
    """
    may_be_migrated = not config.is_controller
    found = read_identities(disk, directories, config.node_id, may_be_migrated=may_be_migrated)
    formatted: list[str] = []
    if not found:
        formatted = _format_new_node(config, disk, directories, metadata_directory, rng, now_ms)
        found = read_identities(disk, directories, config.node_id)
    ids = {directory: _directory_id(disk, directory, found.get(directory), found, rng) for directory in directories}
    for directory in directories:
        if directory != metadata_directory and disk.status(metadata_log_path(directory)) is not None:
            raise StartRefused(
                f"Found unexpected metadata location in data directory `{metadata_log_path(directory)}` (the "
                f"configured metadata directory is {metadata_directory})."
            )
    cluster_id = found[metadata_directory].cluster_id
    assert cluster_id is not None
    static_voters = configured_voters(config)
    voter = Voter(config.node_id, ids[metadata_directory], controller_endpoints(config, this_machine))
    records = read_bootstrap_records(disk, metadata_directory)
    return NodeIdentity(cluster_id, ids, voter, static_voters, records, formatted)


def configured_voters(config: "BrokerConfig") -> list[Voter]:
    """The voters that ``controller.quorum.voters`` names. Their addresses are those of the first listener that
    ``controller.listener.names`` names."""
    return [
        Voter(node_id, ZERO_UUID, (VoterEndpoint(config.controller_listener_name, host, port),))
        for node_id, (host, port) in config.quorum_voters.items()
    ]


def controller_endpoints(config: "BrokerConfig", this_machine: str = "localhost") -> tuple[VoterEndpoint, ...]:
    """The endpoints where other controllers reach this one; none if it stands alone and listens for none."""
    return tuple(
        VoterEndpoint(listener.name, listener.host or this_machine, listener.port)
        for listener in config.advertised_controller_listeners
    )


def standalone_voters(config: "BrokerConfig", rng: Random) -> Voters:
    """A voter set with this node as the only voter, under a new directory id."""
    return voter_set([Voter(config.node_id, new_uuid(rng), controller_endpoints(config)[:1])])


def _format_new_node(
    config: "BrokerConfig", disk: Disk, directories: Sequence[str], metadata_directory: str, rng: Random, now_ms: int
) -> list[str]:
    for directory in directories:
        if not is_empty(disk, directory):
            raise StartRefused(
                f"{directory} is not empty, but has no meta.properties that says whose it is. Name an empty directory, "
                "or format this one with `kpybroker format` if nothing in it is needed."
            )
    if not config.standalone:
        raise StartRefused(
            f"No meta.properties found in {metadata_directory}. A node of a configured quorum is not formatted by "
            "itself: use `kpybroker format`."
        )
    cluster_id = uuid.to_string(new_uuid(rng))
    levels = choose_levels(None, {}, dynamic_quorum=True)
    voters = standalone_voters(config, rng)
    formatting = Formatting(cluster_id, config.node_id, directories, metadata_directory, levels, voters)
    return format_directories(disk, formatting, rng, now_ms)


def _directory_id(
    disk: Disk, directory: str, properties: MetaProperties | None, found: Mapping[str, MetaProperties], rng: Random
) -> bytes:
    if properties is None:
        cluster_id = next(iter(found.values())).cluster_id
        raise StartRefused(
            f"No meta.properties found in {directory}. Format it with `kpybroker format --ignore-formatted "
            f"--cluster-id {cluster_id}`."
        )
    if properties.directory_id is not None:
        return properties.directory_id
    directory_id = new_uuid(rng, frozenset(other.directory_id for other in found.values()))
    meta_properties.write(disk, directory, properties._replace(directory_id=directory_id))
    return directory_id
