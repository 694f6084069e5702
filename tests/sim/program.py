"""The command line of the simulation."""

import gc
import json
import sys
import warnings
from collections.abc import Callable, Iterator

import click

from .kind import WORLDS
from .processor import REAL_NS, WORKED_NS
from .simulation import Outcome, simulate

SHOWN = 60
LONGEST_CHARS = 200
PROGRESS_SEEDS = 50
PROGRESS_ALONE = 500
WANTED_SHARE = 0.95


@click.group()
def main() -> None:
    """Whole nodes on a simulated clock, network and disk."""


def _of_worlds(command: Callable[..., None]) -> Callable[..., None]:
    """With an option for the seeds of each world that has its own."""
    for world, what in reversed(WORLDS.items()):
        command = click.option(f"--{world}", default="", help=f"Seeds that run before: of {what}.")(command)
    return command


@main.command("run")
@click.option("--seeds", default="0-199", help="The seeds: 7, or 0-199, or 3,7-9; empty for none.")
@click.option("--nodes", default=3, help="The number of nodes.")
@_of_worlds
@click.option("--trace", is_flag=True, help="Show everything that happened.")
@click.option(
    "--quorums", default="", help="Before: seeds of the quorum's machine alone, which are many in little time."
)
@click.option("--tiers", default="", help="Before: seeds of tiered storage alone, which are many in little time.")
@click.option("--compaction", default="", help="Before: seeds of compacted tiered storage alone.")
@click.option("--suspicion", default="", help="Before: seeds of trials of suspicion, which are one after the other.")
@click.option("--digests", is_flag=True, help="Write one line of JSON for each seed.")
def run(
    seeds: str,
    nodes: int,
    trace: bool,
    quorums: str,
    tiers: str,
    compaction: str,
    suspicion: str,
    digests: bool,
    **own: str,
) -> None:
    """Simulate whole nodes. The exit code is 1 if a seed fails."""
    if quorums:
        _run_alone(quorums, "the quorum")
    if tiers:
        _run_alone(tiers, "tiered storage")
    if compaction:
        _run_alone(compaction, "compacted tiered storage")
    if suspicion:
        _run_alone(suspicion, "suspicion")
    gc.disable()
    warnings.simplefilter("ignore", RuntimeWarning)  # of what a process that died never came to
    began_ns, worked_ns, ran, failed = REAL_NS(), WORKED_NS(), 0, 0
    worlds = [*((world, own[world]) for world in WORLDS), ("", seeds)]
    for world, seed in [(world, each) for world, numbers in worlds for each in _numbers(numbers)]:
        outcome = simulate(seed, nodes=nodes, world=world, records_everything=trace)
        ran += 1
        if ran % 8 == 0:
            gc.collect()
        if ran % PROGRESS_SEEDS == 0 and not digests:
            print(f"{ran} seeds", flush=True)
        if digests:
            print(json.dumps(outcome[:-1]), flush=True)
        if trace and not outcome.violation:
            print("\n".join(outcome.reported))
        if outcome.violation:
            failed += 1
            _show(outcome, nodes, world, trace=trace)
            if not digests:
                break
    if not digests:
        took_s, worked_s = (REAL_NS() - began_ns) / 1e9, (WORKED_NS() - worked_ns) / 1e9
        print(f"{ran} seeds in {took_s:.1f} s, {1000 * worked_s / max(ran, 1):.0f} ms of work each; {failed} failed")
    sys.exit(1 if failed else 0)


def _numbers(seeds: str) -> Iterator[int]:
    for part in filter(None, seeds.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _run_alone(seeds: str, what: str) -> None:
    """The simulations that one part has of its own."""
    if what == "the quorum":
        from .quorums import failure
    elif what == "suspicion":
        from .suspecting import failure
    elif what == "compacted tiered storage":
        from .tiers import compacted_failure as failure
    else:
        from .tiers import failure
    worked_ns, ran = WORKED_NS(), 0
    for seed in _numbers(seeds):
        ran += 1
        found = failure(seed)
        if found:
            print(f"seed {seed} of {what} alone: {found}"[:LONGEST_CHARS])
            sys.exit(1)
        if ran % PROGRESS_ALONE == 0:
            print(f"{ran} seeds of {what} alone, {(WORKED_NS() - worked_ns) / 1e9:.0f} s of work", flush=True)
    print(f"{ran} seeds of {what} alone, {(WORKED_NS() - worked_ns) / 1e9:.1f} s of work; 0 failed")


def _show(outcome: Outcome, nodes: int, world: str, *, trace: bool) -> None:
    for line in outcome.reported if trace else outcome.reported[-SHOWN:]:
        print(line)
    print(f"seed {outcome.seed}: {outcome.violation}")
    seeds = f"SEEDS= OPTIONS='--{world} {outcome.seed} " if world else f"SEEDS={outcome.seed} OPTIONS='"
    print(f"again: make sim {seeds}--nodes {nodes} --trace'")


@main.command("mutants")
@click.option("--seeds", default="0-99", help="The other seeds to search a bug in; empty for only the known ones.")
@click.option("--only", default="", help="Only mutants whose names contain one of these: fsync,vote.")
@click.option("--at-once", default=2, help="The number of processes.")
@click.option("--write", is_flag=True, help="Keep the seeds that find them.")
def mutants(seeds: str, only: str, at_once: int, write: bool) -> None:
    """Plant bugs, and say which are found. The exit code is 1 if less than 95 of 100 are."""
    from .mutants import read_catches, verdicts, write_catches
    from .mutations import MUTATIONS

    chosen = [each for each in MUTATIONS if any(part in each.name for part in only.split(","))]
    began_ns, catches, missed = REAL_NS(), read_catches(), []
    for number, verdict in enumerate(verdicts(chosen, seeds, at_once), 1):
        name, catch = verdict.mutation.name, verdict.catch
        how = f"found  {catch}" if catch is not None else "MISSED"
        print(
            f"{number:3}/{len(chosen)} {verdict.took_s:6.1f} s {how:12} {name}: {verdict.line[:LONGEST_CHARS]}",
            flush=True,
        )
        if catch is None:
            missed.append(name)
        else:
            catches[name] = catch
            if write:
                write_catches(catches, [each.name for each in MUTATIONS])
    found, took_s = len(chosen) - len(missed), (REAL_NS() - began_ns) / 1e9
    print(f"{found} of {len(chosen)} planted bugs are found, {100 * found / len(chosen):.1f} %, in {took_s:.0f} s")
    print("".join(f"not found: {name}\n" for name in missed), end="")
    sys.exit(found < WANTED_SHARE * len(chosen))
