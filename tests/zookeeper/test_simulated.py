"""The simulated ZooKeeper beside the real one: the same random operations have the same results, events and znodes."""

import asyncio
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from asking import Breakable, Recording, play, settings_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated import InMemory, SimulatedZooKeeper

from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.zookeeper.client.operations import (
    ALL,
    OPEN_ACL,
    READ,
    Check,
    Create,
    Delete,
    Exists,
    Get,
    GetAcl,
    GetChildren,
    Multi,
    Set,
    SetAcl,
    Stat,
    Sync,
    ZnodeAcl,
)
from kpybroker.machines.zookeeper.client.session import Lost, SessionState
from kpybroker.runtime.io.scheduler import ManualScheduler
from oracle.zookeeper import ZooKeeper

PATHS = st.sampled_from(["/a", "/b", "/a/c", "/a/d", "/b/e", "/a/c/f", "/"])
CREATED = PATHS | st.sampled_from(["/a/", "/b/n_"])
VERSIONS = st.sampled_from([-1, -1, 0, 1, 2])
VALUES = st.sampled_from([None, b"", b"1", "ü".encode()])
ACLS = st.sampled_from(
    [(ZnodeAcl(ALL, "world", "anyone"),)] * 6 + [(ZnodeAcl(READ, "world", "anyone"),), (), (ZnodeAcl(ALL, "auth", ""),)]
)
WRITES = st.one_of(
    # the parent of all chroots numbers their znodes: it is the same one in every example, on Apache ZooKeeper alone
    st.builds(Create, CREATED, VALUES, ACLS, st.booleans(), st.booleans()).filter(
        lambda each: each.path != "/" or not each.is_sequential
    ),
    st.builds(Create, CREATED, VALUES, st.just(OPEN_ACL), st.just(False), st.just(False)),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Set, PATHS, VALUES, VERSIONS),
)
OPERATIONS = st.one_of(
    WRITES,
    WRITES,
    st.builds(SetAcl, PATHS, ACLS, VERSIONS),
    st.builds(Exists, PATHS, st.booleans()),
    st.builds(Get, PATHS, st.booleans()),
    st.builds(GetChildren, PATHS, st.booleans()),
    st.builds(GetAcl, PATHS),
    st.builds(Multi, st.lists(WRITES | st.builds(Check, PATHS, VERSIONS), max_size=4).map(tuple)),
)
STEPS = st.lists(
    st.tuples(st.integers(0, 1), OPERATIONS | st.sampled_from(["break", "next session"])), min_size=1, max_size=40
)
_chroots = count()


class World:
    """Two clients of one ensemble, and the session ids of each in their order."""

    def __init__(self, connect: str, way: Any) -> None:
        self.network = [Breakable(), Breakable()] if way is None else [way, way]
        self.clients = [Recording(settings_of(connect), self.network[each]) for each in (0, 1)]
        self.sessions: dict[int, int] = {0: 0}

    async def begin(self, each: int) -> None:
        client = self.clients[each].client
        client.open()
        await client.wait_until_connected(10_000)
        self.sessions[client.session.session_id] = len(self.sessions)

    async def end(self) -> None:
        for each in self.clients:
            await each.client.close()
            await each.scheduler.close()


def masked(value: Any, world: World, first_zxid: int) -> Any:
    """A result without what differs from run to run: times, session ids, where zxids begin, the order of children."""
    if isinstance(value, Stat):
        zxids = {name: getattr(value, name) - first_zxid for name in ("czxid", "mzxid", "pzxid")}
        return value._replace(ctime=0, mtime=0, ephemeral_owner=world.sessions[value.ephemeral_owner], **zxids)
    if isinstance(value, tuple):
        return tuple(masked(each, world, first_zxid) for each in value)
    if isinstance(value, list):
        parts = [masked(each, world, first_zxid) for each in value]
        return sorted(parts) if all(isinstance(each, str) for each in parts) else parts
    return value


async def played(world: World, steps: list[tuple[int, Any]]) -> list[Any]:
    for each in (0, 1):
        await world.begin(each)
    await world.clients[0].client.ask(Create("/", None))
    first_zxid = (await world.clients[0].client.ask(Exists("/"))).czxid
    seen: list[Any] = []
    for each, step in steps:
        recording = world.clients[each]
        if step == "break":
            recording.client._give_up("the test breaks it")
            await recording.until(lambda at=recording: at.client.state is SessionState.CONNECTED)
            result: Any = "broken"
        elif step == "next session":
            await recording.client.close()
            await world.begin(each)
            result = "next"
        else:
            try:
                result = masked(await recording.client.ask(step), world, first_zxid)
            except ZooKeeperError as error:
                result = error.failed
        events = []
        for other in world.clients:
            await other.client.ask(Sync("/"))
            events.append(sorted(other.events))
            other.events.clear()
        seen.append((step, result, events))
    return seen


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.mark.java
def test_random_operations_have_the_same_results_as_on_apache_zookeeper(zookeeper: ZooKeeper) -> None:
    async def on_both(steps: list[tuple[int, Any]]) -> None:
        path = f"/r{next(_chroots)}"
        simulated = SimulatedZooKeeper(random.Random(1))
        # Each server is named several times: there is a pause after all have been tried.
        there = World(",".join([zookeeper.bootstrap_servers] * 9) + path, None)
        here = World(",".join(["simulated"] * 9) + path, InMemory(simulated, asyncio.get_running_loop().call_soon))
        try:
            assert await played(here, steps) == await played(there, steps)
        finally:
            await here.end()
            await there.end()

    @given(STEPS)
    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    def compared(steps: list[tuple[int, Any]]) -> None:
        play(lambda: on_both(steps))

    compared()


def test_a_simulated_session_expires_and_takes_its_znodes_along() -> None:
    scheduler = ManualScheduler()
    server = SimulatedZooKeeper(random.Random(1))
    way = InMemory(server, scheduler.call_soon)
    client = ZooKeeperClient(scheduler, way, settings_of("simulated", 1_000), random.Random(1))
    states: list[SessionState] = []
    client.on_state = states.append
    client.open()
    results: list[Any] = []
    client.submit(Create("/e", b"", is_ephemeral=True), results.append)
    scheduler.run()
    assert results == ["/e"]
    for _ in range(40):  # pings keep it alive
        scheduler.advance(100)
        server.pass_time(scheduler.monotonic_ms())
    assert "/e" in server.nodes
    way.is_away = True
    server.sessions[client.session.session_id].connection.end()  # type: ignore[union-attr]
    scheduler.run()
    client.submit(Set("/e", b""), results.append)
    for _ in range(12):
        scheduler.advance(100)
        server.pass_time(scheduler.monotonic_ms())
    assert "/e" not in server.nodes
    assert states == [SessionState.CONNECTED, SessionState.CONNECTING]
    way.is_away = False
    scheduler.advance(2_000)
    assert states[-1] is SessionState.EXPIRED
    assert results[1] == Lost(is_unknown=False, state=SessionState.EXPIRED)
