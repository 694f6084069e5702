"""The installations that README.md shows, in a fresh environment, and its blocks with them, word for word."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_readme as readme
from installed import broker, run
from sources import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLES = {"client": "KafkaProducer", "testing": "def test_something", "spark": "SparkSession"}
"""A word of the example that each extra is for."""
PROGRAM = """
from kafka import KafkaProducer

def my_program(servers, topic):
    KafkaProducer(bootstrap_servers=servers).send(topic, key=b"grace", value=b"hello too").get()

"""


def shown() -> dict[str, str]:
    """The last installation that is shown above each example, by its extra."""
    found = {}
    for extra, words in EXAMPLES.items():
        before = readme.TEXT[: readme.TEXT.index(readme.block_with("python", words))]
        command, named = readme.INSTALL.findall(before)[-1]
        assert named == extra
        found[extra] = command
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment that has what the README installs, and nothing else."""
    home = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", home / "venv", cwd=home)
    found = home / "venv" / "bin"
    for command in shown().values():
        run(found / "python", "-m", *shlex.split(command), "--quiet", cwd=ROOT, timeout_s=500)
    return found


@pytest.fixture(scope="module")
def address(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker(programs, tmp_path_factory.mktemp("broker")) as served:
        yield served


def test_the_tour_and_the_client_work_as_installed(programs: Path, address: str) -> None:
    for command, printed in readme.steps():
        out = readme.run(["sh", "-euc", command], address, all_of_it=True, programs=programs)
        assert readme.steady(out) == readme.steady(printed), command
    script = readme.block_with("python", EXAMPLES["client"]).replace(readme.DEFAULT, address)
    assert "b'grace' b'hello too'" in run(programs / "python", "-c", script, cwd=Path("/"))


def test_the_pytest_example_passes_as_installed(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PROGRAM + readme.block_with("python", EXAMPLES["testing"]))
    assert "1 passed" in run(programs / "python", "-m", "pytest", "-q", cwd=tmp_path)


@pytest.mark.spark
def test_the_spark_example_prints_the_records_as_installed(programs: Path, address: str, tmp_path: Path) -> None:
    run(programs / "kpybroker", "produce", "hello", "-b", address, cwd=tmp_path, stdin="from the shell\n")
    (tmp_path / "example.py").write_text(
        readme.block_with("python", EXAMPLES["spark"]).replace(readme.DEFAULT, address)
    )
    assert "|from the shell" in run(programs / "python", "example.py", cwd=tmp_path, timeout_s=300)


def test_a_wheel_runs_by_uvx_without_being_installed(programs: Path, tmp_path: Path) -> None:
    run(programs / "python", "-m", "pip", "install", "--quiet", "uv", cwd=tmp_path)
    run(programs / "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with_extra = f"./{wheel.name}[client]"
    assert "kpybroker, version" in run(
        programs / "uvx", "--no-progress", "--from", with_extra, "kpybroker", "--version", cwd=tmp_path
    )
