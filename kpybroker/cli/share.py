"""``kpybroker share``: read as a member of a share group, and accept, release or reject each record."""

import math

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.client_settings import admin_settings
from kpybroker.cli.consume import Printing, as_member, show_by
from kpybroker.cli.contact import Contact, Say, mute, say
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.client.share_member import ACKNOWLEDGEMENTS, ShareMember


@click.group(name="share", cls=Commands)
def command() -> None:
    """Read as a member of a share group."""


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
        member = ShareMember(client, group, topics, ACKNOWLEDGEMENTS[answer], math.inf)
        as_member(member, lambda: _read(member, out, say_line), say_line)
        _say_lost(member, say_line)


def _read(member: ShareMember, out: Printing, say_line: Say) -> None:
    out.begin()
    while not out.is_over:
        with out.in_time():
            if member.keep_up():
                owned = " ".join(map(str, member.assigned)) or "nothing"
                say_line(f"Share group {member.group}: reading {owned}")
            out.print(member.poll(out.left), None, member.finish)
        _say_lost(member, say_line)
    out.end(member.patience)


def _say_lost(member: ShareMember, say_line: Say) -> None:
    if member.lost:
        say_line(f"{member.lost} printed records could not be acknowledged in time; they will come again.")
        member.lost = 0
