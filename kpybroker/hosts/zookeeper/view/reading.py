"""Reads the znodes of a cluster, level by level, with a bounded number of requests at a time."""

import asyncio
from collections.abc import Iterable
from typing import Final

from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Get, GetChildren, Sync
from kpybroker.machines.zookeeper.snapshot import ReadZnode

AT_A_TIME: Final = 500
UNREADABLE: Final = (error_codes.NO_NODE, error_codes.NO_AUTH)
"""A znode that has just gone, or that only the brokers may read, is left out."""


async def read_tree(client: ZooKeeperClient) -> dict[str, ReadZnode]:
    """All znodes below the chroot, by path. Raises ZooKeeperError if the chroot is not there.

    The server first catches up with its leader. That writes nothing, and a server that the client moves to later is not
    behind it.
    """
    nodes: dict[str, ReadZnode] = {}
    await client.ask_until_answered(Sync("/"))
    await client.ask_until_answered(GetChildren("/"))
    level = ["/"]
    while level:
        below: list[str] = []
        for start in range(0, len(level), AT_A_TIME):
            some = level[start : start + AT_A_TIME]
            for path, node, children in await asyncio.gather(*(_read(client, path) for path in some)):
                if node is not None:
                    nodes[path] = node
                below += _paths(path, children)
        level = below
    return dict(sorted(nodes.items()))


def _paths(parent: str, names: Iterable[str]) -> list[str]:
    return [f"{parent.rstrip('/')}/{name}" for name in sorted(names) if parent != "/" or name != "zookeeper"]


async def _read(client: ZooKeeperClient, path: str) -> tuple[str, ReadZnode | None, list[str]]:
    try:
        found = await client.ask_until_answered(Get(path))
        children = (await client.ask_until_answered(GetChildren(path))).names if found.stat.num_children else []
    except ZooKeeperError as error:
        if error.code not in UNREADABLE:
            raise
        return path, None, []
    return path, ReadZnode(found.data, found.stat), children
