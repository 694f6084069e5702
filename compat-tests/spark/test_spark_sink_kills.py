"""The exactly-once sink while the driver, a worker and the broker are killed. The long form is ``make sink-kills``."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from conftest import StartBroker, no_spark
from sink_kills.run import BROKER, CHECKOUT, DRIVER, PACKAGE, PYSPARK, WORKER, command_of, processes_of, run
from sink_kills.watcher import faults
from support.waiting import eventually


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({0: [0, 2], 1: [1, 1, 3]}, "twice: [1]"),
        ({0: [0, 2], 1: [3]}, "lost: [1]"),
        ({0: [0, 2], 1: [1]}, "no whole number"),
        ({0: [2, 0], 1: [1, 3]}, "wrong order"),
    ],
)
def test_rows_that_are_lost_or_twice_or_in_a_wrong_order_are_found(values: dict[int, list[int]], fault: str) -> None:
    assert fault in "\n".join(faults(values, 2))
    assert faults({0: [0, 2], 1: [1, 3]}, 2) == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_the_output_of_a_query_equals_its_input_after_kills_of_all_parts(
    start_broker: StartBroker, pytestconfig: pytest.Config, tmp_path: Path, way: str
) -> None:
    if reason := pytestconfig.stash.get(no_spark, None):
        pytest.skip(reason)
    if int(pyspark.__version__.split(".")[0]) < 4:
        pytest.skip("data sources in Python begin with Spark 4.0")
    verdict = run(start_broker(), tmp_path, (WORKER, BROKER, DRIVER), way=way, seed=1)
    assert verdict.faults == []
    assert verdict.kills.total() == 3
    assert verdict.rows > 0


def sessions_of_children(parent: int) -> list[int]:
    """The children of a process that lead a session of their own."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children if os.getsid(int(child)) == int(child)]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_run_leaves_no_records(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if reason := pytestconfig.stash.get(no_spark, None):
        pytest.skip(reason)
    path = os.pathsep.join(map(str, (CHECKOUT, PACKAGE, PYSPARK)))
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "sink_kills", "--kills", "1", "--way", "driver"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as killed:
        eventually(lambda: sessions_of_children(killed.pid), "the driver runs", 300)
        (session,) = sessions_of_children(killed.pid)
        eventually(lambda: any("java" in command_of(pid) for pid in processes_of(session)), "the JVM runs", 300)
        killed.kill()
    eventually(lambda: not processes_of(session), "all processes of the driver end", 300)
