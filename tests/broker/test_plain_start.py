"""The modules that a plain start imports: one node, no security, nobody at the console. Each costs time and memory."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

PROGRAM = """
import os, signal, sys
from kpybroker.cli import start

def shown(node, **_options):
    print(*sorted(sys.modules), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

start._announce = shown
start.command(["--data", sys.argv[1], "--port", "0", "--http", "127.0.0.1:0", "--log-level", "ERROR"])
"""
ROOMS = {
    "kpybroker.cli": 5,
    "kpybroker.config": 27,
    "kpybroker.hosts.coordinators": 15,
    "kpybroker.hosts.leases": 3,
    "kpybroker.hosts.network": 7,
    "kpybroker.hosts.quorum": 22,
    "kpybroker.hosts.replicas": 22,
    "kpybroker.machines.authorization": 6,
    "kpybroker.machines.controller": 17,
    "kpybroker.machines.coordination": 2,
    "kpybroker.machines.fetch": 4,
    "kpybroker.machines.metadata": 18,
    "kpybroker.machines.partition": 7,
    "kpybroker.machines.raft": 21,
    "kpybroker.machines.sasl": 3,
    "kpybroker.machines.transactions": 2,
    "kpybroker.monitoring.console": 2,
    "kpybroker.monitoring.metrics": 4,
    "kpybroker.node.assembly": 16,
    "kpybroker.requests.dispatching": 7,
    "kpybroker.requests.server": 18,
    "kpybroker.requests.serving": 6,
    "kpybroker.runtime.calls": 11,
    "kpybroker.runtime.fairness": 10,
    "kpybroker.runtime.http": 6,
    "kpybroker.runtime.io": 10,
    "kpystorage.compaction": 4,
    "kpywire.messages": 28,
    "kpywire.metadata_records": 29,
}
"""The number of modules that a start may import of each package, itself included. Of others it imports none.

Where one more is worth its time and memory, the number grows with it."""
FLAT = {"cli", "config"}
MOST = 424
"""The number of all modules of ours."""
NOT_OF_A_START = {
    "_hashlib": "the digests of OpenSSL",
    "concurrent.futures.process": "worker processes",
    "encodings.idna": "names in other scripts",
    "jinja2": "the console's pages",
    "multiprocessing": "worker processes",
    "re2": "patterns in ACLs of groups",
    "unicodedata": "names in other scripts",
}
"""Modules of others, and what they are for. Some of these take a megabyte."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """By a start on a directory that an earlier one has formatted."""
    data = tmp_path_factory.mktemp("plain") / "data"
    for _ in range(2):
        command = (sys.executable, "-c", PROGRAM, str(data))
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split()


def test_a_plain_start_imports_no_more_of_each_package_than_it_needs(imported: Sequence[str]) -> None:
    ours = [name for name in imported if name.startswith("kpy")]
    counts = Counter(_package_of(name) for name in ours)
    grown = {package for package, count in counts.items() if count > ROOMS.get(package, 1)}
    assert [name for name in ours if _package_of(name) in grown] == []
    assert counts.keys() >= ROOMS.keys(), "a package that is gone stands in the list"
    assert len(ours) <= MOST


def test_a_plain_start_imports_nothing_that_only_other_nodes_need(imported: Sequence[str]) -> None:
    assert {name: NOT_OF_A_START[name] for name in imported if name in NOT_OF_A_START} == {}


def _package_of(name: str) -> str:
    """The package of the second level where packages are flat, else of the third, or the module if it is in none."""
    parts = name.split(".")
    return ".".join(parts[: 2 if parts[0] != "kpybroker" or FLAT & set(parts[1:2]) else 3])
