"""The demo ``make pipeline`` and its notebook, with Spark, on brokers of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark_home import home_with_bytecode

ROOT = Path(__file__).parents[2]
PATIENCE_S = 1200
"""A machine that does other work takes many minutes."""
BUSY = pytest.mark.flaky(reruns=2, only_rerun=["failed to connect back"])
"""Spark gives a process of Python ten seconds to start, which a busy machine exceeds: that alone is tried again."""


def run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that starts Spark."""
    environment = {**os.environ, "SPARK_HOME": str(home_with_bytecode())}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3 * PATIENCE_S)
@BUSY
def test_the_pipeline_is_all_that_the_csv_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.pipeline", "--limit", "3000", "--page", str(tmp_path / "page.html")]
    finished = run(command, ROOT)
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
@pytest.mark.timeout(3 * PATIENCE_S)
@BUSY
def test_the_cells_of_the_notebook_run_one_after_the_other(tmp_path: Path) -> None:
    cells = json.loads((ROOT / "examples/pipeline/tour.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code")
    program = tmp_path / "tour.py"
    program.write_text(code)
    finished = run([sys.executable, str(program)], tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "table = topic: True" in finished.stdout
    assert "20 totals, each once: True" in finished.stdout
