"""The figures that README.md shows: one results file is kept in the project, table and pictures are made from it.

    python -m benchmarks.readme                          # write table and pictures from docs/figures/results.json
    python -m benchmarks.readme --take build/bench/readme    # first make that file of the rows that were played there

``make readme-figures`` plays the rows and takes them. Which figures are shown is settled here, before they are
measured: those that are worse than Apache Kafka's are shown like all others, and each of them is in the table too.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from benchmarks import CHECKOUT
from benchmarks.figures import REQUIRED_RATIO, Comparison, Figure, spread
from benchmarks.plots.beside import DARK, LIGHT, Bar, Picture, drawn

PLACE: Final = CHECKOUT / "docs" / "figures"
RESULTS: Final = PLACE / "results.json"
PAPERS: Final = {"ratios-light.svg": LIGHT, "ratios-dark.svg": DARK}
README: Final = CHECKOUT / "README.md"
TABLE: Final = re.compile(r"(?<=<!-- figures: made by `make tables` -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
LONGER: Final = {"µs": "ms", "ms": "s"}


class Choice(NamedTuple):
    """A figure of a row that README.md shows, and what it is called there."""

    label: str
    row: str
    figure: str
    in_table: bool = False


CHOSEN: Final[Mapping[str, Sequence[Choice]]] = {
    "Throughput": (
        Choice("produce 100 B records, librdkafka", "produce-confluent-100", "throughput"),
        Choice("produce 1 KB records, librdkafka", "produce-confluent-1000", "throughput", in_table=True),
        Choice("produce 1 KB records, Java, acks=all", "produce-java-1000", "throughput"),
        Choice("consume 100 B records, librdkafka", "consume-confluent-100", "throughput"),
        Choice("consume 1 KB records, librdkafka", "consume-confluent-1000", "throughput", in_table=True),
        Choice("consume 1 KB records, Java", "consume-java-1000", "throughput"),
        Choice("consume by one raw connection", "drain", "throughput"),
        Choice("small produce requests, 1 client", "small-requests-1", "throughput"),
        Choice("small produce requests, 50 clients", "small-requests-50", "throughput", in_table=True),
        Choice("small produce requests, 1 000 clients", "small-requests-1000", "throughput"),
        Choice("offset commits, 50 clients", "commit-50", "throughput"),
        Choice("transactions, 10 producers", "transactions-10-1", "throughput", in_table=True),
        Choice("Spark: batch scan", "spark", "batch scan"),
        Choice("Spark: sink", "spark", "sink"),
    ),
    "Time": (
        Choice("acknowledged, p50", "round-trip", "p50"),
        Choice("acknowledged, p99", "round-trip", "p99", in_table=True),
        Choice("producer to waiting consumer, p50", "end-to-end", "p50"),
        Choice("producer to waiting consumer, p99", "end-to-end", "p99", in_table=True),
        Choice("rebalance of 20 members", "rebalance-20", "rebalance, p50"),
        Choice("rebalance of 1 000 members", "rebalance-1000", "rebalance, p50"),
        Choice("start to the first answer", "lifecycle", "start to first answer", in_table=True),
        Choice("clean stop", "lifecycle", "clean stop"),
        Choice(
            "start after SIGKILL, 1 000 partitions",
            "restart-partitions-1000",
            "start to all partitions answering, after SIGKILL",
        ),
    ),
    "Cost": (
        Choice("broker CPU, produce 1 KB records", "produce-confluent-1000", "broker CPU"),
        Choice("broker CPU, consume 1 KB records", "consume-confluent-1000", "broker CPU"),
        Choice("broker CPU, small produce requests", "small-requests-50", "broker CPU"),
        Choice("memory when idle", "lifecycle", "RSS idle", in_table=True),
        Choice("memory after all of this", "loaded-memory", "RSS loaded"),
    ),
}
ROWS: Final = tuple(dict.fromkeys(choice.row for group in CHOSEN.values() for choice in group))

Found = Mapping[Choice, Comparison]


class Published(NamedTuple):
    """One run of the rows: its figures and what they depend on."""

    found: Found
    versions: tuple[str, str]
    machine: str
    dates: str
    commit: str
    rounds: str
    """The number of rounds, and how long they were."""
    calmness: str
    """The number of rounds that met a slow machine, in words; empty where none did."""

    @property
    def around(self) -> str:
        """Machine, date and commit in one line, and whether it was the compiled form."""
        form = "compiled" if self.versions[1].endswith("compiled") else "pure Python"
        return f"{self.machine}; {self.dates}; commit {self.commit}, {form}"


class NotPlayedError(Exception):
    """A row is missing, failed, or was played in another run than the others."""


def choices() -> Iterator[Choice]:
    return (choice for group in CHOSEN.values() for choice in group)


def parsed(read: Mapping[str, Any]) -> Published:
    """The content of the results file. Raises KeyError where a figure is missing."""
    values = {(each["row"], each["figure"]): each for each in read["figures"]}
    found: dict[Choice, Comparison] = {}
    for choice in choices():
        each = values[choice.row, choice.figure]
        figure = Figure(each["figure"], each["unit"], each["more_is_better"])
        found[choice] = Comparison(choice.label, figure, tuple(each["a"]), tuple(each["b"]))
    around = {name: read[name] for name in Published._fields if name not in ("found", "versions")}
    return Published(found, (read["versions"][0], read["versions"][1]), **around)


def written(published: Published) -> str:
    """The text of the results file."""
    around = {name: value for name, value in published._asdict().items() if name != "found"}
    figures = [
        {"row": choice.row, **comparison.figure._asdict(), "a": comparison.a, "b": comparison.b}
        for choice, comparison in published.found.items()
    ]
    for each in figures:
        each["figure"] = each.pop("name")
    lines = ",\n  ".join(json.dumps(each) for each in figures)
    head = json.dumps(around, indent=1, ensure_ascii=False).removesuffix("\n}")
    return f'{head},\n "figures": [\n  {lines}\n ]\n}}\n'


def table(published: Published) -> str:
    """The rows of the table and whatever is slower than required, with machine and date."""
    kafka = published.versions[0]
    lines = [f"| | {kafka} | kpybroker | ratio |", "|---|---:|---:|---:|"]
    for choice, comparison in published.found.items():
        if choice.in_table or comparison.ratios.median < REQUIRED_RATIO:
            a, b = (
                written_out(readable(spread(side).median, comparison.figure.unit))
                for side in (comparison.a, comparison.b)
            )
            lines.append(f"| {choice.label} | {a} | {b} | {ratio_text(comparison.ratios.median)} |")
    reported = f"{published.around}. {published.rounds}. {published.calmness}".rstrip()
    return "\n".join([*lines, "", reported, ""])


def picture(published: Published) -> Picture:
    groups = [
        (heading, [bar(choice, published.found[choice]) for choice in group]) for heading, group in CHOSEN.items()
    ]
    kafka = published.versions[0]
    return Picture(
        f"kpybroker beside {kafka}",
        f"How many times better kpybroker is, and what was measured: {kafka} → kpybroker. Left of “equal” it is worse.",
        groups,
        (
            f"{published.around}.",
            f"{published.rounds}; thin lines are their range. {published.calmness}".rstrip(),
        ),
    )


def bar(choice: Choice, comparison: Comparison) -> Bar:
    ratios, unit = comparison.ratios, comparison.figure.unit
    left, right = (readable(spread(side).median, unit) for side in (comparison.a, comparison.b))
    same = 1 if left[1:] == right[1:] else 2 if left[2] == right[2] else 3
    return Bar(choice.label, *ratios, f"{written_out(left[:same])} → {written_out(right)}")


def readable(value: float, unit: str) -> tuple[str, str, str]:
    """A number of three digits, its thousands and its unit: 1.24 M records/s, 5390 requests/s, 0.94 ms."""
    while value >= 1000 and unit in LONGER:
        value, unit = value / 1000, LONGER[unit]
    for size, most, letter in ((1e6, 1e6, "M"), (1e3, 1e4, "k")):
        if value >= most:
            return f"{float(f'{value / size:.3g}'):g}", letter, unit
    return f"{float(f'{value:.3g}'):g}", "", unit


def written_out(parts: Sequence[str]) -> str:
    return " ".join(filter(None, parts))


def ratio_text(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 1.05 else f"{ratio:.2f}"


def with_table(readme: str, published: Published) -> str:
    """README.md with the present table. Raises ValueError where its place is not marked."""
    found, count = TABLE.subn(lambda _: f"\n{table(published)}\n", readme)
    if count != 1:
        raise ValueError("README.md has no place for the table of figures, or several")
    return found


def taken(directory: Path, *, busy: bool = False) -> Published:
    """The run that is kept there: all rows of one commit and machine, which was calm or may be ``busy``.

    Raises NotPlayedError.
    """
    from benchmarks import kept
    from benchmarks.pace import CALM

    rows = {key: kept.load(directory / "rows", key) for key in ROWS}
    missing = [key for key, row in rows.items() if row is None or row.result.failure]
    if missing:
        raise NotPlayedError(f"{directory} has no good result of {', '.join(missing)}: play them first")
    there = [row for row in rows.values() if row is not None]
    around = [row.circumstances for row in there]
    first = around[0]
    for name in ("names", "versions", "machine", "commit", "rounds_of"):
        if len({getattr(each, name) for each in around}) != 1:
            raise NotPlayedError(f"the rows in {directory} differ in {name}: play all of them in one run")
    slowness = [each for row in there for each in row.result.slowness]
    slow = sum(each > CALM for each in slowness)
    if slow * 2 > len(slowness) and not busy:
        raise NotPlayedError(
            f"others used the machine in {slow} of {len(slowness)} pairs of rounds: play the rows when it is quiet, "
            "or take them all the same with --busy"
        )
    comparisons = {
        choice: comparison._replace(row=choice.label)
        for choice in choices()
        for row in there
        if row.result.key == choice.row and (comparison := row.result.comparison(choice.figure)) is not None
    }
    counts = sorted(each.rounds for each in around)
    rounds = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    dates = sorted({each.at.split(" ")[0] for each in around})
    return Published(
        comparisons,
        first.versions,
        re.sub(r"(Linux \d+\.\d+)\S*,", r"\1,", first.machine).removesuffix("."),
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        first.commit,
        f"Medians of {rounds} alternating {first.rounds_of}",
        f"{slow} of {len(slowness)} pairs of rounds met a machine that others used." if slow else "",
    )


def publish(results: Path = RESULTS) -> None:
    """Writes pictures and table."""
    published = parsed(json.loads(results.read_text()))
    for name, paper in PAPERS.items():
        (PLACE / name).write_text(drawn(picture(published), paper))
    README.write_text(with_table(README.read_text(), published))


@click.command()
@click.option("--take", "directory", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--busy", is_flag=True, help="Take them though others used the machine most of the time.")
@click.option("--rows", "listed", is_flag=True, help="Print the keys of the rows, for `python -m benchmarks --rows`.")
def main(directory: Path | None, busy: bool, listed: bool) -> None:
    """Write the table and the pictures of README.md."""
    if listed:
        click.echo(",".join(ROWS))
        return
    if directory is not None:
        try:
            RESULTS.write_text(written(taken(directory, busy=busy)))
        except NotPlayedError as problem:
            raise click.ClickException(str(problem)) from None
    publish()


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.readme")
