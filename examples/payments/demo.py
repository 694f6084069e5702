"""The story of the payments: who sells, what is killed meanwhile, and whether each total is exact to the cent."""

import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
from kafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from examples.payments import BALANCES_TOPIC, PAYMENTS_TOPIC, reading
from examples.payments.baskets import Total, Totals, expected
from examples.payments.supervisor import Blow, Broker, Chaos, Hopeless, Program

TILLS = 2
BASKETS_PER_SECOND = 5.0
LAST_RUN_S = 240.0
LAST_RUN_TRIES = 3


@click.command()
@click.option("--seconds", type=click.IntRange(5), default=60, show_default=True, help="The least time of selling.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of what is killed, and when.")
@click.option("--pause", type=click.FloatRange(1), default=5.0, show_default=True, help="Mean seconds between kills.")
def main(seconds: int, seed: int, pause: float) -> None:
    """Payments through the broker and Spark while all of them are killed and restarted; exact totals at the end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and so end what was started
    console = Console()
    baskets = int(seconds * BASKETS_PER_SECOND)
    try:
        with tempfile.TemporaryDirectory(prefix="payments-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
            directory = Path(name)
            broker = Broker(directory)
            stack.callback(broker.stop)
            broker.start()
            reading.create_topics(broker.address, TILLS)
            console.print(f"Broker at [b]{broker.address}[/b]; {TILLS} tills sell {baskets} baskets each")
            play(broker, baskets, Raging(seconds, seed, pause), directory, stack, console)
            exact = show(broker.address, expected(TILLS, baskets), console)
    except (Hopeless, KafkaError) as problem:
        raise click.ClickException(str(problem)) from None
    sys.exit(0 if exact else 1)


class Raging:
    """How long and how hard everything is restarted."""

    def __init__(self, seconds: int, seed: int, pause_s: float) -> None:
        self.seed = seed
        self.pause_s = pause_s
        self.at_most_s = 120.0 + 10.0 * seconds


def module(name: str, *options: str) -> list[str]:
    """The command line of one of this package's programs."""
    return [sys.executable, "-m", f"examples.payments.{name}", *options]


def play(broker: Broker, baskets: int, raging: Raging, directory: Path, stack: ExitStack, console: Console) -> None:
    """Everything at once until the tills have sold all, then Spark alone until it has read all. Raises Hopeless."""
    address = ("--bootstrap-server", broker.address)
    sells = ("--baskets", str(baskets), "--per-second", str(BASKETS_PER_SECOND))
    tills = [
        Program(f"till {till}", module("till", *address, "--till", str(till), *sells), directory)
        for till in range(TILLS)
    ]
    of_spark = module("balances", *address, "--directory", str(directory / "spark"))
    commits = directory / "spark" / "checkpoint" / "commits"
    spark = Program("Spark", of_spark, directory, works=lambda: sorted(commits.glob("[0-9]*")))
    for program in (*tills, spark):
        stack.callback(program.stop)
        program.start()

    def notified(blow: Blow) -> None:
        console.print(f"{blow.after_s:6.1f} s  {blow.program} ended by {blow.signal.name} and started again")

    chaos = Chaos([broker, *tills, spark], raging.seed, raging.pause_s)
    chaos.rage(lambda: all(till.done for till in tills), raging.at_most_s, notified)
    spark.stop()
    with console.status("All is sold; Spark goes on from its checkpoint to the end"):
        finish(Program("Spark at last", [*of_spark, "--to-the-end"], directory), stack)


def finish(program: Program, stack: ExitStack) -> None:
    """Run a program to its good end. Raises Hopeless."""
    stack.callback(program.stop)
    for _ in range(LAST_RUN_TRIES):
        program.start()
        deadline_s = time.monotonic() + LAST_RUN_S
        while not (program.done or program.failed) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        if program.done:
            return
        program.stop()
    raise Hopeless(f"{program.name} does not come to its end:{program.tail()}")


def show(address: str, right: Totals, console: Console) -> bool:
    """The table of totals, and whether they are exact. Raises KafkaError."""
    found = reading.newest_balances(address)
    sent, counted = (reading.count(address, PAYMENTS_TOPIC, level) for level in ("read_uncommitted", "read_committed"))
    updates = reading.count(address, BALANCES_TOPIC, "read_uncommitted")
    console.print(f"{sent:,} payments were sent, {counted:,} of them in transactions that were committed")
    console.print(f"{updates:,} records of balances, the newest of each account in this table")
    console.print(table(found, right))
    return verdict(found, right, counted, console)


def verdict(found: Totals, right: Totals, counted: int, console: Console) -> bool:
    """Whether the balances are right, and the topic holds each payment once; says so."""
    payments = sum(total.payments for total in right.values())
    wrong = sorted(account for account in found.keys() | right.keys() if found.get(account) != right.get(account))
    if wrong:
        console.print(f"[red]Not exact: {', '.join(wrong)}[/red]")
    elif counted != payments:
        console.print(f"[red]Not exact: {counted:,} payments were committed, and {payments:,} made[/red]")
    else:
        console.print(f"[green]All {payments:,} payments to {len(right)} accounts count exactly once.[/green]")
    return not wrong and counted == payments


def table(found: Totals, right: Totals) -> Table:
    """Spark's totals beside those that must come out."""
    drawn = Table("account", title="Balances", title_justify="left")
    for heading in ("payments", "Spark's", "total", "Spark's total"):
        drawn.add_column(heading, justify="right")
    for account in sorted(found.keys() | right.keys()):
        must, has = right.get(account, Total()), found.get(account, Total())
        style = None if must == has else "red"
        amounts = (f"{must.payments:,}", f"{has.payments:,}", f"{must.cents / 100:,.2f}", f"{has.cents / 100:,.2f}")
        drawn.add_row(account, *amounts, style=style)
    return drawn
