"""A test that passes only when it is run again, hangs or leaves a thread is named at the end of the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def ran(directory: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run of these tests, which notes in ``reruns.txt`` of the directory what is printed last."""
    (directory / "test_some.py").write_text(tests)
    (directory / "pytest.ini").write_text("[pytest]\ntimeout = 60\n")
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'compat-tests'}", "KPYBROKER_RERUNS": str(directory / "reruns.txt")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", *options, "test_some.py"],
        cwd=directory,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        check=False,
    )


FLAKY = """
from pathlib import Path

def test_sound():
    pass

def test_flaky():
    seen = Path(__file__).with_suffix(".seen")
    is_second = seen.exists()
    seen.touch()
    assert is_second, "only once"
"""


def test_a_test_that_is_run_again_is_named_before_the_summary_and_in_the_file_of_the_whole_run(tmp_path: Path) -> None:
    reruns = tmp_path / "reruns.txt"
    reruns.write_text("RERUN of another process\n")
    run = ran(tmp_path, FLAKY, "--reruns", "1")
    assert run.returncode == pytest.ExitCode.OK
    *_, named, summary = run.stdout.splitlines()
    assert named == "RERUN test_some.py::test_flaky: AssertionError: only once"
    assert "2 passed, 1 rerun" in summary
    assert reruns.read_text().splitlines() == ["RERUN of another process", named]


def test_a_test_that_fails_is_named_in_the_file_of_the_whole_run(tmp_path: Path) -> None:
    run = ran(tmp_path, "def test_wrong():\n    raise ValueError('no')\n")
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert (tmp_path / "reruns.txt").read_text().splitlines() == ["FAILED test_some.py::test_wrong: ValueError: no"]


LEAVING = """
import threading
import conftest

conftest.ENDING_S = 2  # it waits a quarter of it for the threads

def test_sound():
    pass

def test_leaving():
    threading.Thread(target=threading.Event().wait, name="a-pool_0").start()

def test_after_it():
    pass
"""


def test_a_run_that_leaves_a_thread_ends_and_names_the_test_that_began_it(tmp_path: Path) -> None:
    run = ran(tmp_path, LEAVING)
    assert "3 passed" in run.stdout
    assert run.returncode == pytest.ExitCode.OK
    line = "LEFT threads, which would hold this process: a-pool_0 (since test_some.py::test_leaving)"
    assert line in run.stderr
    assert (tmp_path / "reruns.txt").read_text().splitlines() == [line]


HANGING = """
import signal
import time
import conftest
import pytest

conftest.FIXTURES_S = 1

@pytest.mark.timeout(1)
def test_hanging():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # as in a library that does not return to Python
    time.sleep(600)
"""


def test_a_run_that_hangs_outside_python_is_ended_and_leaves_its_stacks_for_the_last_lines(
    tmp_path: Path,
) -> None:
    run = ran(tmp_path, HANGING)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    stacks = (tmp_path / "reruns.txt").read_text()
    assert stacks.startswith("Timeout (0:00:02)!")
    assert 'test_some.py", line 12 in test_hanging' in stacks
