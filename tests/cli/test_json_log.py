"""Logs as JSON: every line of stderr is one object, whatever names and tracebacks are in it."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.cli.log_lines import JsonFormatter
from kpybroker.node.local_cluster.child import READY, python_path

FIELDS = ["time", "level", "logger", "node", "message"]


def event(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


@settings(max_examples=50)
@given(st.text())
def test_any_message_is_one_line_and_unchanged(text: str) -> None:
    record = logging.LogRecord("kpybroker.server", logging.WARNING, __file__, 1, "client %s", (text,), None)
    line = JsonFormatter(3).format(record)
    assert len(line.splitlines()) == 1
    assert line.isascii()
    found = event(line)
    assert list(found) == FIELDS
    assert (found["level"], found["logger"], found["node"]) == ("WARNING", "kpybroker.server", 3)
    assert found["message"] == f"client {text}"
    assert found["time"].endswith("Z")


def test_a_traceback_is_part_of_its_event() -> None:
    try:
        raise ValueError("a defect\nin two lines")
    except ValueError:
        record = logging.LogRecord("kpybroker", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    assert "ValueError: a defect\nin two lines" in event(line)["exception"]


def run(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "kpybroker", "start", "--port", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"},
    )


def test_a_start_that_is_refused_is_one_event_by_option_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    properties = tmp_path / "server.properties"
    properties.write_text("kpybroker.log.format=json\nunknown.key=1\n")
    for words in ([str(properties)], ["--log-format", "json", "--override", "num.partitions=many"]):
        process = run(*words, "--data", str(tmp_path / "data"), "--http", "off")
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        events = [event(line) for line in errors.splitlines()]
        assert events[-1]["level"] == "ERROR", errors
        assert "kpybroker: " not in events[-1]["message"]


@pytest.mark.parametrize("words", [["--log-format", "json"], ["--override", "kpybroker.log.format=json"]])
def test_a_node_that_serves_logs_its_number_and_tells_of_its_start_as_text(tmp_path: Path, words: list[str]) -> None:
    process = run("--data", str(tmp_path / "data"), "--http", "off", *words)
    assert process.stdout is not None
    assert any(READY in line for line in process.stdout)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    events = [event(line) for line in errors.splitlines()]
    assert [each["node"] for each in events] == [1] * len(events)
    assert events[-1]["message"] == "This node has stopped"
