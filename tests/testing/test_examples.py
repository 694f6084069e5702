"""The examples for people who test are tests that pass."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "testing"
FILES = sorted(path.name for path in EXAMPLES.glob("test_*.py"))
SPARK = "test_with_pyspark.py"


def run(*names: str, timeout_s: int) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-q",
        *(str(EXAMPLES / name) for name in names),
    ]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_the_examples_of_python_clients_pass() -> None:
    names = [name for name in FILES if name != SPARK]
    assert {"test_with_kafka_python.py", "test_with_aiokafka.py", "test_with_confluent_kafka.py"} < set(names)
    assert "test_with_faststream.py" in names
    assert "skipped" not in run(*names, timeout_s=200)


@pytest.mark.spark
@pytest.mark.slow
def test_the_example_of_spark_passes() -> None:
    assert "1 passed" in run(SPARK, timeout_s=280)
