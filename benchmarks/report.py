"""The outcome of a run as a Markdown table and as JSON with every raw round."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.figures import REQUIRED_RATIO, WANTED_RATIO, Comparison, shown, spread
from benchmarks.match import Result

Names = tuple[str, str]


def markdown(results: Sequence[Result], names: Names, versions: Names, rounds: int) -> str:
    """The table of all rows, then what was measured, what misses the requirement and what failed."""
    lines = [
        f"| row | figure | A: {names[0]} | B: {names[1]} | ratio | min-max | |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for result in results:
        lines += [line(comparison) for comparison in result.comparisons()]
        if result.failure:
            lines.append(f"| {result.title} | | | | | | FAILED |")
    return "\n".join([*lines, "", *explained(names, versions, rounds), "", *verdict(results)]) + "\n"


def line(comparison: Comparison) -> str:
    figure, ratios = comparison.figure, comparison.ratios
    a, b = (f"{shown(spread(side).median)} ±{half_range_percent(side):.0f} %" for side in (comparison.a, comparison.b))
    range_ = f"{ratios.smallest:.2f}-{ratios.largest:.2f}"
    cells = [comparison.row, f"{figure.name}, {figure.unit}", a, b, f"**{ratios.median:.2f}**", range_]
    return f"| {' | '.join(cells)} | {'' if comparison.verdict == 'ok' else comparison.verdict} |"


def half_range_percent(values: Sequence[float]) -> float:
    """Half the distance between the best and the worst round, in percent of the median."""
    seen = spread(values)
    return (seen.largest - seen.smallest) / 2 / seen.median * 100 if seen.median else 0.0


def explained(names: Names, versions: Names, rounds: int) -> list[str]:
    method = (
        f"Medians of {rounds} alternating rounds, ± half their range. The ratio is {names[1]} relative to {names[0]}, "
        "taken round by round, and above 1 is better whether the figure counts work or time. "
        f"At least {REQUIRED_RATIO} is required (else MISS), {WANTED_RATIO} is the aim."
    )
    return [method, "", f"A is {versions[0]}; B is {versions[1]}.", "", machine_text()]


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


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpuinfo, meminfo = Path("/proc/cpuinfo").read_text(), Path("/proc/meminfo").read_text()
    models = [text.split(":", 1)[1].strip() for text in cpuinfo.splitlines() if text.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(meminfo.split()[1]) / 1e6, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }


def machine_text() -> str:
    seen = machine()
    load = ", ".join(f"{part:.1f}" for part in seen["load_average"])
    return (
        f"{seen['cores']} cores of {seen['cpu']}, {seen['memory_gb']} GB, Linux {seen['kernel']}, "
        f"Python {seen['python']}; load average at the end {load}."
    )


def raw_json(results: Sequence[Result], names: Names, versions: Names, rounds: int) -> str:
    """Every round of every row, for other programs."""
    rows = [{**asdict(result), "figures": [figure._asdict() for figure in result.figures]} for result in results]
    sides = {"a": names[0], "b": names[1], "versions": versions}
    return json.dumps({**sides, "rounds": rounds, "machine": machine(), "rows": rows}, indent=1)
