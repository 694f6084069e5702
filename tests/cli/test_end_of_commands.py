"""A command ends the process without taking the interpreter apart: its output and what was registered are not lost."""

import subprocess
import sys

import pytest

SCRIPT = """
import atexit, sys, threading, time
from kpybroker.__main__ import main
atexit.register(print, "registered")
if sys.argv[1] == "thread":
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
sys.argv = ["kpybroker", *sys.argv[2:]]
main()
"""


def ended(kind: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SCRIPT, kind, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["alone", "thread"])
def test_the_output_of_a_command_its_threads_and_exit_functions_are_there(kind: str) -> None:
    done = ended(kind, "--version")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("kpybroker, version ")
    assert lines[1:] == [*["thread"] * (kind == "thread"), "registered"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("words", "code"), [(("nothing",), 2), (("topics", "list", "-b", "127.0.0.1:1"), 3)])
def test_the_exit_code_of_a_command_and_its_error_are_those_of_the_process(words: tuple[str, ...], code: int) -> None:
    done = ended("alone", *words)
    assert done.returncode == code
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert done.stdout == "registered\n"
