"""``kpybroker balance apply``, ``watch`` and ``stop``: a plan is carried out, watched and stopped."""

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TextIO

import click

from kpybroker.cli.metrics_pages import MetricsPages, pages_option
from kpybroker.cli.options import INTERRUPTED, NOT_IN_ORDER, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, plural, show_json
from kpybroker.client import balance_execution, balance_throttles, cluster_load, reassignment_requests
from kpybroker.client.balance_execution import BalanceExecution, ExecutionState, MovesCancelled
from kpybroker.client.balance_throttles import FoundThrottles
from kpybroker.client.client import Client, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.machines.balance.executing import GIB, ExecutionLimits
from kpybroker.machines.balance.pace import MIB, ThrottleRange
from kpybroker.machines.balance.plan_file import NotAPlan, WantedPartition, wanted_in
from kpybroker.machines.balance.words import size_words
from kpybroker.machines.errors import KafkaError

EVERY_S: Final = 1.0
LOOKS_BEFORE: Final = 3
BETWEEN_LOOKS_S: Final = 0.1
NAME_STOP: Final = "kpybroker balance stop removes it"


def plan_in(_context: click.Context, _argument: click.Parameter, file: TextIO | None) -> list[WantedPartition] | None:
    """The partitions of a plan's file; click.BadParameter for another file."""
    if file is None:
        return None
    try:
        return wanted_in(json.load(file))
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, NotAPlan) else "it is not JSON"
        raise click.BadParameter(f"{file.name} is not a plan: {why}") from None


@click.command()
@click.argument("wanted", metavar="PLAN", type=click.File(encoding="utf-8"), callback=plan_in)
@click.option(
    "--throttle",
    type=click.IntRange(1),
    default=20 * MIB,
    show_default=True,
    metavar="BYTES",
    help="The first rate of copies, a second and broker. It then follows what clients feel.",
)
@click.option(
    "--least-throttle",
    type=click.IntRange(1),
    default=MIB,
    show_default=True,
    metavar="BYTES",
    help="The rate does not fall below it.",
)
@click.option(
    "--most-throttle",
    type=click.IntRange(1),
    default=GIB,
    show_default=True,
    metavar="BYTES",
    help="The rate does not rise above it.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1),
    default=10 * GIB,
    show_default=True,
    metavar="BYTES",
    help="The bytes of moves that a broker takes part in at a time.",
)
@click.option(
    "--moves",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="N",
    help="The number of moves that a broker takes part in at a time.",
)
@click.option(
    "--disk-limit",
    type=click.FloatRange(1, 100),
    default=85.0,
    show_default=True,
    metavar="PERCENT",
    help="A move waits that would fill a disk more than that.",
)
@pages_option
@bootstrap_server
def apply(
    wanted: list[WantedPartition],
    throttle: int,
    least_throttle: int,
    most_throttle: int,
    in_flight: int,
    moves: int,
    disk_limit: float,
    urls: Sequence[tuple[str, int]],
    server: str,
) -> None:
    """Carry out a plan, and wait until all is where it is wanted.

    The rate rises while brokers answer as quickly as before and no other partition loses a replica in sync, and falls
    otherwise. Ctrl-C stops at once: moves that are under way are cancelled, and no throttle is left behind. After a
    crash, the same command continues.
    """
    limits, rates = ExecutionLimits(in_flight, moves), ThrottleRange(throttle, least_throttle, most_throttle)
    pages = MetricsPages(urls) if urls else None
    with connected(server) as client, stopped_by_signals():
        free = _free_bytes(client, disk_limit / 100)
        latency = None if pages is None else pages.latency_ms
        execution = BalanceExecution(client, wanted, limits, rates, free, latency)
        try:
            _run(client, execution)
            elected = execution.elect()
        except KeyboardInterrupt:
            cancelled = execution.cancel()
            _clean(client, wanted)
            click.echo(f"Stopped: {plural(cancelled, 'move')} cancelled. No throttle is left.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except MovesCancelled as error:
            _clean(client, wanted)
            raise click.ClickException(f"{error}. No throttle is left.") from None
        except KafkaError:
            _clean(client, wanted)
            raise
        except Unreachable as error:
            click.echo(f"The throttle may be left: {NAME_STOP}.", err=True)
            raise error from None
        _clean(client, wanted)
    led = f", {plural(elected, 'leader')} elected" * bool(elected)
    click.echo(f"{plural(len(wanted), 'partition')} where the plan wants them{led}. No throttle is left.")


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM stop the block as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(client: Client, execution: BalanceExecution) -> None:
    for _ in range(LOOKS_BEFORE):
        client.retrying(execution.before)
        time.sleep(BETWEEN_LOOKS_S)
    shown = ""
    while True:
        began = time.monotonic()
        state = client.retrying(execution.step)
        shown = _show(state, shown)
        if execution.is_finished:
            break
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))
    if shown and sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


def _show(state: ExecutionState, before: str) -> str:
    """Show a state on one line of a terminal; elsewhere a line for each partition count."""
    felt = ", held back: clients feel it" * state.is_felt
    counted = f"{state.finished} of {plural(state.total, 'partition')}, {state.under_way} under way"
    text = f"{counted}, {size_words(state.left_bytes)} left, at most {size_words(state.rate)}/s a broker{felt}"
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)
    elif not before.startswith(counted):
        click.echo(text, err=True)
    return text


def _clean(client: Client, wanted: Sequence[WantedPartition] | None) -> None:
    """Remove the throttles of a plan, of all moves without one; ClickException if a read still finds any."""
    left = client.retrying(lambda: balance_execution.end(client, wanted))
    if not left.is_empty:
        raise click.ClickException(f"a throttle is left; {NAME_STOP}. {left.lines()[0]}")


def _free_bytes(client: Client, disk_limit: float) -> dict[int, int]:
    """The bytes that may still be written to the disks of brokers below the limit, where they are known."""
    found = {}
    for node in client.nodes():
        disks = cluster_load.disks_of(client, node.node_id, ())
        if disks.total_bytes > 0:
            found[node.node_id] = int(disk_limit * disks.total_bytes) - (disks.total_bytes - disks.usable_bytes)
    return found


@click.command()
@click.argument("wanted", metavar="[PLAN]", required=False, type=click.File(encoding="utf-8"), callback=plan_in)
@bootstrap_server
def stop(wanted: list[WantedPartition] | None, server: str) -> None:
    """Cancel the moves of a plan, or all that are under way, and remove their throttles.

    Replicas stay where they were before. Rates of single brokers and entries of single replicas are removed, also those
    that other tools have set; a rate for all brokers and the entry * stay.
    """
    with connected(server) as client:
        places = None if wanted is None else {(each.topic, each.partition) for each in wanted}
        spots = [each for each in balance_execution.moving_spots(client) if places is None or tuple(each) in places]
        cancelled = balance_execution.cancel(client, spots)
        _clean(client, wanted)
    click.echo(f"{plural(cancelled, 'move')} cancelled. No throttle is left.")


@click.command()
@click.option("--once", is_flag=True, help="Show it once, and do not wait until nothing moves.")
@click.option("--interval", "interval_s", type=click.FloatRange(0.1), default=2.0, show_default=True, metavar="SECONDS")
@json_output
@bootstrap_server
def watch(once: bool, interval_s: float, as_json: bool, server: str) -> None:
    """Show the partitions that move and how far they are, until nothing moves.

    The exit code is 4 if a throttle is left when nothing moves.
    """
    with connected(server) as client:
        while True:
            rows = moving_rows(client)
            _print_rows(client, rows, as_json=as_json)
            if once or not rows:
                break
            time.sleep(interval_s)
            if sys.stdout.isatty():
                click.echo(f"\x1b[{len(rows) + 2}A\x1b[J", nl=False)
        left = balance_throttles.found(client) if not rows else FoundThrottles({}, {})
    if not left.is_empty:
        click.echo("\n".join(f"A throttle is left: {line}" for line in left.lines()), err=True)
        click.echo("kpybroker balance stop removes what is left; kpybroker balance apply continues its plan.", err=True)
        raise SystemExit(NOT_IN_ORDER)


def _print_rows(client: Client, rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        show_json(list(rows))
    elif not rows:
        click.echo("No partition moves.", err=True)
    else:
        cells = [(*list(each.values())[:4], *map(_size_cell, list(each.values())[4:])) for each in rows]
        click.echo(columns(("TOPIC", "PARTITION", "ADDING", "REMOVING", "SIZE", "LEFT"), cells))
        rates = {rate for each in balance_throttles.found(client).brokers.values() for rate in each.values()}
        left = size_words(sum(each["left_bytes"] for each in rows))
        held = f", throttle {', '.join(f'{size_words(int(each))}/s' for each in sorted(rates))}" * bool(rates)
        click.echo(f"{plural(len(rows), 'partition')}, {left} left{held}")


def _size_cell(count: int) -> str:
    return size_words(count)


def moving_rows(client: Client) -> list[dict[str, Any]]:
    """The partitions that move, with the bytes of a replica and those that are left to copy. Raises KafkaError."""
    moving = reassignment_requests.moving(client)
    alive = {node.node_id for node in client.nodes()}
    spots: dict[int, set[Spot]] = {}
    for each in moving:
        for node in {*each.replicas} & alive:
            spots.setdefault(node, set()).add(each.spot)
    sizes = {node: cluster_load.disks_of(client, node, wanted).sizes for node, wanted in spots.items()}
    rows = []
    for each in moving:
        size = max((sizes.get(node, {}).get(each.spot, 0) for node in each.replicas), default=0)
        left = sum(size - sizes.get(node, {}).get(each.spot, 0) for node in each.adding)
        rows.append(
            {
                "topic": each.spot.topic,
                "partition": each.spot.partition,
                "adding": ",".join(map(str, each.adding)) or "-",
                "removing": ",".join(map(str, each.removing)) or "-",
                "size_bytes": size,
                "left_bytes": left,
            }
        )
    return rows
