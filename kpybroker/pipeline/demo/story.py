"""The story of the flights: what is sent, summed up and shown, and whether Spark's sums are those of the CSV."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import click
from kafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from kpybroker.pipeline.demo import DAILY_TOPIC, FLIGHTS_TOPIC, broker, sending
from kpybroker.pipeline.demo.dataset import Daily, DatasetError, Flight, Sums, by_day, flights
from kpybroker.pipeline.demo.progress import bar, waiting

LOG_LINES = 30
WORST_DAYS = 8


def run(bootstrap_server: str | None, limit: int | None) -> bool:
    """Play the story, on a broker of its own if none is given; whether the sums agree. Raises click.ClickException."""
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="flights-") as name:
            directory = Path(name)
            with nullcontext(bootstrap_server) if bootstrap_server else broker.running(directory) as address:
                console.print(f"Broker at [b]{address}[/b]")
                return play(address, directory, limit, console)
    except (broker.BrokerError, sending.TopicsExist, DatasetError, KafkaError) as problem:
        raise click.ClickException(str(problem)) from None


@contextmanager
def java_aside(log: Path) -> Iterator[None]:
    """Send Java's stderr to a file; if the demo fails, the end of it is shown."""
    terminal = os.dup(2)
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 2)
    failed = True
    try:
        yield
        failed = False
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        if failed:
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            sys.stderr.write("".join(f"  | {line}\n" for line in lines))


def play(address: str, directory: Path, limit: int | None, console: Console) -> bool:
    """The whole story; whether the sums agree."""
    with waiting(console, "Reading the flights from their CSV"):
        every = list(flights())[:limit]
    sending.create_topics(address, (FLIGHTS_TOPIC, DAILY_TOPIC))
    log = directory / "spark.log"
    with java_aside(log):
        found, records = stream(every, address, directory, log, console)
    expected = by_day(every)
    console.print(f"{records:,} updates of {len(found):,} windows in the topic {DAILY_TOPIC}")
    console.print(worst_days(found))
    console.print(airports(found, expected))
    return verdict(found, expected, console)


def stream(every: list[Flight], address: str, directory: Path, log: Path, console: Console) -> tuple[Daily, int]:
    """Produce one half, let Spark sum it up, produce the other, let Spark go on; what is in the topic of sums then."""
    from kpybroker.pipeline.demo import streaming

    half = len(every) // 2
    with waiting(console, "Starting Spark", log):
        spark = streaming.session(directory)
    try:
        sums = streaming.daily_sums(spark, address, FLIGHTS_TOPIC)
        for part, does in ((every[:half], "sums up by day"), (every[half:], "goes on from its checkpoint")):
            with bar(console, "kafka-python produces", len(part)) as advance:
                sending.send(address, FLIGHTS_TOPIC, part, advance)
            with bar(console, f"Spark {does}", len(part)) as advance:
                streaming.run(sums, address, DAILY_TOPIC, directory / "checkpoint", advance)
        with waiting(console, "Reading the sums back"):
            return streaming.newest_sums(spark, address, DAILY_TOPIC)
    finally:
        spark.stop()


def worst_days(daily: Daily) -> Table:
    """The windows with the longest mean delay of the flights that did leave."""
    table = Table("day (UTC)", "airport", title="The days to have stayed in bed", title_justify="left")
    for heading in ("flights", "cancelled", "mean delay, min"):
        table.add_column(heading, justify="right")

    def mean_delay(sums: Sums) -> float:
        return sums.delay / max(1, sums.flights - sums.cancelled)

    worst = sorted(daily.items(), key=lambda item: mean_delay(item[1]), reverse=True)
    for (day, origin), sums in worst[:WORST_DAYS]:
        date = datetime.fromtimestamp(day / 1000, UTC).strftime("%a %d %b %Y")
        table.add_row(date, origin, f"{sums.flights:,}", f"{sums.cancelled:,}", f"{mean_delay(sums):.0f}")
    return table


def airports(found: Daily, expected: Daily) -> Table:
    """Spark's totals beside the CSV's."""
    table = Table("airport", "", title="Totals", title_justify="left")
    for heading in Sums._fields:
        table.add_column(heading, justify="right")
    for origin in sorted({origin for _, origin in expected}):
        for name, daily in (("Spark", found), ("CSV", expected)):
            total = Sums()
            for (_, airport), sums in daily.items():
                total = total.plus(sums) if airport == origin else total
            table.add_row(origin, name, *(f"{value:,}" for value in total), end_section=name == "CSV")
    return table


def verdict(found: Daily, expected: Daily, console: Console) -> bool:
    """Whether every window has exactly the CSV's sums; says so."""
    wrong = [key for key in expected.keys() | found.keys() if found.get(key) != expected.get(key)]
    if not wrong:
        flown = sum(sums.flights for sums in found.values())
        console.print(
            f"[green]All {len(expected):,} windows of {flown:,} flights are exactly those of the CSV.[/green]"
        )
        return True
    day, origin = min(wrong)
    date = datetime.fromtimestamp(day / 1000, UTC).date()
    console.print(f"[red]{len(wrong):,} of {len(expected):,} windows differ from the CSV[/red], first {date} {origin}:")
    console.print(f"  Spark {found.get((day, origin))}\n  CSV   {expected.get((day, origin))}")
    return False
