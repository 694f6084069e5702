"""The demo ``make pipeline`` and its notebook: they run on a broker of their own, and find what is not the CSV's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from examples.flights.dataset import DAY_MS, Sums
from examples.pipeline.demo import alike
from examples.pipeline.page import Batch, Verdict, page

ROOT = Path(__file__).parents[2]
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


@pytest.mark.slow
@pytest.mark.spark
def test_the_pipeline_is_all_that_the_csv_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.pipeline", "--limit", "3000", "--page", str(tmp_path / "page.html")]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for line in (
        "sums in the topic: ",
        "sums of the Delta table, by DuckDB: ",
        "rows of the Iceberg table: ",
        "dead letters: 2 of 2 sent",
        "Delta table = topic: ",
        "Iceberg table = topic: ",
        "audit of all data: ",
    ):
        assert line in finished.stdout
    assert "DIFFERS" not in (tmp_path / "page.html").read_text()


@pytest.mark.slow
@pytest.mark.spark
def test_the_cells_of_the_notebook_run_one_after_the_other(tmp_path: Path) -> None:
    cells = json.loads((ROOT / "examples/pipeline/tour.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code")
    program = tmp_path / "tour.py"
    program.write_text(code)
    finished = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "table = topic: True" in finished.stdout
    assert "20 totals, each once: True" in finished.stdout
