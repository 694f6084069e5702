"""``kpybroker balance``: plans of moves for any Kafka cluster, written to a file; their execution is
`kpybroker.cli.balance_running`."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from kpybroker.cli import Commands
from kpybroker.cli.metrics_pages import MetricsPages, pages_option
from kpybroker.cli.options import NOT_IN_ORDER, Command, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, plural, printable, show_json
from kpybroker.client import cluster_load
from kpybroker.client.client import Client
from kpybroker.client.cluster_load import MeasuredCluster
from kpybroker.machines.balance.explaining import explained, left_alone
from kpybroker.machines.balance.goals import BalanceGoals, MoveReason, Resource
from kpybroker.machines.balance.hot import HotPartition
from kpybroker.machines.balance.plan_file import document
from kpybroker.machines.balance.planner import BalancePlan, plan
from kpybroker.machines.balance.words import size_words
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

SHOWN_MOVES: Final = 20
OWN_MODULES: Final = {
    **dict.fromkeys(("apply", "watch", "stop"), "balance_running"),
    "advice": "balance_advice",
    "directories": "balance_directories",
    "why": "balance_why",
}
WORDS: Final = {Resource.DISK: "bytes", Resource.IN: "incoming traffic", Resource.OUT: "outgoing traffic"}


@click.group(name="balance", cls=Commands, modules=OWN_MODULES)
def command() -> None:
    """Plan moves of replicas and leaders that balance a cluster, and carry them out.

    A plan is a file that people edit; kafka-reassign-partitions reads it too.
    """


class PlanningOptions(NamedTuple):
    """The options of all commands that plan."""

    tolerance: float
    disk_limit: float
    idle_disk: float
    sample_s: float
    as_json: bool
    urls: Sequence[tuple[str, int]]
    path: Path | None = None
    every: bool = False
    explain: bool = False

    def goals(self, only: Iterable[MoveReason], **others: Any) -> BalanceGoals:
        """The goals of the options, which are percents."""
        parts = (self.tolerance / 100, self.disk_limit / 100, self.idle_disk / 100)
        return BalanceGoals(*parts, only=frozenset(only), **others)


SEARCHING: Final = (
    click.option(
        "--tolerance",
        type=click.FloatRange(0, 100),
        default=10.0,
        show_default=True,
        metavar="PERCENT",
        help="A broker may be above its share by that much.",
    ),
    click.option(
        "--disk-limit",
        type=click.FloatRange(1, 100),
        default=85.0,
        show_default=True,
        metavar="PERCENT",
        help="No step of the plan fills a disk more than that.",
    ),
    click.option(
        "--idle-disk",
        type=click.FloatRange(0, 100),
        default=20.0,
        show_default=True,
        metavar="PERCENT",
        help="A disk filled less than that is no reason for a move.",
    ),
    click.option(
        "--sample",
        "sample_s",
        type=click.FloatRange(0),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="Watch logs grow for that long: it is the traffic. 0: only sizes count.",
    ),
)
"""The options of the search for a plan."""
_OPTIONS: Final = (
    click.option(
        "-o",
        "--output",
        "path",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the plan to this file.",
    ),
    *SEARCHING,
    click.option("--all", "every", is_flag=True, help=f"Print all moves, and not only {SHOWN_MOVES}."),
    click.option("--explain", is_flag=True, help="Also show each goal before and after, and what is left alone."),
)


def planning(options: Iterable[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """The options of a command that plans, given to it as one value."""

    def decorated(command: Command) -> Command:
        @wraps(command)
        def gathered(**values: Any) -> Any:
            own = {name: values.pop(name) for name in PlanningOptions._fields if name in values}
            return command(PlanningOptions(**own), **values)

        wrapped: Command = pages_option(json_output(gathered))
        for option in reversed([*options]):
            wrapped = option(wrapped)
        return wrapped

    return decorated


BALANCED: Final = frozenset(MoveReason) - {MoveReason.GONE}
"""The goals of a plan; replicas of brokers that are gone stay theirs, since most come back."""


@command.command("plan")
@planning(_OPTIONS)
@click.option("--replace-gone", is_flag=True, help="Also give replicas of brokers that are gone to others.")
@bootstrap_server
def plan_(options: PlanningOptions, replace_gone: bool, server: str) -> None:
    """Plan the moves that balance a cluster, with the reason of each. Nothing moves.

    In this order: every rack, disks below the limit, new brokers, bytes on disks, traffic, leaders, numbers of
    replicas, and then as few bytes as possible. Leaders move first, since they need no data.
    """
    with connected(server) as client:
        measured = measured_by(client, options, may_replace_gone=replace_gone)
    _finish(measured, options, options.goals(MoveReason if replace_gone else BALANCED))


@command.command()
@click.argument("brokers", metavar="BROKER...", nargs=-1, required=True, type=click.IntRange(0))
@planning(_OPTIONS)
@bootstrap_server
def drain(options: PlanningOptions, brokers: tuple[int, ...], server: str) -> None:
    """Plan the moves after which brokers are empty, so that they can be removed. Nothing moves.

    Brokers that are gone may be named too. The partitions with the fewest replicas in sync come first.
    """
    with connected(server) as client:
        measured = measured_by(client, options, may_replace_gone=True)
        _check_known(measured, brokers)
    found = _finish(measured, options, options.goals((MoveReason.LEAVING,), leaving=frozenset(brokers)))
    left = sum(round(each.after[Resource.REPLICAS]) for each in found.nodes if each.id in brokers)
    if left:
        click.echo(
            f"{plural(left, 'replica')} cannot leave now: each other broker has one already or has no room, or a "
            "replica is not in sync.",
            err=True,
        )
        raise SystemExit(NOT_IN_ORDER)


@command.command()
@click.argument("brokers", metavar="BROKER...", nargs=-1, required=True, type=click.IntRange(0))
@planning(_OPTIONS)
@bootstrap_server
def join(options: PlanningOptions, brokers: tuple[int, ...], server: str) -> None:
    """Plan the moves that give new brokers their share, from the fullest ones. Nothing moves."""
    with connected(server) as client:
        measured = measured_by(client, options)
        _check_known(measured, brokers)
    only = (MoveReason.JOINING, MoveReason.LEADERS, MoveReason.OUT)
    _finish(measured, options, options.goals(only, joining=frozenset(brokers)))


def measured_by(client: Client, options: PlanningOptions, *, may_replace_gone: bool = False) -> MeasuredCluster:
    """The load of a cluster, with the traffic of consumers where pages have it. Raises KafkaError, Unreachable."""
    sent = MetricsPages(options.urls).sent if options.urls else None
    return cluster_load.measure(client, options.sample_s, sent, may_replace_gone=may_replace_gone)


def _check_known(measured: MeasuredCluster, brokers: Iterable[int]) -> None:
    for each in brokers:
        if each not in measured.model.places:
            raise KafkaError(error_codes.BROKER_NOT_AVAILABLE, f"there is no broker {each}")


def _finish(measured: MeasuredCluster, options: PlanningOptions, goals: BalanceGoals) -> BalancePlan:
    """Make a plan, write it to its file, and show it."""
    found = plan(measured.model, goals)
    text = document(found, measured.cluster_id)
    if options.path is not None:
        try:
            options.path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{options.path} cannot be written: {error.strerror}") from None
    if options.as_json:
        show_json(text)
        return found
    click.echo(nodes_table(found))
    click.echo("\n".join(lines_of(found, None if options.every else SHOWN_MOVES)))
    if options.explain:
        click.echo("\n".join(explanation(found)))
    if options.path is not None and found.moves:
        click.echo(f"Written to {options.path}. To carry it out: kpybroker balance apply {options.path}")
    return found


def nodes_table(found: BalancePlan) -> str:
    """The brokers before and after a plan."""
    rows = []
    for node, load in zip(found.arrangement.model.nodes, found.nodes, strict=True):
        cells: list[object] = [node.id, node.rack or "-"]
        for resource in Resource:
            shown = size_words if resource in WORDS else str
            cells.append(_both(*(shown(round(each[resource])) for each in (load.before, load.after))))
        rows.append(cells)
    return columns(("BROKER", "RACK", "BYTES", "IN/S", "OUT/S", "LEADERS", "REPLICAS"), rows)


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def lines_of(found: BalancePlan, most: int | None) -> Iterator[str]:
    """The moves of a plan with their reasons, hot partitions, and the sum."""
    for each in found.moves[:most]:
        yield printable(each.text)
    if most is not None and len(found.moves) > most:
        yield f"... and {len(found.moves) - most} more (--all)"
    for hot in found.hot:
        yield printable(_hot_line(hot))
    if found.deferred:
        yield f"{plural(len(found.deferred), 'move')} would fill a disk above its limit now; plan again afterwards."
    if not found.moves:
        yield "Nothing has to move."
        return
    leaders = sum(not each.added for each in found.moves)
    yield (
        f"{plural(len(found.moves) - leaders, 'move')} of {size_words(found.moved_bytes)} in all, "
        f"and {plural(leaders, 'leader')} without data."
    )


def explanation(found: BalancePlan) -> Iterator[str]:
    """The goals before and after a plan, the moves that have no room yet, and the partitions that are left alone."""
    yield columns(("GOAL", "BEFORE", "AFTER"), explained(found))
    for each in found.deferred:
        yield printable(f"No room yet: {each.text}")
    held = left_alone(found)
    if held:
        more = f" and {len(held) - SHOWN_MOVES} more" * (len(held) > SHOWN_MOVES)
        yield printable(f"Left alone, they move or lack a replica in sync: {', '.join(held[:SHOWN_MOVES])}{more}")


def _hot_line(hot: HotPartition) -> str:
    part, ceiling = size_words(round(hot.part)), size_words(round(hot.ceiling))
    per = "" if hot.resource is Resource.DISK else "/s"
    return (
        f"HOT {hot.name}: {part}{per} of {WORDS[hot.resource]}, {100 * hot.of_node:.0f} % of broker {hot.node}; a "
        f"broker should have {ceiling}{per} in all. No placement helps: give the topic more partitions."
    )
