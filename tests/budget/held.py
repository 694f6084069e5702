"""The committed budget, and what is said when work has grown beyond it. Pure but for the file."""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BUDGET = Path(__file__).with_name("budget.json")
KINDS = {"python": "calls of Python functions", "c": "calls of C functions", "system": "system calls"}
PEAK_SLACK_BYTES, PEAK_TOLERANCE = 2048, 0.10
HELD_SLACK_BYTES, HELD_TOLERANCE = 64, 0.25
"""The bounds of what a request leaves behind, which is next to nothing; a buffer may grow in any round."""
GREW = 0.02
MOST_NAMED = 12

Work = Mapping[str, Any]


def python_version() -> str:
    """Work is the same only in the same version: comprehensions are calls in one and none in the next."""
    return ".".join(platform.python_version_tuple()[:2])


def read() -> tuple[str, dict[str, Work]]:
    """The version of Python that the budget is for, and the work of one request by scenario."""
    budget = json.loads(BUDGET.read_text())
    return budget["python"], budget["scenarios"]


def write(scenarios: Mapping[str, Work]) -> None:
    budget = {"python": python_version(), "scenarios": scenarios}
    BUDGET.write_text(json.dumps(budget, indent=1) + "\n")


def total(calls: Mapping[str, float]) -> float:
    return sum(calls.values())


def grown_calls(kind: str, before: Mapping[str, float], now: Mapping[str, float], tolerance: float) -> str | None:
    """Which functions grew, in one text, if all of them together grew by more than the tolerance."""
    if total(now) <= total(before) * (1 + tolerance):
        return None
    growth = {name: count - before.get(name, 0.0) for name, count in now.items()}
    ordered = sorted((item for item in growth.items() if item[1] > GREW), key=lambda item: -item[1])
    lines = [f"{KINDS[kind]} of a request: {total(now):.2f}, the budget is {total(before):.2f}"]
    lines += [f"  {before.get(name, 0):7.2f} -> {now[name]:7.2f}  {name}" for name, _ in ordered[:MOST_NAMED]]
    return "\n".join(lines)


def grown_memory(before: Work, now: Work) -> str | None:
    """Whether a request takes more at once, or leaves more behind."""
    peak_bytes = before["peak_bytes"] * (1 + PEAK_TOLERANCE) + PEAK_SLACK_BYTES
    held_bytes = max(before["held_bytes"], 0) * (1 + HELD_TOLERANCE) + HELD_SLACK_BYTES
    reported = []
    if now["peak_bytes"] > peak_bytes:
        reported.append(f"requests take {now['peak_bytes']} bytes at once, the budget is {before['peak_bytes']}")
    if now["held_bytes"] > held_bytes:
        reported.append(f"a request leaves {now['held_bytes']} bytes behind, the budget is {before['held_bytes']}")
    return "\n".join(reported) or None
