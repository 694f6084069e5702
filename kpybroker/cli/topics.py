"""``kpybroker topics``: create, list, describe, alter, reassign and delete topics of any Kafka cluster."""

import json
from collections.abc import Iterable
from typing import Any

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns
from kpybroker.client import topic_requests
from kpybroker.client.topic_requests import Description
from kpybroker.machines.errors import KafkaError
from kpywire.uuid import to_string

BROKER_DEFAULT = -1
NO_TOPICS = "No topics. Create one: kpybroker topics create NAME"


@click.group(name="topics", cls=Commands, modules={"reassign": "reassign", "reassignments": "reassign"})
def command() -> None:
    """Create, list, describe, alter, reassign and delete topics."""


def key_values(_context: click.Context, _option: click.Parameter, pairs: Iterable[str]) -> dict[str, str]:
    """The pairs of ``("retention.ms=1000",)`` as a dict; click.BadParameter for a text that is not a pair."""
    configs = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
        configs[key.strip()] = value.strip()
    return configs


topic_configs = click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    shell_complete=completion.topic_configs,
    help="A config of the topic. Repeatable.",
)


@command.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(1), metavar="N", help="The number of partitions. [default: the broker's]"
)
@click.option(
    "-r",
    "--replication-factor",
    "replicas",
    type=click.IntRange(1),
    metavar="N",
    help="The number of replicas of each partition.",
)
@topic_configs
@click.option("--if-not-exists", is_flag=True, help="Do not fail if a topic exists already.")
@bootstrap_server
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    server: str,
) -> None:
    """Create topics."""
    with connected(server) as client:
        for name in names:
            try:
                topic_requests.create(client, name, partitions or BROKER_DEFAULT, replicas or BROKER_DEFAULT, configs)
            except KafkaError as error:
                if not (if_not_exists and topic_requests.exists_already(error)):
                    raise
                click.echo(f"{name} exists already")
            else:
                click.echo(f"Created {name}")


@command.command("list")
@click.option("--internal", is_flag=True, help="Also list Kafka's own topics.")
@json_output
@bootstrap_server
def list_(internal: bool, as_json: bool, server: str) -> None:
    """List topics with their partitions and replicas."""
    with connected(server) as client:
        found = [topic for topic in topic_requests.existing(client) if internal or not topic.is_internal]
    rows = [
        (
            topic.name or "",
            len(topic.partitions),
            topic_requests.replicas_of(topic),
        )
        for topic in found
    ]
    if as_json:
        click.echo(json.dumps([dict(zip(("name", "partitions", "replicas"), row, strict=True)) for row in rows]))
    elif rows:
        click.echo(columns(("TOPIC", "PARTITIONS", "REPLICAS"), rows))
    else:
        click.echo(NO_TOPICS, err=True)


@command.command()
@click.argument("names", metavar="[TOPIC]...", nargs=-1, shell_complete=completion.topics)
@json_output
@bootstrap_server
def describe(names: tuple[str, ...], as_json: bool, server: str) -> None:
    """Show partitions, leaders, replicas, offsets and configs of topics: of all but Kafka's own, if none is named."""
    with connected(server) as client:
        found = [topic_requests.describe(client, name) for name in names or sorted(client.topic_names())]
    if not found and not as_json:
        click.echo(NO_TOPICS, err=True)
        return
    if as_json:
        click.echo(json.dumps([as_dict(each) for each in found], indent=2))
    else:
        click.echo("\n\n".join(as_text(each) for each in found))


@command.command()
@click.argument("name", metavar="TOPIC", shell_complete=completion.topics)
@click.option(
    "-p", "--partitions", type=click.IntRange(1), metavar="N", help="The new number of partitions, which can only grow."
)
@topic_configs
@click.option(
    "--delete-config",
    "defaults",
    multiple=True,
    metavar="KEY",
    help="Remove this key, so that the default counts. Repeatable.",
)
@bootstrap_server
def alter(name: str, partitions: int | None, configs: dict[str, str], defaults: tuple[str, ...], server: str) -> None:
    """Add partitions, set configs."""
    if not (partitions or configs or defaults):
        raise click.UsageError("nothing to alter: use --partitions, --config or --delete-config")
    with connected(server) as client:
        if partitions:
            topic_requests.add_partitions(client, name, partitions)
        if configs or defaults:
            topic_requests.alter_configs(client, name, {**configs, **dict.fromkeys(defaults)})
    click.echo(f"Altered {name}")


@command.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=completion.topics)
@click.option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@bootstrap_server
def delete(names: tuple[str, ...], if_exists: bool, server: str) -> None:
    """Delete topics and all their records."""
    with connected(server) as client:
        for name in names:
            try:
                topic_requests.delete(client, name)
            except KafkaError as error:
                if not (if_exists and topic_requests.is_unknown(error)):
                    raise
                click.echo(f"{name} does not exist")
            else:
                click.echo(f"Deleted {name}")


def as_dict(found: Description) -> dict[str, Any]:
    """A description for programs."""
    partitions = [
        {
            "partition": each.metadata.partition_index,
            "leader": each.metadata.leader_id,
            "leader_epoch": each.metadata.leader_epoch,
            "replicas": each.metadata.replica_nodes,
            "isr": each.metadata.isr_nodes,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
        }
        for each in found.partitions
    ]
    return {
        "name": found.topic.name,
        "topic_id": to_string(found.topic.topic_id),
        "internal": found.topic.is_internal,
        "configs": found.configs,
        "partitions": partitions,
    }


def as_text(found: Description) -> str:
    """A description for people."""
    count = len(found.partitions)
    lines = [f"{found.topic.name}  id {to_string(found.topic.topic_id)}  {count} partition{'s' * (count != 1)}"]
    lines += [f"  {key}={value}" for key, value in sorted(found.configs.items())]
    rows = [
        (
            each.metadata.partition_index,
            "none" if each.metadata.leader_id < 0 else each.metadata.leader_id,
            ",".join(map(str, each.metadata.replica_nodes)),
            ",".join(map(str, each.metadata.isr_nodes)),
            "?" if each.start_offset is None else each.start_offset,
            "?" if each.end_offset is None else each.end_offset,
        )
        for each in found.partitions
    ]
    headings = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START OFFSET", "END OFFSET")
    return "\n".join([*lines, columns(headings, rows)])
