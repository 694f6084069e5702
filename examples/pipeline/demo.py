"""The story of the pipeline: everything runs at once, then everything is compared with the CSV."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import click
from kafka import KafkaProducer
from kafka.errors import KafkaError
from pyspark.sql import SparkSession
from rich.console import Console

from examples.pipeline import DAILY_TOPIC, FLIGHTS_TOPIC, streaming, tables
from examples.pipeline.page import Batch, Verdict, page
from kpybroker.pipeline.demo import broker, sending
from kpybroker.pipeline.demo.dataset import Daily, DatasetError, Flight, by_day, flights
from kpybroker.pipeline.demo.progress import bar, waiting
from kpybroker.pipeline.demo.story import java_aside
from kpybroker.pipeline.demo.streaming import newest_sums
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.spark.lake import Lake

POISON = (b"this is no flight", b'["nor", "is", "this"]')
LOOK_S = 0.2
PATIENCE_S = 600.0


class Stalled(RuntimeError):
    """A part of the pipeline does not come to its end."""


@click.command()
@click.option("--limit", type=click.IntRange(min=2), help="The number of flights at most.")
@click.option(
    "--page",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("build/pipeline.html"),
    show_default=True,
    help="The file for the page with plots.",
)
def main(limit: int | None, path: Path) -> None:
    """The flights live through producers, Spark, an exactly-once sink, two lake tables, DuckDB and an audit."""
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="pipeline-") as name:
            directory = Path(name)
            second = f"{broker.HOST}:{broker.free_port()}"
            with broker.running(directory, http=second) as address:
                console.print(f"Broker at [b]{address}[/b], its files are lent at [b]{second}[/b]")
                verdicts, text = play(address, directory, limit, console)
    except (broker.BrokerError, sending.TopicsExist, DatasetError, KafkaError, LakeError, Stalled) as problem:
        raise click.ClickException(str(problem)) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for verdict in verdicts:
        colour = "green" if verdict.holds else "red"
        console.print(f"[{colour}]{verdict.what}[/{colour}]: {verdict.detail}", soft_wrap=True)
    console.print(f"The page: {path}", soft_wrap=True)
    sys.exit(0 if all(verdict.holds for verdict in verdicts) else 1)


def play(address: str, directory: Path, limit: int | None, console: Console) -> tuple[list[Verdict], str]:
    """The whole story: the comparisons, and the page."""
    with waiting(console, "Reading the flights from their CSV"):
        every = list(flights())[:limit]
    sending.create_topics(address, (FLIGHTS_TOPIC, DAILY_TOPIC))
    log = directory / "spark.log"
    with java_aside(log):
        with waiting(console, "Starting Spark", log):
            spark = streaming.session(directory)
        try:
            places = tables.tables_in(directory)
            batches = live(spark, every, address, directory, places, console)
            daily = tables.daily_lake(spark, address, places)
            flown = tables.flights_lake(spark, address, places)
            with waiting(console, "Bringing both tables up to their topics' ends"):
                for lake in (flown, daily):
                    list(lake.once())
            return judged(spark, every, address, places, (flown, daily), batches, console)
        finally:
            spark.stop()


def live(
    spark: SparkSession,
    every: list[Flight],
    address: str,
    directory: Path,
    places: tables.Tables,
    console: Console,
) -> list[Batch]:
    """Send, sum up and follow, all at once, until every flight is summed up; the micro-batches."""
    total = len(every) + len(POISON)
    began_s = time.monotonic()
    with sending_all(address, every), following(tables.flights_lake(spark, address, places), console):
        query = streaming.start(spark, address, FLIGHTS_TOPIC, DAILY_TOPIC, directory / "checkpoint")
        batches: dict[int, Batch] = {}
        with bar(console, "Spark sums up what arrives", total) as advance:
            while sum(batch.rows for batch in batches.values()) < total:
                for progress in query.recentProgress:
                    if progress.batchId not in batches and progress.numInputRows:
                        batches[progress.batchId] = Batch(time.monotonic() - began_s, progress.numInputRows)
                        advance(progress.numInputRows)
                if not query.isActive:
                    raise Stalled(f"the streaming query has ended: {query.exception()}")
                if time.monotonic() - began_s > PATIENCE_S:
                    raise Stalled("Spark has not read all flights after ten minutes")
                time.sleep(LOOK_S)
        query.stop()
    return list(batches.values())


@contextmanager
def sending_all(address: str, every: list[Flight]) -> Iterator[None]:
    """Inside the block, two producers send a half each, and a third one what is no flight. Raises KafkaError."""
    half = len(every) // 2
    failures: list[BaseException] = []

    def send(part: list[Flight]) -> None:
        try:
            sending.send(address, FLIGHTS_TOPIC, part, lambda _: None)
        except KafkaError as error:
            failures.append(error)

    threads = [Thread(target=send, args=(part,)) for part in (every[:half], every[half:])]
    for thread in threads:
        thread.start()
    try:
        producer = KafkaProducer(bootstrap_servers=address)
        for value in POISON:
            producer.send(FLIGHTS_TOPIC, value, timestamp_ms=every[0].time_ms).get(30)
        producer.close()
        yield
    finally:
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


@contextmanager
def following(lake: Lake, console: Console) -> Iterator[None]:
    """Inside the block, a table follows its topic. Raises LakeError."""
    stop = Event()
    failures: list[LakeError] = []

    def follow() -> None:
        try:
            for commit in lake.follow(stop, console.print):
                console.print(f"Delta: a commit of {commit.rows:,} rows and {commit.dead} dead letters", soft_wrap=True)
        except LakeError as error:
            failures.append(error)

    thread = Thread(target=follow, name="follows the flights")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def judged(
    spark: SparkSession,
    every: list[Flight],
    address: str,
    places: tables.Tables,
    lakes: tuple[Lake, Lake],
    batches: list[Batch],
    console: Console,
) -> tuple[list[Verdict], str]:
    """All comparisons, and the page that shows them."""
    expected = by_day(every)
    lines: list[str] = []
    with waiting(console, "Comparing all of it with the CSV"):
        found, records = newest_sums(spark, address, DAILY_TOPIC, "kpybroker", "read_committed")
        verdicts = [alike("sums in the topic", found, expected, f"{records:,} committed updates")]
        by_duckdb = tables.daily_by_duckdb(places)
        verdicts.append(alike("sums of the Delta table, by DuckDB", by_duckdb, expected, "DuckDB"))
        verdicts.append(alike("rows of the Iceberg table", tables.daily_of_iceberg(places), expected, "upserted"))
        dead = tables.dead_letters(places.flights)
        lines += [f"dead letter {FLIGHTS_TOPIC}-{place}, offset {offset}: {why}" for place, offset, why in dead]
        verdicts.append(Verdict("dead letters", len(dead) == len(POISON), f"{len(dead)} of {len(POISON)} sent"))
        for name, lake in zip(("Delta table = topic", "Iceberg table = topic"), lakes, strict=True):
            holds, reported = lake.check()
            lines += reported
            verdicts.append(Verdict(name, holds, "offset by offset"))
    with waiting(console, "Auditing the broker"):
        holds, reported = audited(address)
    lines += reported
    verdicts.append(Verdict("audit of all data", holds, reported[-1] if reported else ""))
    return verdicts, page(verdicts, by_duckdb, batches, lines)


def alike(what: str, found: Daily, expected: Daily, detail: str) -> Verdict:
    """Whether all sums are those of the CSV."""
    wrong = [key for key in expected.keys() | found.keys() if found.get(key) != expected.get(key)]
    flown = sum(sums.flights for sums in found.values())
    text = f"{len(expected):,} windows of {flown:,} flights are those of the CSV ({detail})"
    return Verdict(what, not wrong, f"{len(wrong):,} windows differ, first {min(wrong)}" if wrong else text)


def audited(address: str) -> tuple[bool, list[str]]:
    """Whether ``kpybroker audit`` finds nothing, and its lines."""
    done = subprocess.run(
        [broker.program(), "audit", "-b", address], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    return done.returncode == 0, (done.stdout + done.stderr).strip().splitlines()
