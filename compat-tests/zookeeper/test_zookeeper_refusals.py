"""The refusals of brokers in ZooKeeper mode, beside Apache Kafka 3.9: requests for the controller at another broker,
with and without permission for them, configs of brokers that cannot change, and envelopes."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from kazoo.exceptions import NoNodeError

from kpybroker.machines.zookeeper.broker.apis import NEWEST, ONLY_ON_THE_CONTROLLER
from kpywire import api, error_codes
from kpywire.messages.alter_configs import AlterableConfig as WholeConfig
from kpywire.messages.alter_configs import AlterConfigsRequest
from kpywire.messages.alter_configs import AlterConfigsResource as WholeResource
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.metadata import MetadataRequest
from oracle import BrokerProcess
from support import permitted
from support.envelopes import envelope_of
from support.plausible_requests import plausible
from support.raw_client import RawClient
from support.zookeeper_clients import soon
from support.zookeeper_secured import World, port_of, secured_world, shown
from support.zookeeper_trees import kept, without_order

pytestmark = [pytest.mark.java, pytest.mark.slow]

KAFKA, GUEST = 1, 2
"""The brokers of one cluster: Apache Kafka and kpybroker."""
BROKER: Final = 4


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with secured_world(tmp_path_factory.mktemp("zookeeper-refusals")) as running:
        yield running


def rule(world: World, broker_id: int) -> None:
    """Make a broker the controller, and wait until both know it."""
    tree = world.kafkas_tree
    named = b'"brokerid":%d,' % broker_id
    while not (tree.exists("/controller") and named in tree.get("/controller")[0]):
        with suppress(NoNodeError):
            tree.delete("/controller")
        soon(lambda: tree.exists("/controller"))
    for broker in (world.kafka, world.guest):
        with RawClient(port_of(broker)) as raw:
            soon(lambda raw=raw: raw.call(MetadataRequest(topics=[]), 9).controller_id == broker_id)


USERS: Final = ("erin", "admin")
"""One without any permission, and a super user."""


def asked(key: int) -> tuple[Any, int]:
    """A request, and its newest version. Brokers' own requests are empty."""
    newest = NEWEST.get(key, 3)
    return plausible(key, newest, "no-such-topic") or api.request_class(key)(), newest


def without_words_of_a_denial(answer: Any) -> Any:
    """Apache Kafka's words name objects of its memory, or are missing; clients then show the text of the error."""
    if isinstance(answer, list):
        return [without_words_of_a_denial(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    found = {name: without_words_of_a_denial(each) for name, each in answer.items()}
    if found.get("error_code") == error_codes.CLUSTER_AUTHORIZATION_FAILED and "error_message" in found:
        found["error_message"] = error_codes.message(error_codes.CLUSTER_AUTHORIZATION_FAILED)
    return found


@pytest.fixture(scope="module")
def refused(world: World) -> dict[str, dict[tuple[int, str], Any]]:
    """The answers of the broker that is not the controller, of each program, by API and user."""
    found: dict[str, dict[tuple[int, str], Any]] = {}
    for other, controller in (("guest", KAFKA), ("kafka", GUEST)):
        rule(world, controller)
        found[other] = {}
        for user in USERS:
            with permitted.logged_in(world.secured[other], user) as raw:
                for key in ONLY_ON_THE_CONTROLLER:
                    found[other][key, user] = without_words_of_a_denial(shown(raw.call(*asked(key))))
    return found


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("key", sorted(ONLY_ON_THE_CONTROLLER), ids=lambda key: api.API_KEYS[key].name)
def test_a_broker_that_is_not_the_controller_refuses_as_kafka_does(
    refused: dict[str, dict[tuple[int, str], Any]], key: int, user: str
) -> None:
    assert refused["guest"][key, user] == refused["kafka"][key, user]


@pytest.mark.parametrize("user", USERS)
def test_topics_are_not_created_by_other_brokers_whatever_the_permission(
    refused: dict[str, dict[tuple[int, str], Any]], user: str
) -> None:
    (topic,) = refused["guest"][api.CREATE_TOPICS, user]["topics"]
    assert (topic["error_code"], topic["error_message"]) == (error_codes.NOT_CONTROLLER, "")


# Configs of brokers

SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN: Final = "no.such.config"
"""Apache Kafka answers an operation on it as a list with UNKNOWN_SERVER_ERROR, and kpybroker with INVALID_CONFIG."""
CONFIGS: Final = (
    ("zookeeper.connect", "elsewhere:2181"),
    ("zookeeper.session.timeout.ms", "6000"),
    (UNKNOWN, "1"),
    ("broker.id", "7"),
    ("log.dir", "/elsewhere"),
    ("process.roles", "broker"),
    ("authorizer.class.name", "nobody"),
    ("inter.broker.protocol.version", "3.8"),
    ("log.retention.ms", "never"),
)


def answered(broker: BrokerProcess, request: Any, version: int) -> Any:
    with RawClient(port_of(broker)) as raw:
        return shown(raw.call(request, version))


@pytest.mark.parametrize(("key", "value"), CONFIGS)
def test_configs_that_a_broker_cannot_change_are_refused_as_kafka_does(world: World, key: str, value: str) -> None:
    for name in ("1", "", "7", "one"):
        for operation in (SET, DELETE) if key == UNKNOWN else (SET, APPEND, SUBTRACT, DELETE):
            change = AlterableConfig(name=key, config_operation=operation, value=None if operation == DELETE else value)
            resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[change])
            compare(world, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    for name in ("1", ""):
        all_of_it = WholeResource(
            resource_type=BROKER, resource_name=name, configs=[WholeConfig(name=key, value=value)]
        )
        compare(world, AlterConfigsRequest(resources=[all_of_it], validate_only=False), 2)
        nothing = WholeResource(resource_type=BROKER, resource_name=name, configs=[])
        compare(world, AlterConfigsRequest(resources=[nothing], validate_only=False), 2)


def compare(world: World, request: Any, version: int) -> None:
    """Both controllers answer alike and leave the same znodes."""
    assert answered(world.ours, request, version) == answered(world.kafka, request, version), request
    kafkas, ours = (without_order(kept(tree, ("/config",))) for tree in (world.kafkas_tree, world.our_tree))
    assert ours == kafkas, request


# Envelopes


def test_an_envelope_ends_the_connection(world: World) -> None:
    """Forwarding (KIP-590) is for brokers of a KRaft controller."""
    inside = plausible(api.CREATE_TOPICS, 7, "in-an-envelope")
    for broker in (world.kafka, world.ours):
        with RawClient(port_of(broker)) as raw:
            raw.send(envelope_of(inside, 7), 0)
            assert raw.is_closed()
