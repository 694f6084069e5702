"""``kpybroker share``: read as a member of a share group, and accept, release or reject each record; dead letters."""

import math
from collections.abc import Iterable

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.client_settings import admin_settings
from kpybroker.cli.consume import Printing, as_member, show_by
from kpybroker.cli.contact import Contact, Say, mute, say
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, plural, printable, show_json
from kpybroker.client import dead_letters
from kpybroker.client.client import Client
from kpybroker.client.dead_letters import DeadLetter
from kpybroker.client.share_member import ACKNOWLEDGEMENTS, ShareGroupReader
from kpywire.record import Record


@click.group(name="share", cls=Commands)
def command() -> None:
    """Read as a member of a share group, and see what it could not read."""


@command.command()
@click.argument("group", metavar="GROUP", shell_complete=completion.groups)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=completion.topics)
@click.option(
    "--ack",
    "answer",
    type=click.Choice(list(ACKNOWLEDGEMENTS)),
    default="accept",
    show_default=True,
    help="How each printed record is acknowledged: accepted, released for another delivery, or rejected for good.",
)
@click.option("-c", "--count", type=click.IntRange(1), metavar="N", help="End after this number of records.")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="MS", help="End when no record has come for this time.")
@click.option("-f", "--format", "layout", metavar="FORMAT", help="A format as in kpybroker consume.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr, nothing about the group or outages.")
@json_output
@bootstrap_server
def consume(
    group: str,
    topics: tuple[str, ...],
    answer: str,
    count: int | None,
    timeout_ms: int | None,
    layout: str | None,
    quiet: bool,
    as_json: bool,
    server: str,
) -> None:
    """Print the records that the group shares out to this member, acknowledge them, and wait for more, until Ctrl-C.

    Records that were acquired and not printed are released at the end. A new group begins at the end of its topics,
    unless its config share.auto.offset.reset says otherwise.
    """
    show = show_by(layout, None, show_null=False, as_json=as_json)
    say_line = mute if quiet else say
    timeout_s, settings = admin_settings(click.get_current_context())
    with connected(server, timeout_s, settings, Contact("waiting for it.", say_line)) as client:
        out = Printing(client, show, count, timeout_ms)
        with out.in_time():
            for topic in topics:
                client.topic(topic)
        member = ShareGroupReader(client, group, topics, ACKNOWLEDGEMENTS[answer], math.inf)
        as_member(member, lambda: _read(member, out, say_line), say_line)
        _say_lost(member, say_line)


def _read(member: ShareGroupReader, out: Printing, say_line: Say) -> None:
    out.begin()
    while not out.is_over:
        with out.in_time():
            if member.keep_up():
                owned = " ".join(map(str, member.assigned)) or "nothing"
                say_line(f"Share group {member.group}: reading {owned}")
            out.print(member.poll(out.left), None, member.finish)
        _say_lost(member, say_line)
    out.end(member.patience)


def _say_lost(member: ShareGroupReader, say_line: Say) -> None:
    if member.lost:
        say_line(f"{member.lost} printed records could not be acknowledged in time; they will come again.")
        member.lost = 0


@command.group("dead-letters", cls=Commands)
def dead_letter_commands() -> None:
    """The dead letters of a share group: the records that its members rejected, or that were delivered too often."""


@dead_letter_commands.command("list")
@click.argument("group", metavar="GROUP", shell_complete=completion.groups)
@json_output
@bootstrap_server
def list_letters(group: str, as_json: bool, server: str) -> None:
    """Show the dead letters of GROUP that its dead-letter topic has, with the records that they name."""
    with connected(server) as client:
        found = list(_letters(client, group))
    if as_json:
        show_json(
            [
                {
                    "place": each.place,
                    "timestamp_ms": each.timestamp_ms,
                    "topic": each.source.topic,
                    "partition": each.source.partition,
                    "offset": each.source_offset,
                    "deliveries": each.deliveries,
                    "reason": each.reason,
                    "is_copied": each.has_copy,
                }
                for each in found
            ]
        )
    elif found:
        rows = [
            (each.place, each.source, each.source_offset, each.deliveries, printable(each.reason)) for each in found
        ]
        click.echo(columns(("PLACE", "PARTITION", "OFFSET", "DELIVERIES", "REASON"), rows))
    else:
        click.echo("No dead letters.", err=True)


@dead_letter_commands.command()
@click.argument("group", metavar="GROUP", shell_complete=completion.groups)
@click.argument("places", metavar="[PLACE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All dead letters of the group.")
@bootstrap_server
def replay(group: str, places: tuple[str, ...], every: bool, server: str) -> None:
    """Write records of dead letters again to the partitions that they came from.

    A PLACE is one of those that list shows. The record is read again from its topic; where it is gone, the copy in the
    dead letter counts, if there is one. It keeps the headers of its dead letter. The dead letter stays: a second replay
    writes the record a second time.
    """
    if every == bool(places):
        raise click.UsageError("Name the places of dead letters, or say --all")
    with connected(server) as client:
        known = list(_letters(client, group))
        missing = sorted(set(places) - {each.place for each in known})
        if missing:
            raise click.ClickException(f"There is no dead letter of {group} at {', '.join(missing)}")
        wanted = [each for each in known if every or each.place in places]
        gone: list[DeadLetter] = []
        found = ((each, record) for each in wanted if (record := _original(client, each, gone)) is not None)
        for each in dead_letters.replay(client, found):
            click.echo(printable(f"{each.place}: {each.source} offset {each.source_offset} was written again"))
    for each in gone:
        where = f"{each.source} offset {each.source_offset}"
        click.echo(printable(f"{each.place}: {where} is gone, and was not copied"), err=True)
    if gone:
        raise click.ClickException(f"{plural(len(gone), 'record')} of {len(wanted)} could not be written again")
    if not wanted:
        click.echo("No dead letters.", err=True)


def _letters(client: Client, group: str) -> Iterable[DeadLetter]:
    topic = client.retrying(lambda: dead_letters.topic_of(client, group))
    if topic is None:
        raise click.ClickException(f"{group} has no dead-letter topic: {dead_letters.NAME} is not set")
    return dead_letters.letters(client, topic, group)


def _original(client: Client, letter: DeadLetter, gone: list[DeadLetter]) -> Record | None:
    record = client.retrying(lambda: dead_letters.original(client, letter))
    if record is None:
        gone.append(letter)
    return record
