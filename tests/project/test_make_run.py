"""`make run`: two brokers side by side, each with a directory and two ports of its own."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from images import free_address
from sources import ROOT

from kpybroker.client.client import Client


@contextmanager
def made(data: Path, listen: str, http: str) -> Iterator[list[str]]:
    """The lines it wrote until it was ready. The environment is taken as it is: make believes that it is set up."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-o", f"{sys.prefix}/.runs", "run", f"VENV={sys.prefix}"]
    command += [f"DATA={data}", f"LISTEN={listen}", f"HTTP={http}"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        reported = []
        for line in process.stdout:
            reported.append(line.strip())
            if line.startswith("In Spark"):
                break
        yield reported
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=20)


def test_two_run_side_by_side(tmp_path: Path) -> None:
    listen, http = [free_address() for _ in range(2)], [free_address() for _ in range(2)]
    with (
        made(tmp_path / "first", listen[0], http[0]) as first,
        made(tmp_path / "second", listen[1], http[1]) as second,
    ):
        for reported, address, page in zip((first, second), listen, http, strict=True):
            assert any(line.startswith(f"kpybroker serves {address}, data in ") for line in reported), reported
            assert f"metrics on port {page.rpartition(':')[2]}: /metrics, /live, /ready" in reported
            with urllib.request.urlopen(f"http://{page}/ready", timeout=10) as answer:
                assert answer.status == 200
            with Client(address) as client:
                assert [f"{node.host}:{node.port}" for node in client.nodes()] == [address]


def test_the_list_of_targets_says_which_names_run_takes() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = re.findall(r"^ +make run .*$", shown, re.MULTILINE)
    assert {"DATA=", "LISTEN=", "HTTP="} <= set(re.findall(r"\w+=", line))
