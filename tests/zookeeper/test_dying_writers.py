"""A broker that dies between its write to ZooKeeper and the answer: the others hear of what it has written."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from simulated import SimulatedZooKeeper, Znode
from test_lost_connections import played

from kpybroker.hosts.zookeeper.broker.entity_writes import write_configs
from kpybroker.hosts.zookeeper.broker.followed_acls import FollowedAcls
from kpybroker.hosts.zookeeper.broker.followed_tokens import FollowedTokens
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls, make_path, make_top_level
from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient
from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.controller.state import TokenSettings
from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpybroker.machines.zookeeper.client.operations import Create, Multi
from kpybroker.machines.zookeeper.client.session import Lost, SessionState
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.acls import ResourcePattern
from kpybroker.machines.zookeeper.tree.configs import CLIENTS, TOPICS, USERS, ConfigEntity
from kpybroker.machines.zookeeper.tree.controller import ElectedController
from kpybroker.runtime.calls.principal import Principal
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest

NO_ACLS = DefaultAcls(is_secure=False)
SECRET = TokenSecret("secret")
ANY_CALL: Any = SimpleNamespace(api_version=3, principal=Principal("User", "alice"), host="h")
NEW_TOKEN = CreateDelegationTokenRequest(
    owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
)


class Dying:
    """A client whose session ends before the answer to its first multi that is done."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client

    async def ask_until_answered(self, operation: Any) -> Any:
        answer = await self._client.ask(operation)
        if isinstance(operation, Multi):
            raise NoAnswer(Lost(is_unknown=True, state=SessionState.EXPIRED))
        return answer

    ask_if_there = ZooKeeperClient.ask_if_there


def notices(server: SimulatedZooKeeper, parent: str) -> list[Znode]:
    """The notices below a parent, the newest last."""
    return [server.nodes[f"{parent}/{name}"] for name in server.nodes[parent].children]


async def make_tree(client: ZooKeeperClient) -> None:
    """Make the znodes of a cluster with a controller."""
    await make_top_level(client, NO_ACLS)
    for path in (paths.TOKENS, paths.TOKEN_CHANGES):
        await make_path(client, NO_ACLS, path)
    await client.ask(Create(paths.CONTROLLER, ElectedController(5, 0).encode()))


@pytest.mark.parametrize("is_new", [True, False])
def test_configs_are_announced_although_their_writer_has_died(*, is_new: bool) -> None:
    entity = ConfigEntity(TOPICS, "orders")

    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        await make_tree(client)
        if not is_new:
            await client.ask(Create(entity.path, b"{}"))
        with pytest.raises(NoAnswer):
            await write_configs(Dying(client), NO_ACLS, entity, {"retention.ms": "5"})  # type: ignore[arg-type]
        assert b'"5"' in (server.nodes[entity.path].data or b"")
        (notice,) = notices(server, paths.CONFIG_CHANGES)
        assert notice.data == b'{"version":2,"entity_path":"topics/orders"}'
        assert notice.czxid == server.nodes[entity.path].mzxid, "one transaction"

    played(story)


@pytest.mark.parametrize("has_clients", [True, False])
def test_the_end_of_a_quota_is_announced_although_its_writer_has_died(*, has_clients: bool) -> None:
    entity = ConfigEntity(USERS, "alice")

    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        await make_tree(client)
        await write_configs(client, NO_ACLS, entity, {"producer_byte_rate": "5"})
        if has_clients:  # the znode stays, since there are quotas below it
            await client.ask(Create(f"{entity.path}/{CLIENTS}", b""))
        with pytest.raises(NoAnswer):
            await write_configs(Dying(client), NO_ACLS, entity, {})  # type: ignore[arg-type]
        assert (entity.path in server.nodes) == has_clients
        assert not has_clients or b'"5"' not in (server.nodes[entity.path].data or b"")
        written, ended = notices(server, paths.CONFIG_CHANGES)
        assert written.data == ended.data == b'{"version":2,"entity_path":"users/alice"}'
        assert ended.czxid == server.zxid, "one transaction"

    played(story)


@pytest.mark.parametrize(
    ("pattern", "parent", "content"),
    [
        (PatternType.LITERAL, paths.ACL_CHANGES, b"TOPIC:orders"),
        (
            PatternType.PREFIXED,
            paths.EXTENDED_ACL_CHANGES,
            b'{"version":1,"resourceType":"TOPIC","name":"orders","patternType":"PREFIXED"}',
        ),
    ],
)
def test_acls_are_announced_although_their_writer_has_died(pattern: PatternType, parent: str, content: bytes) -> None:
    path = ResourcePattern(ResourceType.TOPIC, "orders", pattern).path

    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        await acls_of(client).make_paths()
        for principal in ("User:alice", "User:bob"):  # the znode is created, and then replaced
            with pytest.raises(NoAnswer):
                await acls_of(Dying(client)).create(allowing(principal, pattern), ANY_CALL)
            assert principal.encode() in (server.nodes[path].data or b"")
            assert notices(server, parent)[-1].czxid == server.nodes[path].mzxid, "one transaction"
        with pytest.raises(NoAnswer):
            await acls_of(Dying(client)).delete(deleting(pattern), ANY_CALL)
        assert path not in server.nodes
        assert [each.data for each in notices(server, parent)] == [content] * 3

    played(story)


def test_tokens_are_announced_although_their_writer_has_died() -> None:
    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        await make_tree(client)
        with pytest.raises(NoAnswer):
            await tokens_of(Dying(client)).create(NEW_TOKEN, ANY_CALL)
        (token_id,) = server.nodes[paths.TOKENS].children
        path = paths.token(token_id)
        assert notices(server, paths.TOKEN_CHANGES)[-1].czxid == server.nodes[path].mzxid, "one transaction"
        for period_ms in (5, -1):  # the token gets another expiry, and then ends
            dying = tokens_of(Dying(client))
            await dying.begin()
            request = ExpireDelegationTokenRequest(hmac=SECRET.hmac_of(token_id), expiry_time_period_ms=period_ms)
            with pytest.raises(NoAnswer):
                await dying.expire(request, ANY_CALL)
            assert notices(server, paths.TOKEN_CHANGES)[-1].czxid == server.zxid, "one transaction"
            assert (path in server.nodes) == (period_ms > 0)
        assert [each.data for each in notices(server, paths.TOKEN_CHANGES)] == [token_id.encode()] * 3

    played(story)


def test_deletions_by_another_program_are_announced() -> None:
    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        await make_tree(client)
        tokens, acls = tokens_of(client), acls_of(client)
        await acls.begin()
        created = await tokens.create(NEW_TOKEN, ANY_CALL)
        await acls.create(allowing("User:alice", PatternType.LITERAL), ANY_CALL)
        for path in (paths.token(created.token_id), "/kafka-acl/Topic/orders"):
            server._remove(path)
        request = ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1)
        await tokens.expire(request, ANY_CALL)
        answer = await acls.delete(deleting(PatternType.LITERAL), ANY_CALL)
        assert [each.principal for each in answer.filter_results[0].matching_acls] == ["User:alice"]
        assert len(notices(server, paths.TOKEN_CHANGES)) == len(notices(server, paths.ACL_CHANGES)) == 2

    played(story)


def acls_of(client: Any) -> FollowedAcls:
    return FollowedAcls(client, NO_ACLS, lambda: 0, random.Random(1), lambda _records: None)


def tokens_of(client: Any) -> FollowedTokens:
    metadata, settings = ZooKeeperMetadata("c"), TokenSettings(SECRET, 1_000_000, 1_000_000)
    return FollowedTokens(client, NO_ACLS, metadata.image, settings, lambda: 0, random.Random(1), metadata.apply)


def allowing(principal: str, pattern: PatternType) -> CreateAclsRequest:
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="orders",
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=AclOperation.READ,
        permission_type=Permission.ALLOW,
    )
    return CreateAclsRequest(creations=[creation])


def deleting(pattern: PatternType) -> DeleteAclsRequest:
    wanted = DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="orders",
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )
    return DeleteAclsRequest(filters=[wanted])
