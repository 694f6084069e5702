"""Disks of a broker with cordoned log directories (KIP-1066): their free space is not offered to new replicas."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from kpybroker.client import cluster_load, cluster_requests
from kpybroker.client.cluster_load import BrokerDisks

Directory = tuple[int, int, bool]
"""The capacity, the free space, and whether it is cordoned."""


def disks(monkeypatch: pytest.MonkeyPatch, directories: Sequence[Directory]) -> BrokerDisks:
    found = [
        SimpleNamespace(error_code=0, total_bytes=total, usable_bytes=free, is_cordoned=cordoned, topics=[])
        for total, free, cordoned in directories
    ]
    monkeypatch.setattr(cluster_requests, "directories_with_replicas", lambda *_: found)
    return cluster_load.disks_of(SimpleNamespace(), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        ([(100, 40, False), (200, 50, False)], (300, 90, False)),
        ([(100, 40, False), (200, 50, True)], (100 + 150, 40, False)),
        ([(100, 40, False), (100, 40, True)], (100, 40, False)),
        ([(100, 40, True), (200, 50, True)], (300, 90, True)),
        ([(-1, -1, True)], (-1, -1, True)),
        ([], (-1, -1, True)),
    ],
    ids=["none", "one disk", "one directory of a disk", "all", "unknown sizes", "no directory"],
)
def test_only_the_used_part_of_a_cordoned_disk_counts(
    monkeypatch: pytest.MonkeyPatch, directories: list[Directory], expected: tuple[int, int, bool]
) -> None:
    assert disks(monkeypatch, directories)[:3] == expected
