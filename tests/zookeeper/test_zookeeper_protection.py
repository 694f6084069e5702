"""Quotas, users, ACLs and delegation tokens of whole brokers in this process, at a simulated ZooKeeper."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from simulated import InMemory, SimulatedZooKeeper
from test_zookeeper_node import World, played

from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.metadata.image import BROKER_RESOURCE
from kpybroker.machines.sasl.scram import SCRAM_SHA_256
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.node.node import Node
from kpybroker.runtime.calls.principal import ANONYMOUS, Principal
from kpybroker.runtime.calls.steps import at_once
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.waiting import until

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
ALICE = Principal("User", "alice")
SECURED = {
    "authorizer_class_name": AUTHORIZER,
    "super_users": "User:ANONYMOUS",
    "delegation_token_secret_key": "secret",
}


async def asked(node: Node, request: Any, version: int, principal: Principal = ANONYMOUS) -> Any:
    """The answer to a request that a handler passes on."""
    assert node.broker is not None
    call: Any = SimpleNamespace(
        api_key=type(request).KEY,
        api_version=version,
        principal=principal,
        host="127.0.0.1",
        client_id="test",
        peer=SimpleNamespace(share=at_once),
    )
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node.broker.controller.forward(request, call, answered.set_result)
    return await asyncio.wait_for(answered, 20)


async def two(world: World, **changed: str) -> list[Node]:
    """Two brokers of one cluster; the first one is the controller."""
    nodes = []
    for broker_id in ("5", "6"):
        node = world.node(broker_id=broker_id, **{**SECURED, **changed})
        await node.start(MemoryDisk())
        nodes.append(node)
    await until(lambda: world.znode(paths.CONTROLLER) is not None)
    return nodes


def image_of(node: Node) -> Any:
    assert node.broker is not None
    return node.broker.image


def with_both(story: Callable[[World, Node, Node], Awaitable[None]], **changed: str) -> None:
    async def run(world: World) -> None:
        first, second = await two(world, **changed)
        await story(world, first, second)
        await second.stop()
        await first.stop()

    played(run)


def quota(value: float | None, **names: str | None) -> AlterClientQuotasRequest:
    entity = [
        AlterClientQuotasRequestEntityData(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in names.items()
    ]
    operation = OpData(key="producer_byte_rate", value=value or 0.0, remove=value is None)
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=[operation])
    return AlterClientQuotasRequest(entries=[entry], validate_only=False)


def allow(principal: str, name: str = "orders", operation: AclOperation = AclOperation.READ) -> CreateAclsRequest:
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )
    return CreateAclsRequest(creations=[creation])


def test_a_quota_of_one_broker_counts_at_the_other_and_leaves_nothing_when_it_is_gone() -> None:
    async def story(world: World, first: Node, second: Node) -> None:
        entity = (("client-id", "c 1"), ("user", "alice"))
        answer = await asked(first, quota(1024.0, user="alice", client_id="c 1"), 1)
        assert answer.entries[0].error_code == error_codes.NONE
        assert image_of(first).client_quotas[entity] == {"producer_byte_rate": 1024.0}
        await until(lambda: entity in image_of(second).client_quotas)
        content = world.znode("/config/users/alice/clients/c%201").data
        assert content == b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
        await asked(second, quota(None, user="alice", client_id="c 1"), 1)
        await until(lambda: not image_of(first).client_quotas)
        assert world.znode("/config/users/alice") is None

    with_both(story)


def test_without_a_controller_nothing_is_written() -> None:
    async def story(world: World, first: Node, _second: Node) -> None:
        moved = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":7}'
        world.znode(paths.CONTROLLER).data = moved
        answer = await asked(first, quota(5.0, user="alice"), 1)
        assert answer.entries[0].error_code == error_codes.STALE_CONTROLLER_EPOCH
        assert "a KRaft controller has the cluster" in answer.entries[0].error_message
        assert world.znode("/config/users/alice") is None

    with_both(story)


def test_only_the_controller_stores_users_and_every_broker_knows_them() -> None:
    async def story(world: World, first: Node, second: Node) -> None:
        credential = ScramCredentialUpsertion(
            name="alice", mechanism=SCRAM_SHA_256.code, iterations=4_096, salt=b"salt", salted_password=b"salted"
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential])
        refused = await asked(second, request, 0)
        assert refused.results[0].error_code == error_codes.NOT_CONTROLLER
        assert (await asked(first, request, 0)).results[0].error_code == error_codes.NONE
        await until(lambda: image_of(second).scram_credentials)
        assert image_of(second).scram_credentials == image_of(first).scram_credentials
        assert b'"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=' in world.znode("/config/users/alice").data

    with_both(story)


def test_a_credential_without_a_password_is_refused() -> None:
    async def story(world: World, first: Node, _second: Node) -> None:
        credential = ScramCredentialUpsertion(
            name="alice", mechanism=SCRAM_SHA_256.code, iterations=4_096, salt=b"salt", salted_password=b""
        )
        answer = await asked(first, AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential]), 0)
        assert answer.results[0].error_code == error_codes.UNACCEPTABLE_CREDENTIAL
        assert world.znode("/config/users/alice") is None

    with_both(story)


def test_acls_that_two_brokers_create_at_the_same_moment_are_all_kept() -> None:
    async def story(world: World, first: Node, second: Node) -> None:
        names = [f"User:{number}" for number in range(6)]
        nodes = [first, second] * 3
        answers = await asyncio.gather(*(asked(node, allow(name), 3) for node, name in zip(nodes, names, strict=True)))
        assert {each.results[0].error_code for each in answers} == {error_codes.NONE}
        for node in (first, second):
            await until(lambda node=node: {each.principal for each in image_of(node).acls.values()} == set(names))
        assert image_of(first).acls == image_of(second).acls
        assert world.znode("/kafka-acl/Topic/orders").data.count(b"principal") == len(names)

    with_both(story)


def test_a_config_deleted_by_another_broker_is_created_again() -> None:
    async def story(world: World, first: Node, second: Node) -> None:
        await asked(first, allow("User:alice"), 3)
        await until(lambda: image_of(second).acls)
        path = "/kafka/kafka-acl/Topic/orders"  # deleted without a notice that the first broker could have seen
        del world.server.nodes[path]
        del world.server.nodes["/kafka/kafka-acl/Topic"].children["orders"]
        notices = len(world.znode("/kafka-acl-changes").children)
        await asked(first, allow("User:alice"), 3)
        assert world.znode("/kafka-acl/Topic/orders").data.count(b"User:alice") == 1
        assert len(world.znode("/kafka-acl-changes").children) == notices + 1

    with_both(story)


@pytest.mark.parametrize("name", ["a/b", "a\nb\x00", "..", "x" * 300_000])
def test_names_that_no_znode_can_have_are_refused_and_nothing_is_written(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World, first: Node, _second: Node) -> None:
        before = set(world.server.nodes)
        creations = [allow(f"User:{number}", name).creations[0] for number in range(4)]
        for each in creations:
            each.principal = each.principal.ljust(len(name))
        answer = await asked(first, CreateAclsRequest(creations=creations), 3)
        refusals = (error_codes.INVALID_REQUEST, error_codes.UNKNOWN_SERVER_ERROR, error_codes.POLICY_VIOLATION)
        assert {each.error_code for each in answer.results} <= set(refusals)
        assert set(world.server.nodes) == before
        assert (await asked(first, allow("User:alice"), 3)).results[0].error_code == error_codes.NONE

    with_both(story)
    assert all("\n" not in each.getMessage() for each in caplog.records)


def test_acls_decide_at_every_broker_and_guard_what_it_writes() -> None:
    async def story(_world: World, first: Node, second: Node) -> None:
        answer = await asked(second, allow("User:bob"), 3, ALICE)
        assert answer.results[0].error_code == error_codes.CLUSTER_AUTHORIZATION_FAILED
        answer = await asked(second, quota(1.0, user="alice"), 1, ALICE)
        assert answer.entries[0].error_code == error_codes.CLUSTER_AUTHORIZATION_FAILED
        assert not image_of(second).client_quotas
        await asked(first, allow("User:alice"), 3)
        broker = second.broker
        assert broker is not None
        authorizer = broker.authorizer
        assert authorizer is not None
        question = (ALICE, "127.0.0.1", AclOperation.READ, ResourceType.TOPIC, "orders")
        await until(lambda: authorizer.allows(*question))
        wanted = DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter="User:alice",
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=Permission.ANY,
        )
        deleted = await asked(first, DeleteAclsRequest(filters=[wanted]), 3)
        assert [each.principal for each in deleted.filter_results[0].matching_acls] == ["User:alice"]
        await until(lambda: not authorizer.allows(*question))

    with_both(story)


def test_after_their_sessions_ended_brokers_know_what_has_changed_meanwhile() -> None:
    async def story(world: World, first: Node, second: Node) -> None:
        await asked(first, allow("User:alice"), 3)
        await asked(first, quota(5.0, user="alice"), 1)
        await until(lambda: image_of(second).acls and image_of(second).client_quotas)
        sessions = set(world.server.sessions)
        world.way.is_away = True
        for each in sessions:
            world.server.expire(each)
        for path in ("/kafka-acl/Topic/orders", "/config/users/alice"):
            del world.server.nodes[f"/kafka{path}"]
        del world.server.nodes["/kafka/kafka-acl/Topic"].children["orders"]
        del world.server.nodes["/kafka/config/users"].children["alice"]
        world.way.is_away = False
        for node in (first, second):
            await until(lambda node=node: not image_of(node).acls and not image_of(node).client_quotas)
        await until(lambda: world.znode(paths.broker(5)) and world.znode(paths.broker(6)))
        await asked(second, allow("User:bob"), 3)
        await until(lambda: image_of(first).acls)

    with_both(story)


def test_acls_may_be_in_a_zookeeper_of_their_own() -> None:
    async def story(world: World) -> None:
        elsewhere = SimulatedZooKeeper(random.Random(3), tick_ms=3_000)
        world.ways["acls"] = InMemory(elsewhere, asyncio.get_running_loop().call_soon)
        node = world.node(
            **SECURED, authorizer_zookeeper_url="acls:2181/own", authorizer_zookeeper_session_timeout_ms="9000"
        )
        await node.start(MemoryDisk())
        assert (await asked(node, allow("User:alice"), 3)).results[0].error_code == error_codes.NONE
        assert b"User:alice" in (elsewhere.nodes["/own/kafka-acl/Topic/orders"].data or b"")
        assert world.znode("/kafka-acl") is None
        assert [each.timeout_ms for each in elsewhere.sessions.values()] == [9_000]
        await node.stop()
        assert not elsewhere.sessions

    played(story)


def test_a_token_of_one_broker_is_known_at_the_other_until_it_has_expired() -> None:
    async def story(world: World, first: Node, second: Node) -> None:
        request = CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
        )
        created = await asked(second, request, 3, ALICE)
        assert created.error_code == error_codes.NONE
        await until(lambda: created.token_id in image_of(first).delegation_tokens)
        assert created.hmac not in world.znode(paths.token(created.token_id)).data
        wrong = ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1)
        answer = await asked(first, wrong, 2, Principal("User", "bob"))
        assert answer.error_code == error_codes.DELEGATION_TOKEN_OWNER_MISMATCH
        answer = await asked(first, ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=0), 2, ALICE)
        assert answer.error_code == error_codes.NONE
        await until(lambda: world.znode(paths.token(created.token_id)) is None)  # the controller deletes it
        await until(lambda: not image_of(second).delegation_tokens)

    with_both(story, delegation_token_expiry_check_interval_ms="50")


def test_without_a_secret_there_are_no_tokens() -> None:
    async def story(_world: World, first: Node, _second: Node) -> None:
        request = ExpireDelegationTokenRequest(hmac=b"any", expiry_time_period_ms=-1)
        answer = await asked(first, request, 2, ALICE)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (error_codes.DELEGATION_TOKEN_AUTH_DISABLED, -1)
        creation = CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
        )
        answer = await asked(first, creation, 3, ALICE)
        assert (answer.error_code, answer.issue_timestamp_ms) == (error_codes.DELEGATION_TOKEN_AUTH_DISABLED, -1)
        assert (answer.principal_name, answer.token_id, answer.hmac) == ("alice", "", b"")

    with_both(story, delegation_token_secret_key="")


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("/kafka-acl/Topic/orders", b"{", "The znode /kafka-acl/Topic/orders cannot be understood: it is not JSON"),
        ("/kafka-acl/Topic/orders", b'{"version":2,"acls":[]}', "its version is not 1"),
    ],
)
def test_acls_that_cannot_be_understood_refuse_the_start_in_one_line(path: str, content: bytes, message: str) -> None:
    async def story(world: World) -> None:
        first = world.node(**SECURED)
        await first.start(MemoryDisk())
        await asked(first, allow("User:alice"), 3)
        await first.stop()
        world.znode(path).data = content
        second = world.node(**SECURED)
        with pytest.raises(StartRefused, match=message):
            await second.start(MemoryDisk())
        await second.stop(controlled=False)
        assert world.znode(path).data == content
        assert world.znode(paths.broker(5)) is None

    played(story)


def test_quotas_and_users_that_cannot_be_understood_are_left_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        first = world.node(**SECURED)
        await first.start(MemoryDisk())
        await until(lambda: world.znode(paths.CONTROLLER) is not None)
        await asked(first, quota(5.0, user="alice"), 1)
        broken = b'{"version":1,"config":{"producer_byte_rate":"ten","SCRAM-SHA-256":"salt=c2VjcmV0"}}'
        world.znode("/config/users/alice").data = broken
        await first.stop()
        second = world.node(**SECURED)
        await second.start(MemoryDisk())
        await until(lambda: world.znode(paths.CONTROLLER) is not None)
        assert not image_of(second).client_quotas
        assert not image_of(second).scram_credentials
        unknown = b'{"version":1,"config":{"planet":"mars"}}'
        world.znode("/config/users/alice").data = unknown
        answer = await asked(second, quota(6.0, user="alice"), 1)
        assert answer.entries[0].error_code == error_codes.UNKNOWN_SERVER_ERROR
        assert world.znode("/config/users/alice").data == unknown
        await second.stop()

    played(story)
    reported = {each.getMessage() for each in caplog.records if "/config/users/alice" in each.getMessage()}
    assert len(reported) == 2
    assert "c2VjcmV0" not in "".join(reported)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, f"use {AUTHORIZER}"),
        ({"authorizer_zookeeper_session_timeout_ms": "soon"}, "is not a whole number above 0"),
        ({"password_encoder_secret": "s", "password_encoder_key_length": "100"}, "AES has keys of 128, 192 and 256"),
        ({"password_encoder_cipher_algorithm": "AES/GCM/NoPadding"}, "AES/CBC/PKCS5Padding"),
        ({"password_encoder_old_secret": "s"}, "set them again with the new secret"),
    ],
)
def test_a_configuration_that_cannot_be_kept_is_refused_in_one_line(changed: dict[str, str], message: str) -> None:
    async def story(world: World) -> None:
        async def start() -> None:
            await world.node(**{**SECURED, **changed}).start(MemoryDisk())

        with pytest.raises((ConfigError, StartRefused), match=message) as notified:
            await start()
        assert "\n" not in str(notified.value)

    played(story)


def test_limits_of_connections_that_are_stored_count_from_the_start() -> None:
    async def story(world: World) -> None:
        disk = MemoryDisk()
        first = world.node()
        await first.start(disk)
        await until(lambda: world.znode(paths.CONTROLLER) is not None)
        limit = AlterableConfig(name="max.connections", config_operation=0, value="7")
        resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="5", configs=[limit])
        answer = await asked(first, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert answer.responses[0].error_code == error_codes.NONE
        await first.stop()
        again = world.node()
        await again.start(disk)
        assert again.server is not None
        assert again.server.limits.connections.most == 7
        await again.stop()

    played(story)
