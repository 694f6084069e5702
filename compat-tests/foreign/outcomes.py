"""The outcomes of a suite's tests, and those that the committed list expects.

The list names the tests that pass on kpybroker and may only grow: a test that stands on it and does not pass is a
failure, one that passes and does not stand on it is reported until it does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Outcome = Literal["passed", "failed", "skipped"]
LISTS: Final = Path(__file__).parent / "expected"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Every test's outcome by its name, and a line on why for those that did not pass."""

    by_test: dict[str, Outcome] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, test: str, outcome: Outcome, reason: str = "") -> None:
        self.by_test[test] = outcome
        self.reasons.pop(test, None)
        if outcome != "passed" and reason:
            self.reasons[test] = " ".join(reason.split())[:200]

    def update(self, later: "Outcomes") -> None:
        """Take over what a second run of some tests brought."""
        for test, outcome in later.by_test.items():
            self.add(test, outcome, later.reasons.get(test, ""))

    def those(self, outcome: Outcome) -> list[str]:
        return sorted(test for test, found in self.by_test.items() if found == outcome)


def expected(suite: str) -> list[str]:
    """The tests that must pass; empty for a suite that has no list yet."""
    path = LISTS / f"{suite}.txt"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def record(suite: str, passed: Collection[str]) -> list[str]:
    """Add tests to the list, which loses none; what was added."""
    before = expected(suite)
    added = sorted(set(passed) - set(before))
    if added:
        (LISTS / f"{suite}.txt").write_text("".join(f"{test}\n" for test in sorted({*before, *added})))
    return added


def missing(wanted: Collection[str], found: Mapping[str, Outcome]) -> list[str]:
    """The wanted tests that did not pass, or did not run at all."""
    return sorted(test for test in wanted if found.get(test) != "passed")
