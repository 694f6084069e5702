"""The reason why each module of a compiled wheel is compiled: the row in which it takes most of a broker's CPU time.

    python -m benchmarks.compiled [--rows KEY,KEY] [--least PERCENT] [--output FILE]

Each row is played on a broker in pure Python, whose stack is sampled every millisecond. A module that takes less than
``--least`` of every row gains nothing that a benchmark could show, so that it need not be compiled. One that takes more
and is not compiled is printed too. The list itself is `hatch_build.MODULES`. What has a thread or process of its own,
such as compaction, is not sampled, and the constructors of dataclasses are in no file.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from rich.progress import track

from benchmarks import CHECKOUT
from benchmarks.profile_broker import launcher
from benchmarks.rows import SUITES, RoundError, Row
from benchmarks.rows.row import QUICK
from benchmarks.sides import Kpybroker, Side
from hatch_build import MODULES

ROWS: Final = (
    "small-requests-50", "round-trip", "produce-java-1000", "record-cost-unequal", "many-partitions-50", "drain",
    "consume-confluent-100", "fetch-empty", "fetch-incremental", "commit-50", "rebalance-20", "settle-20",
    "share-read-1", "transactions-100-1", "transactional-ids", "tls-small-requests", "scram-logins", "topics-1000",
    "restart-partitions-1000", "tail-beside-compaction",
)  # fmt: skip
"""One row of each kind of work."""
LEAST_PERCENT: Final = 0.3


def sampled(row: Row) -> Mapping[str, float]:
    """The percentage of a broker's CPU time in each file while it plays a row; a file by its last two names."""
    with tempfile.TemporaryDirectory(prefix="kpycompiled-") as directory:
        output = Path(directory) / "profile"
        broker = Kpybroker(Path(directory) / "broker", launcher("sample", output))
        with Side("B", "kpybroker", Path(directory), broker) as side:
            row.open(side)
            row.play(side)
            row.play(side)
            row.close(side)
        looks: Counter[str] = Counter()
        for function, count in json.loads(output.read_text())["functions"].items():
            if not function.startswith("<frozen "):  # Python imports, which is most of a short row
                looks[function.partition(" ")[0]] += count
    total = looks.total()
    return {file: 100 * count / total for file, count in looks.items()}


def file_of(module: str) -> str:
    """The last two names of a module's file, as profiles have it."""
    return "/".join(module.split(".")[-2:]) + ".py"


@click.command()
@click.option("--rows", "keys", default=",".join(ROWS), help="The keys of the rows.")
@click.option("--least", type=float, default=LEAST_PERCENT, show_default=True, help="Percent of a row's CPU time.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="All percentages, as JSON.")
def main(keys: str, least: float, output: Path | None) -> None:
    """Print for each compiled module the row in which it takes most, and what could be added or left out."""
    rows = {row.key: row for suite in SUITES.values() for row in suite(QUICK)}
    shares: dict[str, dict[str, float]] = {}
    for key in track(keys.split(","), "rows"):
        try:
            of_row = sampled(rows[key])
        except RoundError as problem:
            click.echo(f"{key} is left out: {problem}", err=True)
            continue
        for file, percent in of_row.items():
            shares.setdefault(file, {})[key] = round(percent, 2)
        if output is not None:
            output.write_text(json.dumps(shares, indent=1, sort_keys=True))
    best = {file: max(of_rows.items(), key=lambda each: each[1]) for file, of_rows in shares.items()}
    for module in MODULES:
        row, percent = best.get(file_of(module), ("no row", 0.0))
        click.echo(f"{percent:6.1f} %  {row:26} {module}{'' if percent >= least else '   (not needed)'}")
    compiled = {file_of(module) for module in MODULES}
    ours = {
        f"{path.parent.name}/{path.name}"
        for root in ("kpybroker", "wire", "storage")
        for path in (CHECKOUT / root).rglob("*.py")
    }
    for file, (row, percent) in sorted(best.items(), key=lambda each: -each[1][1]):
        if file in ours - compiled and percent >= least:
            click.echo(f"{percent:6.1f} %  {row:26} {file}   (not compiled)")


if __name__ == "__main__":
    main()
