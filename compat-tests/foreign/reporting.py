"""A pytest plugin for suites of others, in environments of their own: what became of each test, a JSON line each.

It imports nothing of this project and runs with whatever pytest the suite needs; FOREIGN_OUTCOMES names the file.
"""

import json
import os

import pytest


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr or ""))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a test's first phase that did not pass, or its call."""
    if report.when == "call" or not report.passed:
        line = {"test": report.nodeid, "outcome": report.outcome, "reason": _reason(report)}
        with open(os.environ["FOREIGN_OUTCOMES"], "a") as file:
            file.write(json.dumps(line) + "\n")
