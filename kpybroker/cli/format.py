"""``kpybroker format``: prepare log directories for a node, as ``kafka-storage format`` does."""

import os
import random
import sys
import time
from pathlib import Path

import click

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.login_file import login_file_of
from kpybroker.hosts.quorum.first_start import controller_endpoints, standalone_voters
from kpybroker.hosts.quorum.formatter import (
    Formatting,
    format_directories,
    new_uuid,
    parse_initial_controllers,
    read_identities,
)
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.quorum.scram_arguments import parse_scram
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.chosen_levels import FormatRefused, choose_levels, level_of_release, parse_levels
from kpybroker.machines.raft.voters import Voters
from kpystorage.disk_errors import in_words
from kpystorage.errors import CorruptFile
from kpystorage.real_disk import RealDisk
from kpywire import uuid


@click.command(name="format")
@click.argument("action", required=False, type=click.Choice(["random-uuid"]))
@click.option(
    "-t",
    "--cluster-id",
    metavar="ID",
    help="The cluster's id. Without it, the id of directories that are formatted, or a random one.",
)
@click.option(
    "-c",
    "--config",
    "properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The server.properties of the node.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a config; this counts before the file."
)
@click.option("-s", "--standalone", is_flag=True, help="Make the node a quorum of one, which can grow.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="Let the node join a quorum that exists.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="VOTERS",
    help="The voters of the first quorum: id@host:port:directory-id,...",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are formatted.")
@click.option("-r", "--release-version", metavar="VERSION", help="Finalise the features of this release, such as 4.4.")
@click.option(
    "-f", "--feature", "feature_levels", multiple=True, metavar="NAME=LEVEL", help="Finalise this level of a feature."
)
@click.option(
    "-S",
    "--add-scram",
    "scram_arguments",
    multiple=True,
    metavar="MECHANISM=[...]",
    help="Begin with this user: SCRAM-SHA-256=[name=alice,password=...]. Also SCRAM-SHA-512; salt, iterations (4096 to "
    "16384) and saltedpassword in place of password. Repeatable.",
)
def command(
    action: str | None,
    cluster_id: str | None,
    properties: Path | None,
    overrides: tuple[str, ...],
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    ignore_formatted: bool,
    release_version: str | None,
    feature_levels: tuple[str, ...],
    scram_arguments: tuple[str, ...],
) -> None:
    """Prepare log directories for a node.

    A node without a configured quorum formats empty directories by itself at its first start. `kpybroker format
    random-uuid` prints an id for a cluster or a directory.
    """
    rng = random.SystemRandom()
    if action == "random-uuid":
        click.echo(uuid.to_string(new_uuid(rng)))
        return
    try:
        config = BrokerConfig.load(
            properties,
            dict(_override(text) for text in overrides),
            login_file=login_file_of(os.environ.get("KAFKA_OPTS", "")),
        )
        if sum((standalone, no_initial_controllers, initial_controllers is not None)) > 1:
            raise FormatRefused("Give one of --standalone, --initial-controllers and --no-initial-controllers only.")
        if release_version is not None:
            level_of_release(release_version)  # refused before anything else, as by Kafka
        voters = _voters(
            config, initial_controllers, rng, standalone=standalone, no_initial_controllers=no_initial_controllers
        )
        levels = choose_levels(release_version, parse_levels(feature_levels), dynamic_quorum=not config.quorum_voters)
        directories = sorted({*map(_absolute, config.log_dirs), _absolute(config.metadata_log_dir)})
        disk = RealDisk()
        if cluster_id is None:
            # A directory that is added to others belongs to their cluster.
            cluster_id = next(
                (each.cluster_id for each in read_identities(disk, directories, config.node_id).values()), None
            )
        formatting = Formatting(
            cluster_id or uuid.to_string(new_uuid(rng)),
            config.node_id,
            directories,
            _absolute(config.metadata_log_dir),
            levels,
            voters,
            parse_scram(scram_arguments, levels[metadata_version.FEATURE_NAME], rng),
            config.is_controller,
        )
        now_ms = time.time_ns() // 1_000_000
        for line in format_directories(disk, formatting, rng, now_ms, ignore_formatted=ignore_formatted):
            click.echo(line)
    except (ConfigError, FormatRefused, StartRefused, CorruptFile, OSError) as error:
        click.echo(f"kpybroker format: {in_words(error) if isinstance(error, OSError) else error}", err=True)
        sys.exit(1)


def _override(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise FormatRefused(f"--override takes KEY=VALUE, not {text!r}.")
    return name.strip(), value.strip()


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _voters(
    config: BrokerConfig,
    initial_controllers: str | None,
    rng: random.Random,
    *,
    standalone: bool,
    no_initial_controllers: bool,
) -> Voters | None:
    """The initial controllers; None if the configuration names the voters or the node joins a quorum."""
    if config.quorum_voters and (standalone or initial_controllers is not None):
        raise FormatRefused(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if initial_controllers is not None:
        names = config.controller_listener_names or ("CONTROLLER",)
        return parse_initial_controllers(initial_controllers, names[0])
    if standalone or (config.standalone and not no_initial_controllers):
        if not config.is_controller:
            raise FormatRefused("You can only use --standalone on a controller.")
        if not controller_endpoints(config) and not config.standalone:
            raise FormatRefused("No controller listeners found.")
        return standalone_voters(config, rng)
    if config.is_controller and not config.quorum_voters and not no_initial_controllers:
        raise FormatRefused(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None
