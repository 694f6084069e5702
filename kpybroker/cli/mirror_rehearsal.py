"""``kpybroker mirror rehearse``: a fork of a node's log directories in which a mirror's topics are writable."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

import click

from kpybroker.cli.metadata_source import METADATA_DIRECTORY, NoMetadata, read_image
from kpybroker.cli.tables import plural
from kpybroker.client import cluster_requests
from kpybroker.client.client import Client
from kpybroker.hosts.mirror import forking
from kpybroker.hosts.mirror.forking import Fork, ForkOrder
from kpybroker.hosts.quorum.formatter import new_uuid
from kpybroker.machines.mirror.rehearsal import ForkedMetadata
from kpystorage import meta_properties
from kpystorage.disk_errors import in_words
from kpystorage.errors import StorageError
from kpystorage.forking import ForkBusy
from kpystorage.real_disk import RealDisk
from kpywire import uuid


def local_directories(client: Client) -> list[Path]:
    """The log directories of the broker that is on this machine. click.UsageError unless exactly one is."""
    found: dict[int, list[Path]] = {}
    for each in cluster_requests.log_directories(client):
        found.setdefault(each.broker, []).append(Path(each.path))
    here = [paths for node_id, paths in found.items() if all(_is_of(path, node_id) for path in paths)]
    if len(here) != 1:
        raise click.UsageError(f"{plural(len(here), 'broker')} of the cluster on this machine: give its --log-dirs")
    return here[0]


def _is_of(path: Path, node_id: int) -> bool:
    found = meta_properties.read(RealDisk(), str(path)) if path.is_dir() else None
    return found is not None and found.node_id == node_id


def rehearse(mirror: str, log_dirs: Sequence[Path], directories: Sequence[Path], port: int) -> None:
    """Make the fork, and print how to start and to drop it."""
    try:
        _rehearse(mirror, [str(path.absolute()) for path in log_dirs], directories, port)
    except OSError as error:
        raise click.ClickException(in_words(error)) from None
    except (ForkBusy, NoMetadata, StorageError) as error:
        raise click.ClickException(str(error)) from None


def _rehearse(mirror: str, sources: Sequence[str], directories: Sequence[Path], port: int) -> None:
    disk, rng = RealDisk(), SystemRandom()
    holding = [path for path in sources if os.path.isdir(f"{path}/{METADATA_DIRECTORY}")]
    if not holding:
        raise click.ClickException(
            f"no metadata log in {', '.join(sources)}: name metadata.log.dir with --log-dirs too"
        )
    identity = meta_properties.read(disk, holding[0])
    if identity is None or identity.node_id is None:
        raise click.ClickException(f"{holding[0]} is not formatted")
    image = read_image(disk, Path(holding[0]))
    registration = image.brokers.get(identity.node_id)
    if registration is None:
        raise click.ClickException(f"node {identity.node_id} is no broker: it has no partitions to fork")
    metadata = ForkedMetadata(image, identity.node_id, mirror)
    if not metadata.mirrored:
        raise click.ClickException(f"node {identity.node_id} knows no topic of a mirror {mirror}")
    cluster_id = uuid.to_string(new_uuid(rng))
    order = ForkOrder(mirror, identity.node_id, cluster_id, registration.epoch, _placed(sources, directories))
    for target in order.directories.values():
        os.mkdir(target, 0o700)
    fork = forking.fork_node(disk, metadata, image, order, rng, time.time_ns() // 1_000_000, _report)
    file = Path(directories[0]) / "fork.properties"
    file.write_text(forking.settings(order, port))
    _show(fork, metadata, order, file, port)


def _placed(sources: Sequence[str], directories: Sequence[Path]) -> dict[str, str]:
    for path in directories:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise click.ClickException(f"{path} is not empty: delete what is left of another fork")
    try:
        return forking.placed(sources, [str(path.absolute()) for path in directories])
    except ValueError as error:
        raise click.ClickException(
            f"no --directory is on the file system of {error}: segments are shared with it by hard links"
        ) from None


def _report(line: str) -> None:
    click.echo(line, err=True)


def _show(fork: Fork, metadata: ForkedMetadata, order: ForkOrder, file: Path, port: int) -> None:
    linked, copied = fork.bytes
    click.echo(
        f"Forked {plural(fork.partitions, 'partition')}: {linked} bytes are shared, {copied} were copied; "
        f"{plural(fork.aborted, 'open transaction')} aborted."
    )
    if metadata.tiered:
        click.echo(f"Left out, since they are tiered: {', '.join(sorted(metadata.tiered))}")
    if absent := metadata.absent() + fork.gone:
        click.echo(f"{plural(absent, 'partition')} not on this node: without a leader in the fork, or empty.")
    click.echo(f"Start it: kpybroker start {file}")
    click.echo(f"Its address is 127.0.0.1:{port}; the topics of mirror {order.mirror} are writable there.")
    places = " ".join(sorted({os.path.dirname(path) for path in order.directories.values()}))
    click.echo(f"Drop it: stop that broker, then rm -r {places}")
