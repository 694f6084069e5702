"""The payments demo: totals are exact while everything is restarted, and it notices when they are not."""

import io
import re
import subprocess
import sys

import pytest
from rich.console import Console
from sources import ROOT

from examples.payments.baskets import Total, Totals, basket, expected
from examples.payments.demo import verdict

RIGHT = {"ada": Total(payments=2, cents=30), "grace": Total(payments=1, cents=5)}


def test_a_till_that_starts_again_sells_the_same_and_cancels_the_same() -> None:
    baskets = [basket(1, number) for number in range(200)]
    assert baskets == [basket(1, number) for number in range(200)]
    assert baskets != [basket(0, number) for number in range(200)]
    assert {each.cancelled for each in baskets} == {True, False}


def test_cancelled_baskets_are_not_expected() -> None:
    sold = [basket(till, number) for till in range(2) for number in range(50)]
    paid = [payment for each in sold if not each.cancelled for payment in each.payments]
    totals = expected(tills=2, baskets=50)
    assert sum(total.payments for total in totals.values()) == len(paid)
    assert sum(total.cents for total in totals.values()) == sum(payment.cents for payment in paid)


@pytest.mark.parametrize(
    ("found", "counted", "complaint"),
    [
        ({}, 3, "ada, grace"),
        ({**RIGHT, "ada": Total(2, 31)}, 3, "ada"),
        ({**RIGHT, "tony": Total()}, 3, "tony"),
        (RIGHT, 4, "4 payments were committed, and 3 made"),
    ],
    ids=["missing", "a-cent", "too-many-accounts", "too-many-payments"],
)
def test_an_inexact_total_is_an_error(found: Totals, counted: int, complaint: str) -> None:
    reported = io.StringIO()
    assert verdict(RIGHT, RIGHT, 3, Console(file=reported))
    assert not verdict(found, RIGHT, counted, Console(file=reported))
    assert f"Not exact: {complaint}" in reported.getvalue()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(500)
def test_totals_are_exact_though_everything_is_restarted() -> None:
    command = [sys.executable, "-m", "examples.payments", "--seconds", "5", "--pause", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        try:
            reported, _ = demo.communicate(timeout=450)
        finally:
            demo.terminate()
    assert demo.returncode == 0, reported
    restarted = set(re.findall(r"^ +[\d.]+ s +(\w+).* ended by SIG\w+ and started again$", reported, re.MULTILINE))
    assert restarted == {"broker", "till", "Spark"}
    assert "count exactly once" in reported
