"""Finalised features in ZooKeeper mode: ``/feature``, the brokers that follow it, and UpdateFeatures."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asking import play, settings_of
from simulated import InMemory, SimulatedZooKeeper

from kpybroker.hosts.zookeeper.broker.followed_features import NO_EPOCH, FollowedFeatures
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.machines.zookeeper.client.operations import OPEN_ACL, Create, Delete, Set
from kpybroker.machines.zookeeper.controller import features
from kpybroker.machines.zookeeper.controller.steps import ControllerMoved, Steps, ZnodeWriter
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpywire import error_codes
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from support.waiting import until

UPGRADE, SAFE, UNSAFE = features.UPGRADE, features.SAFE_DOWNGRADE, features.UNSAFE_DOWNGRADE
ENABLED = b'{"features":{},"version":2,"status":1}'
OF_KAFKA_2_6 = b'{"features":{},"version":1,"status":0}'
OF_ANOTHER = b'{"features":{"x":{"min_version_level":1,"max_version_level":2}},"version":1,"status":1}'
NOT_SUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."


def played(story: Callable[[ZooKeeperClient], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        way = InMemory(SimulatedZooKeeper(random.Random(1)), loop.call_soon)
        client = ZooKeeperClient(LoopScheduler(loop), way, settings_of("a"), random.Random(1))
        client.open()
        await client.wait_until_connected(20_000)
        await client.ask(Create(paths.CONTROLLER_EPOCH, b"1"))
        await story(client)
        await client.close()

    play(run)


async def done(client: ZooKeeperClient, steps: Steps[Any]) -> None:
    """Do the steps of an event."""
    try:
        operations = next(steps)
        while True:
            operations = steps.send(await client.ask_all_until_answered(operations))
    except StopIteration:
        pass


@pytest.mark.parametrize(
    ("before", "after", "version"),
    [(None, ENABLED, 0), (ENABLED, ENABLED, 0), (OF_KAFKA_2_6, ENABLED, 1), (OF_ANOTHER, None, 1)],
)
def test_a_controller_makes_the_znode_of_features_or_renews_it(
    before: bytes | None, after: bytes | None, version: int
) -> None:
    async def story(client: ZooKeeperClient) -> None:
        if before is not None:
            await client.ask(Create(paths.FEATURES, before))
        await done(client, features.enable(ZnodeWriter(0, lambda _path: OPEN_ACL)))
        (found,) = await client.ask_all_until_answered([features.Get(paths.FEATURES)])
        assert found.stat.version == version
        if after is not None:
            assert found.data == after
        else:
            assert json.loads(found.data)["features"].keys() == {"x"}, "features that are finalised stay so"

    played(story)


def test_a_controller_that_was_replaced_does_not_make_it() -> None:
    async def story(client: ZooKeeperClient) -> None:
        await client.ask(Set(paths.CONTROLLER_EPOCH, b"2"))
        with pytest.raises(ControllerMoved):
            await done(client, features.enable(ZnodeWriter(0, lambda _path: OPEN_ACL)))

    played(story)


def test_a_broker_follows_the_epoch_of_features() -> None:
    async def story(client: ZooKeeperClient) -> None:
        epochs: list[int] = []
        failures: list[str] = []
        followed = FollowedFeatures(client, epochs.append, failures.append)
        client.on_event = lambda _event: followed.look()

        async def changed(operation: Any, heard: list[Any]) -> int:
            before = len(heard)
            if operation is not None:
                await client.ask(operation)
            await until(lambda: len(heard) > before)
            return len(heard)

        followed.look()
        await changed(None, epochs)
        for operation in (
            Create(paths.FEATURES, ENABLED),
            Set(paths.FEATURES, ENABLED),
            Set(paths.FEATURES, OF_KAFKA_2_6),
            Set(paths.FEATURES, b"no JSON"),
            Set(paths.FEATURES, ENABLED),
            Delete(paths.FEATURES),
            Create(paths.FEATURES, ENABLED),
        ):
            await changed(operation, epochs)
        assert epochs == [NO_EPOCH, 0, 1, NO_EPOCH, NO_EPOCH, 4, NO_EPOCH, 0]
        assert not failures
        await changed(Set(paths.FEATURES, OF_ANOTHER), failures)
        assert failures == ["/feature finalises features that this broker does not support: x"]

    played(story)


def update(name: str, level: int, kind: int = UPGRADE, *, downgrade: bool = False) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=downgrade)


TOO_LOW = "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request."
NOT_FINALISED = "Can not delete non-existing finalized feature."


@pytest.mark.parametrize(
    ("version", "updates", "expected"),
    [
        (1, [update("metadata.version", 21)], {"metadata.version": NOT_SUPPORTED}),
        (1, [update("", 1)], {"": "Feature name can not be empty."}),
        (1, [update("x", 1, 0), update("y", 1, 9)], dict.fromkeys("xy", "Received unknown upgrade type.")),
        (1, [update("x", 0, SAFE), update("y", -1, UNSAFE)], dict.fromkeys("xy", NOT_FINALISED)),
        (1, [update("x", 0)], {"x": TOO_LOW}),
        (1, [update("x", 1), update("x", 0, SAFE)], {"x": NOT_SUPPORTED}),
        (0, [update("x", 0, SAFE)], {"x": TOO_LOW}),
        (0, [update("x", 0, downgrade=True)], {"x": NOT_FINALISED}),
        (1, [], {}),
    ],
)
def test_each_update_of_a_feature_is_refused_for_kafkas_reason(
    version: int, updates: list[FeatureUpdateKey], expected: dict[str, str]
) -> None:
    answer = features.update_features(UpdateFeaturesRequest(feature_updates=updates), version)
    assert (answer.error_code, answer.error_message) == (error_codes.NONE, None)
    assert {each.feature: each.error_message for each in answer.results} == expected
    assert {each.error_code for each in answer.results} <= {error_codes.INVALID_REQUEST}
