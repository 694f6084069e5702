"""Controllers come to a quorum by themselves, also with emptied disks (``controller.quorum.auto.join.enable``)."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.test_cluster_grows import GrowingNode
from cluster.test_cluster_grows import first as first
from kpybroker.client.client import Client
from support.admin_requests import quorum_of
from support.quorum_requests import METADATA
from support.waiting import eventually

pytestmark = pytest.mark.slow
PATIENCE_S = 60


class JoiningNode(GrowingNode):
    """A node that asks to become a voter."""

    def __init__(self, node_id: int, known: GrowingNode, directory: Path) -> None:
        super().__init__(node_id, known.place, directory)
        self.properties |= {
            "controller.quorum.auto.join.enable": "true",
            "controller.quorum.fetch.timeout.ms": "500",
        }

    def empty_disk(self) -> None:
        """It comes back with nothing, under the same id."""
        shutil.rmtree(self.directory / "data")


@pytest.fixture
def nodes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def voters(node: GrowingNode) -> dict[int, bytes]:
    """Their directories' ids by their own, as the quorum's leader says."""
    with Client(node.bootstrap_servers) as client:
        (partition,) = client.call(quorum_of((METADATA, [0]))).topics[0].partitions
    return {each.replica_id: each.replica_directory_id for each in partition.current_voters}


def wait_for(wanted: set[int], node: GrowingNode, *, without: bytes = b"") -> dict[int, bytes]:
    found: dict[int, bytes] = {}

    def are_so() -> bool:
        found.clear()
        found.update(voters(node))
        return set(found) == wanted and without not in found.values()

    eventually(are_so, lambda: f"the voters {wanted}, and they are {found}")
    return found


def test_controllers_join_and_come_back_with_an_emptied_disk(
    first: GrowingNode, tmp_path: Path, nodes: ExitStack
) -> None:
    second, third = (nodes.enter_context(JoiningNode(number, first, tmp_path / str(number))) for number in (2, 3))
    before = wait_for({1, 2, 3}, first)
    third.kill()
    third.empty_disk()
    third.prepare()
    third.start()
    after = wait_for({1, 2, 3}, first, without=before[3])
    assert {number for number in before if before[number] != after[number]} == {3}
    first.kill()
    assert set(voters(second)) == {1, 2, 3}, "two of three are enough"
