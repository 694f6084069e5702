"""The tour in README.md and docs/first-day.md, word for word, against a broker."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import ROOT

from oracle import free_port

TEXT = (ROOT / "README.md").read_text() + (ROOT / "docs" / "first-day.md").read_text()
DEFAULT = "127.0.0.1:9092"
PROGRAMS = Path(sys.executable).parent
VARIES = (
    (re.compile(r"\bid [\w-]{22}\b"), "id ID"),
    (re.compile(r"\b\d+ (?:ms|s)\b"), "TIME"),
    (re.compile(r"[ \t]+"), " "),
)
"""The parts that differ from run to run: ids, times, and the widths that follow from them."""
INSTALL = re.compile(r"`(pip install '\.\[(\w+)\]'(?: '[^']+')?)`")
"""An installation with an extra, as it is shown above an example."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def block_with(language: str, words: str) -> str:
    (found,) = (block for block in blocks(language) if words in block)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker started as the README says, on a port that is free."""
    address = f"127.0.0.1:{free_port()}"
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


def run(command: list[str], address: str, *, all_of_it: bool = False, programs: Path = PROGRAMS) -> str:
    """Run it and return its output; ``all_of_it``: with the errors and notes that a person sees too."""
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "KPYBROKER_BOOTSTRAP_SERVER": address,
    }
    errors = subprocess.STDOUT if all_of_it else subprocess.PIPE
    finished = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, f"{finished.stdout}{finished.stderr or ''}"
    return finished.stdout


def steps() -> list[tuple[str, str]]:
    """The commands of the tour, each with what the README shows below it."""
    notified = "".join(blocks("console"))
    return [
        (step.partition("\n")[0], step.partition("\n")[2])
        for step in re.split(r"^\$ ", notified, flags=re.MULTILINE)[1:]
    ]


def steady(reported: str) -> list[str]:
    for pattern, instead in VARIES:
        reported = pattern.sub(instead, reported)
    return [line.strip() for line in reported.splitlines()]


def test_the_tour_prints_what_the_readme_shows_and_python_reads_it(address: str) -> None:
    assert len(steps()) > 5
    for command, shown in steps():
        assert steady(run(["sh", "-euc", command], address, all_of_it=True)) == steady(shown), command
    script = block_with("python", "KafkaProducer").replace(DEFAULT, address)
    reported = run([sys.executable, "-c", script], address)
    assert "b'ada' b'hello world'" in reported
    assert "b'grace' b'hello too'" in reported


def test_an_output_that_is_not_shown_so_is_a_difference() -> None:
    shown = steps()[3][1]
    assert (
        steady(shown) == steady(re.sub(r"id [\w-]{22}", "id 5L6g3nShT-eMCtK--X86sw", shown)) != steady(shown[:-2] + "2")
    )
    assert steady("lag 0\n0  3 s  -") == steady("lag 0\n0  12 ms    -") != steady("lag 1\n0  3 s  -")


@pytest.mark.parametrize(
    ("example", "modules"),
    [("KafkaProducer", {"kafka"}), ("def test_something", {"pytest"}), ("SparkSession", {"pyspark"})],
)
def test_the_extra_that_is_named_above_an_example_installs_what_it_needs(example: str, modules: set[str]) -> None:
    before = TEXT[: TEXT.index(block_with("python", example))]
    extra = INSTALL.findall(before)[-1][1]
    with open(ROOT / "pyproject.toml", "rb") as file:
        wanted = tomllib.load(file)["project"]["optional-dependencies"][extra]
    names = {re.split(r"[<>=]", requirement)[0] for requirement in wanted}
    assert modules <= {{"kafka-python": "kafka"}.get(name, name) for name in names}
    imported = set(re.findall(r"^(?:from|import) (\w+)", block_with("python", example), re.MULTILINE))
    assert imported <= modules


def test_the_spark_example_is_python_and_names_the_connector_of_our_spark() -> None:
    block = block_with("python", "SparkSession")
    compile(block, "README.md", "exec")
    pinned = re.search(r'"pyspark==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned
    assert f"spark-sql-kafka-0-10_2.13:{pinned[1]}" in block
    assert f"pyspark=={pinned[1]}" in INSTALL.findall(TEXT[: TEXT.index(block)])[-1][0]


@pytest.mark.parametrize("command", re.findall(r"^kpybroker (\w+)", "\n".join(blocks("sh")), re.MULTILINE))
def test_every_command_that_is_shown_exists(command: str) -> None:
    assert "Usage:" in run([str(PROGRAMS / "kpybroker"), command, "--help"], DEFAULT)


def test_the_commands_that_a_started_broker_prints_work(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
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
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    run([sys.executable, "-c", "".join(blocks)], DEFAULT)
