"""Tests that run in a process of their own, by the mark ``own_process``.

librdkafka may end its process by an assertion, or never return, when a broker is killed while a consumer is at work or
is destroyed (its issue 5476 is one of these). Then that test fails, and is run again; the other tests go on.
"""

import os
import subprocess
import sys

import pytest

from oracle.process import die_with_parent

CHILD = "KPYBROKER_OWN_PROCESS"
LIMIT_S = 200
OPTIONS = ("--target", "--kpybroker", "--image", "--bootstrap-server")
"""The options that name the broker."""
OUTPUT_LINES = 100
NEVER_ENDED = "it was killed: it did not end in time"


def run_alone(item: pytest.Function) -> None:
    """Run this test in a new process; fail as it fails, or because that process crashes or hangs."""
    options = [f"{name}={value}" for name in OPTIONS if (value := item.config.getoption(name)) is not None]
    # The fixtures of this process stay unused but for the skips that they bring.
    command = [sys.executable, "-m", "pytest", "-p", "no:rerunfailures", "--quiet", *options, item.nodeid]
    environment = {name: value for name, value in os.environ.items() if name != "KPYBROKER_RERUNS"}
    process = subprocess.Popen(
        command,
        cwd=item.config.rootpath,
        env={**environment, CHILD: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        ending = f"it ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        ending = NEVER_ENDED
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        pytest.fail("\n".join([ending, *output.splitlines()[-OUTPUT_LINES:]]), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.get_closest_marker("own_process") is None or os.environ.get(CHILD):
        return None
    run_alone(pyfuncitem)
    return True
