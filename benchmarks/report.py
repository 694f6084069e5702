"""The outcome of one or several runs as a Markdown table and as JSON with every raw round."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.figures import REQUIRED_RATIO, WANTED_RATIO, Comparison, shown, spread
from benchmarks.kept import Circumstances, Kept
from benchmarks.match import Result
from benchmarks.pace import CALM

ROUNDS = 5
"""The rounds that are due."""
CEILING = "ceiling"
BROKER_CPU = "broker CPU"
CEILING_CPU_AIM = 1.5
"""The aim for a broker's CPU per request, as a multiple of the ceiling's."""
WORDS = {
    CEILING: "The ceiling is a C program of one thread that receives, writes, sends and answers the same bytes, and "
    "does nothing else: what the machine allows where one thread is the limit. Of its throughput 1.00 would be all; "
    f"at most {CEILING_CPU_AIM} times its broker CPU is the aim. ",
    "kfake": "kfake is franz-go's broker for tests, in Go. ",
}
"""The descriptions of further sides, by program."""


def markdown(rows: Sequence[Kept]) -> str:
    """The table of all rows, then what was measured, what misses the requirement and what failed. Needs one row."""
    names = rows[0].circumstances.names
    lines = [
        f"| row | figure | A: {names[0]} | B: {names[1]} | ratio | min-max | |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    results = [kept.result for kept in rows]
    for result in results:
        lines += [line(comparison) for comparison in result.comparisons()]
        if result.failure:
            lines.append(f"| {result.title} | | | | | | FAILED |")
    around = explained([kept.circumstances for kept in rows])
    further = [line for program in further_sides(results) for line in beside(results, program, names[1])]
    return "\n".join([*lines, "", *around, "", *calmness(results), *verdict(results), *further]) + "\n"


def line(comparison: Comparison) -> str:
    figure, ratios = comparison.figure, comparison.ratios
    a, b = (f"{shown(spread(side).median)} ±{half_range_percent(side):.0f} %" for side in (comparison.a, comparison.b))
    range_ = f"{ratios.smallest:.2f}-{ratios.largest:.2f}"
    cells = [comparison.row, f"{figure.name}, {figure.unit}", a, b, f"**{ratios.median:.2f}**", range_]
    return f"| {' | '.join(cells)} | {'' if comparison.verdict == 'ok' else comparison.verdict} |"


def further_sides(results: Sequence[Result]) -> list[str]:
    """The programs that played beside A and B in some row, or were to."""
    return sorted({program for result in results for program in (*result.beside, *result.apart)})


def beside(results: Sequence[Result], program: str, name_of_b: str) -> list[str]:
    """The table of a further side: its figures, B's, and how many times its own those are; then what it left out."""
    lines = [
        "",
        f"## Beside {program}",
        "",
        f"{WORDS.get(program, '')}Quotients are taken round by round.",
        "",
    ]
    lines.append(f"| row | figure | {program} | B: {name_of_b} | B / {program} | min-max | |")
    lines.append("|---|---|---:|---:|---:|---:|---|")
    comparisons = [each for result in results for each in result.comparisons_with(program)]
    lines += [line_beside(each, program) for each in comparisons]
    reasons: dict[str, list[str]] = {}
    for result in results:
        if program in result.apart:
            reasons.setdefault(result.apart[program], []).append(result.key)
    return [*lines, "", *(f"- without {program}: {', '.join(keys)}: {reason}" for reason, keys in reasons.items())]


def line_beside(comparison: Comparison, program: str) -> str:
    """One figure; that of the broker's CPU beside the ceiling has an aim."""
    figure = comparison.figure
    times = spread([b / a if a else 0.0 for a, b in zip(comparison.a, comparison.b, strict=True)])
    theirs, ours = (shown(spread(side).median) for side in (comparison.a, comparison.b))
    reached = program == CEILING and figure.name == BROKER_CPU and times.median <= CEILING_CPU_AIM
    range_ = f"{times.smallest:.2f}-{times.largest:.2f}"
    cells = [comparison.row, f"{figure.name}, {figure.unit}", theirs, ours, f"**{times.median:.2f}**", range_]
    return f"| {' | '.join(cells)} | {'aim' if reached else ''} |"


def half_range_percent(values: Sequence[float]) -> float:
    """Half the distance between the best and the worst round, in percent of the median."""
    seen = spread(values)
    return (seen.largest - seen.smallest) / 2 / seen.median * 100 if seen.median else 0.0


def explained(runs: Sequence[Circumstances]) -> list[str]:
    names = runs[0].names
    rounds = [run.rounds for run in runs if run.rounds] or [0]
    fewest, most = min(rounds), max(rounds)
    method = (
        f"Medians of {fewest if fewest == most else f'{fewest} to {most}'} alternating rounds, ± half their range. "
        f"The ratio is {names[1]} relative to {names[0]}, "
        "taken round by round, and above 1 is better whether the figure counts work or time. "
        f"At least {REQUIRED_RATIO} is required (else MISS), {WANTED_RATIO} is the aim."
    )
    versions = dict.fromkeys(f"A is {run.versions[0]}; B is {run.versions[1]}." for run in runs)
    machines = dict.fromkeys(run.machine for run in runs)
    times = sorted(run.at for run in runs)
    when = f"Measured from {times[0]} to {times[-1]}." if times[0] != times[-1] else f"Measured at {times[0]}."
    return [method, "", *versions, "", *lengths(runs), *machines, "", when]


def lengths(runs: Sequence[Circumstances]) -> list[str]:
    """How long the rounds were, and of how many rows; nothing where it is not known of any."""
    counts = Counter(run.rounds_of for run in runs if run.rounds_of)
    reported = [f"{count} rows: {words}" for words, count in counts.items()]
    few = sum(run.rounds < ROUNDS for run in runs)
    return [*(f"{each}." for each in reported), *([f"{few} rows: fewer than {ROUNDS} rounds."] if few else []), ""]


def calmness(results: Sequence[Result]) -> list[str]:
    """How many rounds were left out since the machine was slow, and how many count although it was."""
    left_out = sum(result.left_out for result in results)
    slow = sum(each > CALM for result in results for each in result.slowness)
    if not left_out and not slow:
        return []
    reported = f"{left_out} pairs of rounds do not count, since the machine was slow around them"
    return [f"{reported}; {slow} count although it was.", ""]


def verdict(results: Sequence[Result]) -> list[str]:
    """One line for each figure that misses and each row that failed, or one that says there is none."""
    lines = [
        f"- MISS {c.ratios.median:.2f}: {c.row}, {c.figure.name}"
        for result in results
        for c in result.comparisons()
        if c.verdict == "MISS"
    ]
    lines += [f"- FAILED: {result.title}: {result.failure}" for result in results if result.failure]
    return lines or ["Every row reaches the required ratio."]


def missed(results: Sequence[Result]) -> bool:
    return any(r.failure or any(c.verdict == "MISS" for c in r.comparisons()) for r in results)


def raw_json(rows: Sequence[Kept]) -> str:
    """Every round of every row, for other programs."""
    written: list[dict[str, Any]] = [
        {
            **asdict(kept.result),
            "figures": [figure._asdict() for figure in kept.result.figures],
            "points": [point._asdict() for point in kept.result.points],
            "circumstances": kept.circumstances._asdict(),
        }
        for kept in rows
    ]
    return json.dumps({"rows": written}, indent=1)
