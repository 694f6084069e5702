"""``kpybroker cluster``: brokers, features, log directories, the quorum."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from kpybroker.cli import Commands
from kpybroker.cli.options import Command, bootstrap_server, connected, json_output
from kpybroker.cli.tables import bytes_text, columns, duration_text, plural, show_json
from kpybroker.client import cluster_requests, quorum_requests
from kpybroker.machines.lag import lag_in_records
from kpybroker.machines.metadata.chosen_levels import FormatRefused, level_of_release, parse_levels
from kpybroker.machines.metadata.features import SUPPORTED, default_level
from kpybroker.machines.metadata.image import KRAFT_VERSION
from kpybroker.machines.metadata.metadata_version import FEATURE_NAME
from kpywire import api, error_codes
from kpywire.uuid import to_string

OWN_MODULES = {
    "controllers": "voters",
    "elect": "elections",
    "leave": "rolls",
    "roll-plan": "rolls",
    "voters": "voters",
}


@click.group(name="cluster", cls=Commands, modules=OWN_MODULES)
def command() -> None:
    """Show brokers, features, log directories and the controllers' quorum; elect leaders, unregister nodes, raise and
    lower the levels of features, show which nodes may stop together."""


@command.command()
@json_output
@bootstrap_server
def describe(as_json: bool, server: str) -> None:
    """Show the cluster's id, its brokers, and how many topics and partitions there are."""
    with connected(server) as client:
        found = cluster_requests.describe(client)
        topics = client.topics()
    partitions = [each for topic in topics for each in topic.partitions]
    offline = sum(each.leader_id < 0 for each in partitions)
    under_replicated = sum(len(each.isr_nodes) < len(each.replica_nodes) for each in partitions)
    if as_json:
        show_json(
            {
                "cluster_id": found.cluster_id,
                "controller": found.controller_id,
                "brokers": [_broker_dict(each) for each in sorted(found.brokers, key=lambda each: each.broker_id)],
                "topics": len(topics),
                "partitions": len(partitions),
                "offline_partitions": offline,
                "under_replicated_partitions": under_replicated,
            }
        )
        return
    counted = f"{plural(len(topics), 'topic')}, {plural(len(partitions), 'partition')}"
    trouble = f", {offline} offline" * (offline > 0) + f", {under_replicated} under-replicated" * (under_replicated > 0)
    click.echo(f"Cluster {found.cluster_id}: {plural(len(found.brokers), 'broker')}, {counted}{trouble}")
    rows = [
        (each["id"], each["host"], each["port"], each["rack"] or "-", "fenced" if each["fenced"] else "alive")
        for each in map(_broker_dict, sorted(found.brokers, key=lambda each: each.broker_id))
    ]
    click.echo(columns(("BROKER", "HOST", "PORT", "RACK", "STATE"), rows))


def _broker_dict(broker: Any) -> dict[str, Any]:
    return {
        "id": broker.broker_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "fenced": broker.is_fenced,
    }


@command.command("id")
@bootstrap_server
def id_(server: str) -> None:
    """Print the cluster's id."""
    with connected(server) as client:
        click.echo(cluster_requests.describe(client).cluster_id)


@command.command()
@json_output
@bootstrap_server
def brokers(as_json: bool, server: str) -> None:
    """Show the brokers that live, with what they lead and hold."""
    with connected(server) as client:
        nodes = client.nodes()
        counts = cluster_requests.leaders(client)
        directories = cluster_requests.log_directories(client)
    rows = []
    for node in nodes:
        led, held = counts.get(node.node_id, (0, 0))
        size = sum(each.used_bytes for each in directories if each.broker == node.node_id)
        rows.append((node.node_id, f"{node.host}:{node.port}", node.rack, led, held, size))
    if as_json:
        keys = ("id", "address", "rack", "leaders", "replicas", "bytes")
        show_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    shown = [(*row[:2], row[2] or "-", *row[3:5], bytes_text(row[5])) for row in rows]
    click.echo(columns(("BROKER", "ADDRESS", "RACK", "LEADERS", "REPLICAS", "SIZE"), shown))


@command.command()
@click.option("--release-version", "release", metavar="VERSION", help="The levels of this release; no broker is asked.")
@json_output
@bootstrap_server
def features(release: str | None, as_json: bool, server: str) -> None:
    """Show which features are finalised, and which levels the broker supports."""
    if release is not None:
        _show_release(release, as_json=as_json)
        return
    with connected(server) as client:
        found = cluster_requests.features(client)
    if as_json:
        show_json([each._asdict() for each in found])
        return
    rows = [(each.name, each.finalized or "off", f"{each.first_supported}-{each.last_supported}") for each in found]
    click.echo(columns(("FEATURE", "FINALIZED", "SUPPORTED"), rows))


@command.command("api-versions")
@click.option("--broker", "ids", type=click.IntRange(0), metavar="N", multiple=True, help="Only this. Repeatable.")
@json_output
@bootstrap_server
def api_versions(ids: tuple[int, ...], as_json: bool, server: str) -> None:
    """Show the APIs that brokers serve, with their versions and the newest one that this client uses."""
    with connected(server) as client:
        found = cluster_requests.served_apis(client, *ids)
    brokers: dict[tuple[int, int, int], list[int]] = {}
    for broker, *versions in found:
        brokers.setdefault((versions[0], versions[1], versions[2]), []).append(broker)
    rows = []
    for (key, first, last), served_by in sorted(brokers.items()):
        known = api.API_KEYS.get(key)
        usable = None if known is None or not known.min_version <= last else min(last, known.max_version)
        rows.append((key, None if known is None else known.name, first, last, usable, served_by))
    if as_json:
        keys = ("key", "name", "first", "last", "usable", "brokers")
        show_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    shown = [
        (key, name or "?", f"{first}-{last}", "-" if usable is None else usable, ",".join(map(str, served_by)))
        for key, name, first, last, usable, served_by in rows
    ]
    click.echo(columns(("KEY", "API", "VERSIONS", "USABLE", "BROKERS"), shown))


@command.command()
@click.argument("node", metavar="ID", type=click.IntRange(0))
@click.option("--controller", is_flag=True, help="ID is a controller's, and not a broker's.")
@bootstrap_server
def unregister(node: int, controller: bool, server: str) -> None:
    """Let the cluster forget a broker, or a controller, that will not come back.

    Move the partitions of a broker away first. A node that still runs registers again.
    """
    with connected(server) as client:
        if controller:
            quorum_requests.unregister_controller(client, node)
        else:
            cluster_requests.unregister_broker(client, node)
    click.echo(f"Unregistered {'controller' if controller else 'broker'} {node}")


def _show_release(release: str, *, as_json: bool) -> None:
    try:
        version = level_of_release(release)
    except FormatRefused as refused:
        raise click.UsageError(str(refused)) from None
    levels = {name: default_level(name, version) for name in SUPPORTED.keys() - {FEATURE_NAME}} | {
        FEATURE_NAME: version
    }
    if as_json:
        show_json(dict(sorted(levels.items())))
    else:
        click.echo(columns(("FEATURE", "LEVEL"), [(name, level or "off") for name, level in sorted(levels.items())]))


def feature_options(command: Command) -> Command:
    """The options that name levels of features, as kafka-features has them."""
    options: list[Callable[[Command], Command]] = [
        click.option(
            "--release-version", "release", metavar="VERSION", help="The levels that this release begins with: 4.4."
        ),
        click.option(
            "-f", "--feature", "texts", multiple=True, metavar="NAME=LEVEL", help="One level of a feature. Repeatable."
        ),
        click.option("--dry-run", is_flag=True, help="Ask whether it is possible, and change nothing."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@command.command()
@feature_options
@bootstrap_server
def upgrade(release: str | None, texts: tuple[str, ...], dry_run: bool, server: str) -> None:
    """Raise the levels of features, when all nodes run the version that has them.

    Nodes of earlier versions cannot come back then, and levels of metadata.version are mostly never lowered.
    """
    _change(server, release, texts, lower=False, dry_run=dry_run)


@command.command()
@feature_options
@bootstrap_server
def downgrade(release: str | None, texts: tuple[str, ...], dry_run: bool, server: str) -> None:
    """Lower the levels of features. Refused where it would lose metadata."""
    _change(server, release, texts, lower=True, dry_run=dry_run)


def _change(server: str, release: str | None, texts: Sequence[str], *, lower: bool, dry_run: bool) -> None:
    with connected(server) as client:
        finalized = {each.name: each.finalized for each in cluster_requests.features(client)}
        levels = wanted_levels(finalized, release, texts, lower=lower)
        if levels:
            cluster_requests.change_features(client, levels, lower=lower, validate_only=dry_run)
    if not levels:
        click.echo("All features are at these levels already.")
    for name, level in levels.items():
        click.echo(f"{name} {'can be' if dry_run else 'is'} {level}{'' if dry_run else ' now'}")


def wanted_levels(
    finalized: Mapping[str, int], release: str | None, texts: Sequence[str], *, lower: bool
) -> dict[str, int]:
    """The levels to change: those that options name, and those of a release that are higher, or lower, than the
    finalised ones. click.UsageError for none, and for what is no level."""
    if release is None and not texts:
        raise click.UsageError("name a release with --release-version, or levels with --feature")
    try:
        chosen = parse_levels(texts)
        level = None if release is None else level_of_release(release)
    except FormatRefused as refused:
        raise click.UsageError(str(refused)) from None
    if level is None:
        return chosen
    of_release = {name: default_level(name, level) for name in finalized.keys() & SUPPORTED.keys() - {KRAFT_VERSION}}
    changing = {
        name: wanted
        for name, wanted in sorted(of_release.items())
        if (wanted < finalized[name] if lower else wanted > finalized[name])
    }
    return {**changing, **chosen}


@command.command("log-dirs")
@click.option(
    "--broker", "ids", type=click.IntRange(0), metavar="N", multiple=True, help="Show only this broker. Repeatable."
)
@json_output
@bootstrap_server
def log_dirs(ids: tuple[int, ...], as_json: bool, server: str) -> None:
    """Show the log directories of brokers, how full they and their disks are."""
    with connected(server) as client:
        found = cluster_requests.log_directories(client, *ids)
    if as_json:
        show_json([{**each._asdict(), "error": _error(each.error_code)} for each in found])
        return
    rows = [
        (
            each.broker,
            each.path,
            _error(each.error_code) or "online",
            each.partitions,
            bytes_text(each.used_bytes),
            bytes_text(each.usable_bytes) if each.usable_bytes >= 0 else "?",
            bytes_text(each.total_bytes) if each.total_bytes >= 0 else "?",
        )
        for each in found
    ]
    click.echo(columns(("BROKER", "DIRECTORY", "STATE", "PARTITIONS", "SIZE", "FREE", "DISK"), rows))


def _error(code: int) -> str | None:
    return error_codes.name(code) if code else None


@command.command()
@json_output
@bootstrap_server
def quorum(as_json: bool, server: str) -> None:
    """Show the controllers' quorum: leader, epoch, voters, observers and how far each is behind."""
    with connected(server) as client:
        found = cluster_requests.quorum(client)
    end = max((each.log_end_offset for each in found.current_voters), default=-1)
    # The leader's own time is the present one, so no clock of ours comes into it.
    now_ms = max((each.last_caught_up_timestamp for each in found.current_voters), default=-1)
    replicas = [
        {
            "id": each.replica_id,
            "directory_id": to_string(each.replica_directory_id),
            "role": "leader" if each.replica_id == found.leader_id else role,
            "log_end_offset": each.log_end_offset,
            "lag": lag_in_records(end, each.log_end_offset) if each.log_end_offset >= 0 else None,
            "behind_ms": now_ms - each.last_caught_up_timestamp if each.last_caught_up_timestamp >= 0 else None,
        }
        for role, states in (("voter", found.current_voters), ("observer", found.observers))
        for each in states
    ]
    if as_json:
        show_json(
            {
                "leader": found.leader_id,
                "leader_epoch": found.leader_epoch,
                "high_watermark": found.high_watermark,
                "replicas": replicas,
            }
        )
        return
    click.echo(f"Leader {found.leader_id}, epoch {found.leader_epoch}, high watermark {found.high_watermark}")
    rows = [tuple(_cell(key, value) for key, value in each.items()) for each in replicas]
    click.echo(columns(("NODE", "DIRECTORY", "ROLE", "LOG END", "LAG", "BEHIND"), rows))


def _cell(key: str, value: Any) -> Any:
    if value is None:
        return "-"
    return duration_text(value) if key == "behind_ms" else value
