"""``make sink-kills``: the long form of ``test_spark_sink_kills.py``."""

import random
import tempfile
import time
from pathlib import Path

import click

from sink_kills.run import KINDS, run
from support.targets import TARGETS

WAYS = ("driver", "tasks")
STARTS_S = 180.0
"""A broker that starts beside Spark on a busy machine takes longer than others."""


@click.command()
@click.option("--target", type=click.Choice(sorted(TARGETS)), default="kpybroker", show_default=True)
@click.option("--kills", type=click.IntRange(1), default=200, show_default=True, help="The kills, over all ways.")
@click.option("--way", "ways", type=click.Choice(WAYS), multiple=True, help="Write only so; both by default.")
@click.option("--seed", type=int, help="The seed of the kinds and moments of kills.")
@click.option("--minutes", type=click.FloatRange(1), help="Begin no kill after this time.")
def main(target: str, kills: int, ways: tuple[str, ...], seed: int | None, minutes: float | None) -> None:
    """Kill the driver, the workers and the broker of a Spark query that writes; then compare output and input.

    Ends with code 1 when a row is lost or there twice.
    """
    seed = int(time.time()) if seed is None else seed
    rng, faults = random.Random(seed), 0
    chosen = ways or WAYS
    for number, way in enumerate(chosen):
        count = (number + 1) * kills // len(chosen) - number * kills // len(chosen)
        kinds = [rng.choice(KINDS) for _ in range(count)]
        with tempfile.TemporaryDirectory(prefix="sink-kills-") as directory:
            broker = TARGETS[target]({}, directory=Path(directory, "broker"))
            broker.start_timeout_s = STARTS_S
            Path(directory, "broker").mkdir()
            Path(directory, "driver").mkdir()
            with broker:
                limit_s = None if minutes is None else minutes * 60 / len(chosen)
                verdict = run(broker, Path(directory, "driver"), kinds, way=way, seed=seed, limit_s=limit_s)
        faults += len(verdict.faults)
        of_kinds = ", ".join(f"{verdict.kills[kind]} of the {kind}" for kind in KINDS)
        click.echo(f"{way}, seed {seed}: {verdict.kills.total()} kills ({of_kinds}), {verdict.rows} rows")
        for fault in verdict.faults:
            click.echo(f"  {fault}")
    click.echo("Output differs from input." if faults else "Output equals input: every row once.")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
