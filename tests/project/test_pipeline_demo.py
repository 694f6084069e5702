"""The page and the comparisons of the demo ``make pipeline``.

The demo itself is run by compat-tests/tutorials/test_pipeline.py.
"""

from examples.pipeline.demo import alike
from examples.pipeline.page import Batch, Verdict, page
from kpybroker.pipeline.demo.dataset import DAY_MS, Sums

EXPECTED = {(0, "JFK"): Sums(3, 1, 20, 900), (DAY_MS, "JFK"): Sums(2, 0, -4, 700)}


def test_sums_that_differ_or_are_missing_are_named() -> None:
    assert alike("sums", dict(EXPECTED), EXPECTED, "here").holds
    assert alike("sums", {(0, "JFK"): EXPECTED[0, "JFK"]}, EXPECTED, "here") == Verdict(
        "sums", False, f"1 windows differ, first ({DAY_MS}, 'JFK')"
    )
    assert not alike("sums", {**EXPECTED, (0, "LGA"): Sums(1)}, EXPECTED, "here").holds


def test_the_page_shows_what_differs_and_escapes_what_it_was_given() -> None:
    verdicts = [Verdict("sums", True, "alike"), Verdict("<rows>", False, "1 row")]
    text = page(verdicts, EXPECTED, [Batch(2.5, 3), Batch(4.0, 2)], ["a <line>"])
    assert text.count("<svg ") == 2
    assert "<td class=bad>DIFFERS</td><td>&lt;rows&gt;</td>" in text
    assert "a &lt;line&gt;" in text
    assert "<rows>" not in text
    assert "nan" not in page([], {}, [], [])
