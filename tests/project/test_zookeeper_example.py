"""`make zookeeper`: ZooKeeper and a broker with one command, and what it prints works; Ctrl-C ends both."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from images import free_address
from sources import ROOT

from oracle.process import die_with_parent

LAST = "Ctrl-C ends everything."


@pytest.mark.java
def test_the_printed_commands_of_the_example_work_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    first, zookeeper = (free_address().rpartition(":")[2] for _ in range(2))
    command = [sys.executable, "-m", "examples.zookeeper", "--brokers", "1", "--port", first]
    process = subprocess.Popen(
        [*command, "--zookeeper-port", zookeeper, "--data", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'compat-tests'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    reported: list[str] = []
    try:
        while not reported or LAST not in reported[-1]:
            reported.append(process.stdout.readline())
            assert reported[-1], f"it ended:\n{''.join(reported)}"
        pid = next(int(found[1]) for line in reported if (found := re.search(r"kill -9 (\d+)", line)))
        tried = [line.partition("#")[0] for line in reported if line.startswith("  ") and "kpybroker" in line]
        for line in tried[:5]:
            ended = subprocess.run(["/bin/sh", "-ec", line], capture_output=True, text=True, timeout=60, check=False)
            # The tree may contradict itself for a moment.
            assert ended.returncode in ((0, 4) if " zookeeper " in line else (0,)), (line, ended.stderr)
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=90)[0]
    assert process.returncode == 0, rest
    assert "Traceback" not in "".join(reported) + rest
    assert not Path(f"/proc/{pid}").exists()
    assert shlex.split(tried[-1])[1:] == ["start", str(tmp_path / "broker-1" / "server.properties")]
    assert (tmp_path / "broker-1" / "data" / "meta.properties").exists()
