"""The quota of controller mutations and the bounds on a principal's topics hold in ZooKeeper mode as in KRaft mode."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from test_zookeeper_node import World, played

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.node.node import Node
from kpywire import error_codes
from support.quota_requests import set_quotas
from support.raw_client import RawClient
from support.raw_requests import creation, deletion, topic_named
from support.waiting import until


def with_controller(
    story: Callable[[Node, Callable[[Any, int], Awaitable[Any]]], Awaitable[None]], **configs: str
) -> None:
    """Play a story with a broker that is the controller, and a client of it."""

    async def run(world: World) -> None:
        node = world.node(**configs)
        await node.start(world.disk)
        await until(lambda: world.znode(paths.CONTROLLER) is not None)
        raw = await asyncio.to_thread(RawClient, node.ports["PLAINTEXT"], client_id="creator")

        def call(request: Any, version: int) -> Awaitable[Any]:
            return asyncio.to_thread(raw.call, request, version)

        try:
            await story(node, call)
        finally:
            raw.sock.close()
            await node.stop(controlled=False)

    played(run)


def codes(answer: Any) -> dict[str, int]:
    return {each.name: each.error_code for each in answer.topics}


def test_the_quota_of_mutations_refuses_and_its_bucket_outlives_a_request() -> None:
    async def story(node: Node, call: Callable[[Any, int], Awaitable[Any]]) -> None:
        with RawClient(node.ports["PLAINTEXT"]) as admin:
            await asyncio.to_thread(set_quotas, admin, {"user": "ANONYMOUS"}, controller_mutation_rate=1)
        answer = await call(creation(*(topic_named(name, 8) for name in ("m1", "m2", "m3"))), 7)
        assert codes(answer) == {"m1": 0, "m2": 0, "m3": error_codes.THROTTLING_QUOTA_EXCEEDED}
        assert answer.throttle_time_ms > 4_000
        with RawClient(node.ports["PLAINTEXT"]) as another:
            refused = await asyncio.to_thread(another.call, deletion("m1"), 6)
            assert refused.responses[0].error_code == error_codes.THROTTLING_QUOTA_EXCEEDED
            await asyncio.to_thread(set_quotas, another, {"user": "ANONYMOUS"}, controller_mutation_rate=None)
            allowed = await asyncio.to_thread(another.call, deletion("m1"), 6)
            assert allowed.responses[0].error_code == error_codes.NONE

    with_controller(story)


def test_the_windows_of_that_quota_are_those_of_the_config() -> None:
    async def story(node: Node, call: Callable[[Any, int], Awaitable[Any]]) -> None:
        with RawClient(node.ports["PLAINTEXT"]) as admin:
            await asyncio.to_thread(set_quotas, admin, {"user": "ANONYMOUS"}, controller_mutation_rate=1)
        answer = await call(creation(*(topic_named(name, 8) for name in ("m1", "m2", "m3"))), 7)
        assert codes(answer) == {"m1": 0, "m2": 0, "m3": 0}

    with_controller(story, controller_quota_window_num="30")


def test_a_principal_creates_no_more_than_its_bounds() -> None:
    async def story(_node: Node, call: Callable[[Any, int], Awaitable[Any]]) -> None:
        assert codes(await call(creation(topic_named("a"), topic_named("b")), 7)) == {"a": 0, "b": 0}
        third = (await call(creation(topic_named("c")), 7)).topics[0]
        assert third.error_code == error_codes.POLICY_VIOLATION
        assert "may have 2 (kpybroker.max.topics.per.principal)" in third.error_message

    with_controller(story, kpybroker_max_topics_per_principal="2")
