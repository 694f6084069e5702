"""The tour in README.md, word for word, against a broker."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import ROOT

TEXT = (ROOT / "README.md").read_text()
DEFAULT = "127.0.0.1:9092"
PROGRAMS = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def block_with(language: str, words: str) -> str:
    (found,) = (block for block in blocks(language) if words in block)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker started as the README says, on a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    data = tmp_path_factory.mktemp("readme") / "data"
    command = [str(PROGRAMS / "kpybroker"), "start", "--data", str(data), "--listen", address, "--http", "off"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while "Kafka Server started" not in (line := process.stdout.readline()):
            assert line, "the broker ended"
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=20)


def run(command: list[str], address: str) -> str:
    environment = {
        **os.environ,
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "KPYBROKER_BOOTSTRAP_SERVER": address,
    }
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_the_first_day_in_a_shell_and_in_python(address: str) -> None:
    said = run(["sh", "-euc", block_with("sh", "topics create")], address)
    assert re.search(r"^hello\[\d\]@0 ada=hello world source=readme$", said, re.MULTILINE)
    script = block_with("python", "KafkaProducer").replace(DEFAULT, address)
    said = run([sys.executable, "-c", script], address)
    assert "b'ada' b'hello world'" in said
    assert "b'grace' b'hello too'" in said


def test_the_spark_example_is_python_and_names_the_connector_of_our_spark() -> None:
    block = block_with("python", "SparkSession")
    compile(block, "README.md", "exec")
    pinned = re.search(r'"pyspark==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned
    assert f"spark-sql-kafka-0-10_2.13:{pinned[1]}" in block


@pytest.mark.parametrize("command", re.findall(r"^kpybroker (\w+)", "\n".join(blocks("sh")), re.MULTILINE))
def test_every_command_that_is_shown_exists(command: str) -> None:
    assert "Usage:" in run([str(PROGRAMS / "kpybroker"), command, "--help"], DEFAULT)


def test_what_a_started_broker_says_to_paste_works(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [str(PROGRAMS / "kpybroker"), "start", "--data", str(tmp_path), "--listen", address, "--http", "off"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            for line in lines:
                if line.startswith("In another terminal"):
                    break
            pasted = [next(lines).strip() for _ in range(3)]
            assert run(["sh", "-euc", "\n".join(pasted)], "nobody:1") == "Created hello\nworld\n"
        finally:
            process.terminate()


def test_the_example_of_the_storage_package_runs() -> None:
    text = (ROOT / "storage" / "README.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    run([sys.executable, "-c", block], DEFAULT)
