"""Tests of the suites that are not played on ``--target kpybroker-zookeeper``, with the reason for each."""

from collections.abc import Mapping
from typing import Final

SKIPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "share groups need KRaft mode": ("test_share_groups.py",),
    "there is no quorum in ZooKeeper mode": ("test_quorum_requests.py", "test_protocol_controller.py"),
    "starts clusters of its own, whatever the target": (
        "test_zookeeper_controller.py",
        "test_zookeeper_mode.py",
        "test_failover.py",
        "test_replacement.py",
    ),
}
"""By the reason: files, or tests as ``file::test``, also by their beginnings."""


def reason(node_id: str) -> str | None:
    """Why the test of this id is not played; None if it is."""
    file, _, test = node_id.partition("::")
    name = f"{file.rpartition('/')[2]}::{test}"
    return next((why for why, beginnings in SKIPPED.items() if name.startswith(beginnings)), None)
