"""One node in KRaft mode or in ZooKeeper mode, in this process and with the same configs, for tests of both modes."""

import asyncio
import http.client
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asking import play
from test_zookeeper_node import World

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import Node
from kpystorage.memory_disk import MemoryDisk

MODES = ("KRaft", "ZooKeeper")


@asynccontextmanager
async def running(mode: str, configs: dict[str, str]) -> AsyncIterator[Node]:
    """A node with these configs. Without others it has one plain listener and no second port."""
    own = {"kpybroker.http.listener": "", "log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0", **configs}
    if mode == "ZooKeeper":
        world = World()
        disk = world.disk
        node = world.node(**own)
    else:
        disk = MemoryDisk()
        node = Node(BrokerConfig.load(None, own), asyncio.get_running_loop(), pytest.fail)
    try:
        await node.start(disk)
        yield node
    finally:
        await node.stop()


def played(mode: str, story: Callable[[Node], Awaitable[None]], configs: dict[str, str]) -> None:
    """Play a story on a running node."""

    async def run() -> None:
        async with running(mode, configs) as node:
            await story(node)

    play(run)


async def never(_node: Node) -> None:
    """The story of a node whose start is refused."""
    pytest.fail("it has started")


def asked(
    node: Node, path: str, headers: dict[str, str] | None = None, user: str = "", context: Any = None
) -> Awaitable[tuple[int, str]]:
    """The status and the text of an answer to GET, or to POST where leases are asked for."""

    def ask() -> tuple[int, str]:
        assert node.http_port is not None
        connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=30)
        if context is not None:
            connection = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=30, context=context)
        given = {"Authorization": "Basic " + b64encode(user.encode()).decode()} if user else {}
        body = json.dumps({"partitions": []}) if path == "/leases" else None
        given |= {"Content-Type": "application/json"} if body else {}
        connection.request("POST" if body else "GET", path, body=body, headers={**given, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    return asyncio.to_thread(ask)


async def statuses(node: Node, paths: tuple[str, ...], **how: Any) -> list[int]:
    return [(await asked(node, path, **how))[0] for path in paths]
