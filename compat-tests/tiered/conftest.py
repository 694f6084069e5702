"""One broker with tiered storage for the tests that need no other."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import started
from support.clusters import Cluster
from support.raw_client import RawClient, connect
from tiered.nodes import PROGRAMS, store_of, tiered_cluster


@pytest.fixture(scope="session")
def tiered_target(target: str) -> str:
    """The program that the suites test, if it can have tiered storage."""
    if target not in PROGRAMS:
        pytest.skip(f"starts brokers with tiered storage, and does not know {target}")
    return target


@pytest.fixture(scope="session")
def tiered_node(tiered_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that the tests share, as a cluster of one."""
    with tiered_cluster(tiered_target, tmp_path_factory.mktemp("tiered")) as cluster:
        started.extend(cluster.processes)
        yield cluster
        for each in cluster.processes:
            started.remove(each)


@pytest.fixture
def store(tiered_node: Cluster) -> Path:
    """The directory with the segments of that broker."""
    return store_of(tiered_node.nodes[1].directory.parent)


@pytest.fixture
def client(tiered_node: Cluster) -> Iterator[RawClient]:
    """A connection to that broker."""
    with connect(tiered_node.bootstrap_servers) as raw:
        yield raw


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The name of a topic that does not exist yet."""
    stem = re.sub(r"[^a-zA-Z0-9.-]+", "-", request.node.name)[:80].strip("-.")
    return f"{stem}-{secrets.token_hex(4)}"
