"""The directory of a cluster on one machine: founded once with all its nodes, and found again at every later start.

``cluster.properties`` is written last, after every node was formatted and before any was started. So a directory
without it holds no data of users, and one with it is never formatted again: a controller that forgot its vote could
vote twice. Nodes added later are brokers.
"""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import HTTP_FIRST_PORT, OWN_CONFIGS
from kpybroker.config.properties import read_properties, written_properties
from kpybroker.hosts.quorum.formatter import Formatting, format_directories, is_empty, new_uuid
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.endpoints import Address, Listener, parse_voters
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, voter_set
from kpybroker.node.assembly.ports import check_free
from kpybroker.node.local_cluster.layout import CONTROLLER, PlannedNode, controllers_of, nodes_of, properties_of
from kpybroker.runtime.io.private_files import make_private, write_private
from kpystorage.disk_errors import in_words
from kpystorage.real_disk import RealDisk
from kpywire import uuid

FILE: Final = "cluster.properties"
META_PROPERTIES: Final = "meta.properties"
TRIED_ROWS: Final = 5
"""The rows of ports for consoles that are tried."""


class FoundationRefused(Exception):
    """The directory cannot be used as it is; the message is one line for the user."""


class Foundation(NamedTuple):
    """The facts that were decided once: the cluster's id and the addresses of its controllers."""

    cluster_id: str
    controllers: Mapping[int, Address]


def found(
    directory: Path,
    host: str,
    ports: Sequence[int],
    controller_ports: Sequence[int],
    given: Mapping[str, str],
    rack: str,
) -> list[PlannedNode]:
    """The nodes of the cluster in ``directory``, ready to be started: configured, and formatted if they are new.

    There is a node for each of the brokers' ``ports``. ``controller_ports`` are for the controllers of a new cluster.
    Raises FoundationRefused, ConfigError, StartRefused where a port is taken; nothing is formatted then.
    """
    try:
        return _found(directory, host, ports, controller_ports, given, rack)
    except OSError as error:
        raise FoundationRefused(f"{directory} cannot be used: {in_words(error)}") from None


def _found(
    directory: Path,
    host: str,
    ports: Sequence[int],
    controller_ports: Sequence[int],
    given: Mapping[str, str],
    rack: str,
) -> list[PlannedNode]:
    foundation = _read(directory)
    if foundation is None:
        nodes = _new_nodes(directory, host, ports, controller_ports)
    else:
        nodes = nodes_of(directory, host, ports, foundation.controllers)
        _check_number(directory, len(nodes), foundation)
    first_console = _first_console(len(nodes))
    configs = [properties_of(node, nodes, given, rack, first_console) for node in nodes]
    for config in configs:
        check_free(BrokerConfig(config).listeners)
    for node, config in zip(nodes, configs, strict=True):
        make_private(node.directory)
        write_private(node.properties, written_properties(config))
    if foundation is None:
        _format_all(directory, nodes)
    else:
        _format_late_comers(nodes, foundation)
    return nodes


def _first_console(count: int) -> int:
    """The first of ``count`` ports in a row that are free for consoles; the usual one if there are none. A node whose
    port is taken in the meantime takes the next free one."""
    usual = int(OWN_CONFIGS[HTTP_FIRST_PORT].default)  # type: ignore[arg-type]
    for first in range(usual, usual + TRIED_ROWS * count, count):
        with suppress(StartRefused):
            check_free(Listener("CONSOLE", "127.0.0.1", port, "PLAINTEXT") for port in range(first, first + count))
            return first
    return usual


def _read(directory: Path) -> Foundation | None:
    path = directory / FILE
    if not path.exists():
        return None
    properties = {key: entry.value for key, entry in read_properties(path).items()}
    try:
        return Foundation(properties["cluster.id"], parse_voters(properties["controllers"].split(",")))
    except KeyError as missing:
        raise FoundationRefused(f"{path} does not say {missing}.") from None


def _new_nodes(directory: Path, host: str, ports: Sequence[int], controller_ports: Sequence[int]) -> list[PlannedNode]:
    for name in (META_PROPERTIES, "server.properties"):
        if (directory / name).exists():
            raise FoundationRefused(f"{directory} has the data of a single node. Name an empty directory.")
    addresses = (Address(host or "127.0.0.1", port) for port in controller_ports)
    nodes = nodes_of(directory, host, ports, dict(zip(controllers_of(len(ports)), addresses, strict=False)))
    disk = RealDisk()
    interrupted = sorted(directory.glob("node-*/data"))
    for data in interrupted:
        if not is_empty(disk, str(data.absolute()), or_formatted=True):
            raise FoundationRefused(f"{data} is not empty, but {directory} has no {FILE}. Name an empty directory.")
    for data in interrupted:
        (data / META_PROPERTIES).unlink(missing_ok=True)
    return nodes


def _check_number(directory: Path, count: int, foundation: Foundation) -> None:
    present = len(list(directory.glob(f"node-*/data/{META_PROPERTIES}")))
    if count < max(present, *foundation.controllers):
        raise FoundationRefused(
            f"{directory} has a cluster of {present} nodes: start it with --brokers {present}, or name another "
            "directory."
        )


def _format_all(directory: Path, nodes: Sequence[PlannedNode]) -> None:
    rng = random.SystemRandom()
    cluster_id = uuid.to_string(new_uuid(rng))
    controllers = {node.id: node.controller for node in nodes if node.controller is not None}
    voters = [
        Voter(number, new_uuid(rng), (VoterEndpoint(CONTROLLER, address.host, address.port),))
        for number, address in controllers.items()
    ]
    for node in nodes:
        _format(node, cluster_id, voters if node.controller is not None else (), rng)
    listed = ",".join(f"{number}@{address.host}:{address.port}" for number, address in controllers.items())
    write_private(directory / FILE, written_properties({"cluster.id": cluster_id, "controllers": listed}))


def _format_late_comers(nodes: Sequence[PlannedNode], foundation: Foundation) -> None:
    rng = random.SystemRandom()
    for node in nodes:
        if (node.data / META_PROPERTIES).exists():
            continue
        if node.controller is not None:
            raise FoundationRefused(
                f"{node.data} is empty, and a controller that forgot its votes must not take part as it was. Run "
                f"`kpybroker format --no-initial-controllers --cluster-id {foundation.cluster_id} --config "
                f"{node.properties}`, then remove the old voter and add the new one."
            )
        _format(node, foundation.cluster_id, (), rng)


def _format(node: PlannedNode, cluster_id: str, voters: Sequence[Voter], rng: random.Random) -> None:
    data = str(node.data.absolute())
    levels = choose_levels(None, {}, dynamic_quorum=True)
    formatting = Formatting(
        cluster_id,
        node.id,
        [data],
        data,
        levels,
        voter_set(voters) if voters else None,
        is_controller=node.controller is not None,
    )
    format_directories(RealDisk(), formatting, rng, time.time_ns() // 1_000_000)
