"""Quotas, users, ACLs, delegation tokens and configs of brokers in ZooKeeper, beside Apache Kafka 3.9.

The same requests to the controllers of two clusters, one of each program, must have the same answers and leave the same
znodes. Two brokers of one cluster, one of each program, follow what the other one writes.
"""

import random
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.sasl import scram
from kpybroker.machines.zookeeper.tree import paths
from kpywire import error_codes
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from oracle import BrokerProcess, jars, java
from support import permitted, quota_requests
from support.raw_client import RawClient
from support.zookeeper_clients import soon
from support.zookeeper_secured import SCRAM_MODULE, World, logged_in, port_of, secured_world, shown
from support.zookeeper_trees import kept, without_order

pytestmark = [pytest.mark.java, pytest.mark.slow]

ITERATIONS: Final = 4_096


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with secured_world(tmp_path_factory.mktemp("zookeeper-security")) as running:
        yield running


CONFIGS: Final = ("/config",)
ACLS: Final = ("/kafka-acl", "/kafka-acl-extended", "/kafka-acl-changes", "/kafka-acl-extended-changes")


def both(world: World, request: Any, version: int, below: tuple[str, ...] = CONFIGS) -> Any:
    """The answer of both controllers, which must be the same, with the same znodes after it."""
    answers = []
    for broker in (world.kafka, world.ours):
        with RawClient(port_of(broker)) as raw:
            answers.append(shown(raw.call(request, version)))
    assert answers[0] == answers[1], request
    kafkas, ours = (without_order(kept(tree, below)) for tree in (world.kafkas_tree, world.our_tree))
    assert ours == kafkas, (
        request,
        {
            path: (kafkas.get(path), ours.get(path))
            for path in sorted({*kafkas, *ours})
            if kafkas.get(path) != ours.get(path)
        },
    )
    return answers[0]


# Quotas

QUOTA_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
    "nonsense",
)
NAMES: Final = (None, "alice", "bob", "c 1", "ü/*", "<default>", "")
ADDRESSES: Final = (None, "10.0.0.1", "10.0.0.2", "::1", "not an address!")
LARGE: Final = (1e6, 1e9)
"""The quotas of defaults: they hold for the connections of this test too."""
VALUES: Final = (1.0, 1024.0, 10.5, 0.0, 1e12, 1e20, 2.0**31, 12345.678, 1e-7, 1e7, 0.001)


def an_entity(rng: random.Random) -> dict[str, str | None]:
    kinds = rng.choice((("user",), ("user",), ("client-id",), ("user", "client-id"), ("user", "client-id"), ("ip",)))
    if rng.random() < 0.05:
        kinds = rng.choice((("user", "ip"), ("planet",), ()))
    return {kind: rng.choice(ADDRESSES if kind == "ip" else NAMES) for kind in kinds}


def test_client_quotas_have_the_same_answers_and_znodes(world: World) -> None:
    rng = random.Random(1)
    changed = 0
    for _ in range(80):
        entries = []
        for _ in range(rng.choice((1, 1, 2))):
            names = an_entity(rng)
            keys = ("connection_creation_rate",) if "ip" in names and rng.random() < 0.9 else QUOTA_KEYS
            values = LARGE if None in names.values() else VALUES
            wanted = {
                key: rng.choice((None, *values)) for key in rng.sample(keys, min(len(keys), rng.choice((1, 1, 2))))
            }
            entries.append(quota_requests.entry(names, wanted))
        request = quota_requests.alteration(*entries, validate_only=rng.random() < 0.1)
        answer = both(world, request, 1)
        changed += sum(each["error_code"] == 0 for each in answer["entries"])
    assert changed > 20
    both(world, DescribeClientQuotasRequest(components=[], strict=False), 1)


# Features


def test_updates_of_features_have_the_same_answers_and_leave_the_same_znode(world: World) -> None:
    rng = random.Random(4)
    for _ in range(40):
        names = rng.choices(("metadata.version", "x", "", "kraft.version"), k=rng.choice((0, 1, 1, 2)))
        updates = [
            FeatureUpdateKey(feature=name, max_version_level=rng.choice((-1, 0, 1, 21)), upgrade_type=rng.randrange(5))
            for name in names
        ]
        request = UpdateFeaturesRequest(feature_updates=updates, validate_only=rng.random() < 0.2)
        both(world, request, 1, (paths.FEATURES,))
    for downgrade in (True, False):
        update = FeatureUpdateKey(feature="x", max_version_level=0, allow_downgrade=downgrade)
        both(world, UpdateFeaturesRequest(feature_updates=[update]), 0, (paths.FEATURES,))
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    seen = []
    for broker in (world.kafka, world.ours, world.guest):
        with RawClient(port_of(broker)) as raw:
            answer = raw.call(asked, 3)
        seen.append((answer.finalized_features_epoch, answer.finalized_features, answer.supported_features))
    assert seen == [(0, [], [])] * 3


# SCRAM credentials


def upsertion(name: str, mechanism: int, iterations: int = ITERATIONS, password: str = "pw") -> Any:
    salt = name.encode() or b"salt"
    known = scram.BY_CODE.get(mechanism, scram.SCRAM_SHA_256)
    salted = known.salted_password(password, salt, ITERATIONS)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def test_scram_credentials_have_the_same_answers_and_znodes(world: World) -> None:
    rng = random.Random(2)
    names = ("alice", "bob", "c 1", "")
    for _ in range(40):
        upsertions = [
            upsertion(rng.choice(names), rng.choice((1, 1, 2, 2, 9)), rng.choice((4_096, 4_096, 5_000, 100, 20_000)))
            for _ in range(rng.choice((0, 1, 1, 2)))
        ]
        deletions = [
            ScramCredentialDeletion(name=rng.choice(names), mechanism=rng.choice((1, 2, 9)))
            for _ in range(rng.choice((0, 0, 1, 2)))
        ]
        both(world, AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions), 0)
        asked = rng.choice((None, [], ["alice"], ["alice", "alice"], ["nobody", "bob"]))
        users = None if asked is None else [UserName(name=name) for name in asked]
        both(world, DescribeUserScramCredentialsRequest(users=users), 0)


# ACLs

ACL_NAMES: Final = ("orders", "ord", "*", "ü", "a/b", "")
PRINCIPALS: Final = ("User:alice", "User:bob", "User:*", "nobody", "User:CN=a,O=b")


def a_creation(rng: random.Random) -> Any:
    kind = rng.choice((2, 2, 2, 3, 4, 5, 6, 7))
    name = "kafka-cluster" if kind == 4 and rng.random() < 0.8 else rng.choice(ACL_NAMES)
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=rng.choice((3, 3, 4)),
        principal=rng.choice(PRINCIPALS),
        host=rng.choice(("*", "10.0.0.7")),
        operation=rng.choice((2, 3, 4, 8)),
        permission_type=rng.choice((2, 3, 3)),
    )


def a_filter(rng: random.Random) -> Any:
    return DeleteAclsFilter(
        resource_type_filter=rng.choice((1, 2, 2, 3)),
        resource_name_filter=rng.choice((None, "orders", "ord", "ordinary", "*")),
        pattern_type_filter=rng.choice((1, 2, 3, 4)),
        principal_filter=rng.choice((None, "User:alice")),
        host_filter=rng.choice((None, "*")),
        operation=rng.choice((1, 3)),
        permission_type=rng.choice((1, 3)),
    )


def test_acls_have_the_same_answers_and_znodes(world: World) -> None:
    rng = random.Random(3)
    for _ in range(60):
        if rng.random() < 0.6:
            # four of one resource at most: Java keeps a larger set in an order that changes from start to start
            creations = [a_creation(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
            both(world, CreateAclsRequest(creations=creations), 3, ACLS)
            crowded = [
                path for path, each in kept(world.our_tree, ACLS).items() if (each.content or b"").count(b"host") > 1
            ]
            for path in crowded:
                remove_all(world, path)
        else:
            filters = [a_filter(rng) for _ in range(rng.choice((1, 1, 2)))]
            both(world, DeleteAclsRequest(filters=filters), 3, ACLS)
        wanted = a_filter(rng)
        both(
            world,
            DescribeAclsRequest(
                resource_type_filter=wanted.resource_type_filter,
                resource_name_filter=wanted.resource_name_filter,
                pattern_type_filter=wanted.pattern_type_filter,
                principal_filter=wanted.principal_filter,
                host_filter=wanted.host_filter,
                operation=wanted.operation,
                permission_type=wanted.permission_type,
            ),
            3,
            ACLS,
        )


def remove_all(world: World, path: str) -> None:
    """Delete the ACLs of the resource of a znode."""
    kind, name = path.split("/")[-2:]
    pattern = PatternType.PREFIXED if "extended" in path else PatternType.LITERAL
    resource = next(each for each in ResourceType if each.pascal_name == kind)
    both(world, DeleteAclsRequest(filters=[filter_for(resource, name, pattern)]), 3, ACLS)


def filter_for(resource: ResourceType, name: str, pattern: PatternType) -> Any:
    return DeleteAclsFilter(
        resource_type_filter=resource,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )


# Configs of brokers


def altered(name: str, configs: Mapping[str, str | None]) -> IncrementalAlterConfigsRequest:
    changes = [
        AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
        for key, value in configs.items()
    ]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name=name, configs=changes)], validate_only=False
    )


def test_configs_of_brokers_have_the_same_answers_and_znodes(world: World) -> None:
    for name, configs in [
        ("", {"log.retention.ms": "100000000", "log.cleaner.threads": "2"}),
        ("1", {"log.retention.ms": "200000000", "message.max.bytes": "2000000", "log.segment.bytes": "20000000"}),
        ("1", {"log.retention.ms": None}),
        ("1", {"message.max.bytes": None, "log.segment.bytes": None}),
        ("", {"log.retention.ms": None, "log.cleaner.threads": None}),
    ]:
        answer = both(world, altered(name, configs), 1)
        assert answer["responses"][0]["error_code"] == 0, answer


DYNAMIC_BROKER_CONFIG: Final = 2
STATIC_BROKER_CONFIG: Final = 4


def source_at(broker: BrokerProcess, name: str, key: str) -> int:
    """The source of a config of a broker, as that broker sees it."""
    resource = DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=[key])
    with RawClient(port_of(broker)) as raw:
        described = raw.call(DescribeConfigsRequest(resources=[resource], include_synonyms=False), 4)
    (config,) = described.results[0].configs
    return int(config.config_source)


def test_a_password_that_one_program_encrypted_is_read_by_the_other(world: World) -> None:
    key = "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"
    parts = []
    for writer, reader, written, read in ((world.guest, world.kafka, "2", "1"), (world.kafka, world.guest, "1", "2")):
        with RawClient(port_of(writer)) as raw:
            answer = raw.call(altered(written, {key: f"{SCRAM_MODULE} required;"}), 1)
        assert answer.responses[0].error_code == 0
        content = world.kafkas_tree.get(f"/config/brokers/{written}")[0]
        assert SCRAM_MODULE.encode() not in content
        parts.append(re.findall(rb"(\w+):[^,{]+[,\"]", content))
        for moved, source in ((b'{"version":1,"config":{}}', STATIC_BROKER_CONFIG), (content, DYNAMIC_BROKER_CONFIG)):
            notify(world.kafkas_tree, read, moved)
            soon(lambda r=reader, n=read, s=source: source_at(r, n, key) == s)
    assert parts[0] == parts[1]
    assert len(parts[0]) == 8


def notify(tree: KazooClient, broker_id: str, content: bytes) -> None:
    """Replace the configs of a broker, and say so."""
    path = f"/config/brokers/{broker_id}"
    tree.ensure_path(path)
    tree.set(path, content)
    notice = f'{{"version":2,"entity_path":"brokers/{broker_id}"}}'.encode()
    tree.create("/config/changes/config_change_", notice, sequence=True)


# Each follows the other


def login(world: World, broker: str, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{world.secured[broker]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }
    )


def may_list(admin: AdminClient) -> bool:
    try:
        admin.list_topics(timeout=5)
    except KafkaException:
        return False
    return True


def test_a_user_of_apache_kafka_logs_in_at_kpybroker_and_its_acls_hold_there(world: World) -> None:
    with RawClient(port_of(world.kafka)) as raw:
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion("carol", 1, password="sesame")])
        assert raw.call(request, 0).results[0].error_code == 0
    admin = login(world, "guest", "carol", "sesame")
    soon(lambda: may_list(admin))
    assert not may_list(login(world, "guest", "carol", "wrong"))
    with RawClient(port_of(world.guest)) as guest, RawClient(port_of(world.kafka)) as kafka:
        refused = guest.call(request, 0)
        assert refused.results[0].error_code == error_codes.NOT_CONTROLLER
        allowing = AclCreation(
            resource_type=ResourceType.CLUSTER,
            resource_name="kafka-cluster",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:carol",
            host="*",
            operation=AclOperation.CREATE,
            permission_type=Permission.ALLOW,
        )
        for writer in (kafka, guest):
            for broker in ("kafka", "guest"):
                assert not creates(world, broker, validate=True)
            assert writer.call(CreateAclsRequest(creations=[allowing]), 3).results[0].error_code == 0
            for broker in ("kafka", "guest"):
                soon(lambda broker=broker: creates(world, broker, validate=True))
            everything = filter_for(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
            assert writer.call(DeleteAclsRequest(filters=[everything]), 3).filter_results[0].error_code == 0
            for broker in ("kafka", "guest"):
                soon(lambda broker=broker: not creates(world, broker, validate=True))


def creates(world: World, broker: str, *, validate: bool) -> bool:
    """Whether carol may create a topic, as this broker sees it."""
    admin = login(world, broker, "carol", "sesame")
    made = admin.create_topics([NewTopic("carols", 1, 1)], validate_only=validate, operation_timeout=10)
    try:
        made["carols"].result(10)
    except KafkaException as error:
        return bool(error.args[0].name() == "NOT_CONTROLLER")
    return True


def test_quotas_are_followed_from_one_to_the_other(world: World) -> None:
    asked = DescribeClientQuotasRequest(components=[], strict=False)
    writers: list[tuple[BrokerProcess, BrokerProcess, float]] = [
        (world.kafka, world.guest, 1_111.0),
        (world.guest, world.kafka, 2_222.0),
    ]
    for writer, reader, value in writers:
        names = {"user": "dave", "client-id": "d 1"}
        with RawClient(port_of(writer)) as raw:
            quota_requests.set_quotas(raw, names, producer_byte_rate=value)
        with RawClient(port_of(reader)) as raw:
            soon(lambda raw=raw, value=value: value in values_of(raw.call(asked, 1)))


def values_of(response: Any) -> list[float]:
    return [value.value for each in response.entries for value in each.values]


def test_acls_that_both_programs_create_at_the_same_time_are_all_kept(world: World) -> None:
    brokers, count = (world.kafka, world.guest), 20

    def create(number: int) -> None:
        with RawClient(port_of(brokers[number])) as raw:
            for each in range(count):
                creation = AclCreation(
                    resource_type=ResourceType.GROUP,
                    resource_name="contested",
                    resource_pattern_type=PatternType.LITERAL,
                    principal=f"User:{number}-{each}",
                    host="*",
                    operation=AclOperation.READ,
                    permission_type=Permission.ALLOW,
                )
                assert raw.call(CreateAclsRequest(creations=[creation]), 3).results[0].error_code == 0

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(create, range(2)))
    content = world.kafkas_tree.get("/kafka-acl/Group/contested")[0]
    assert set(re.findall(rb"User:(\d+-\d+)", content)) == {
        f"{number}-{each}".encode() for number in range(2) for each in range(count)
    }
    asked = DescribeAclsRequest(
        resource_type_filter=ResourceType.GROUP,
        resource_name_filter="contested",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )
    for broker in brokers:
        with RawClient(port_of(broker)) as raw:
            soon(lambda raw=raw: [len(each.acls) for each in raw.call(asked, 3).resources] == [2 * count])


# Delegation tokens

LIFETIME_MS: Final = 3_600_000


def a_token(raw: RawClient, renewer: str = "frank") -> Any:
    renewers = [CreatableRenewers(principal_type="User", principal_name=renewer)]
    request = CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, renewers=renewers, max_lifetime_ms=LIFETIME_MS
    )
    return raw.call(request, 3)


def masked(content: bytes | None, token_id: str) -> str:
    """A token in ZooKeeper without its id and its times."""
    return re.sub(r"\d{13}", "TIME", (content or b"").decode().replace(token_id, "ID"))


def test_tokens_have_the_same_answers_and_znodes(world: World) -> None:
    found = []
    for name, tree in (("kafka", world.kafkas_tree), ("ours", world.our_tree)):
        answers: list[Any] = []
        secured = world.secured[name]
        with permitted.logged_in(secured, "erin") as erin, permitted.logged_in(secured, "frank") as frank:
            created = a_token(erin)
            assert created.error_code == 0
            token_id, token_hmac = created.token_id, created.hmac
            assert created.expiry_timestamp_ms - created.issue_timestamp_ms == LIFETIME_MS
            answers.append(masked(tree.get(f"/delegation_token/tokens/{token_id}")[0], token_id))
            for asker, request, version in [
                (frank, RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=1_000_000), 2),
                (frank, RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=-1), 2),
                (frank, RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=0), 2),
                (frank, RenewDelegationTokenRequest(hmac=b"none", renew_period_ms=1), 2),
                (frank, ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=900_000), 2),
                (erin, RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=1_000_000), 2),
                (erin, DescribeDelegationTokenRequest(owners=None), 3),
                (erin, ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=-1), 2),
                (erin, ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=-1), 2),
            ]:
                text = repr(shown(asker.call(request, version)))
                hidden = text.replace(repr(token_hmac), "HMAC").replace(token_id, "ID")
                answers.append(re.sub(r"\d{13}", "TIME", hidden))
        answers.append([path.replace(token_id, "ID") for path in kept(tree, ("/delegation_token",))])
        found.append(answers)
    assert found[0] == found[1]


def test_a_token_of_one_program_opens_the_door_at_the_other(world: World) -> None:
    for maker, other in (("kafka", "guest"), ("guest", "kafka")):
        with permitted.logged_in(world.secured[maker], "erin") as erin:
            created = a_token(erin)
        secret = b64encode(created.hmac).decode()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            soon(lambda o=other, m=mechanism, c=created, s=secret: opens(world.secured[o], m, c.token_id, s))
        with permitted.logged_in(world.secured[other], "erin") as erin:
            ended = erin.call(ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1), 2)
            assert ended.error_code == 0
        soon(lambda m=maker, c=created, s=secret: not opens(world.secured[m], "SCRAM-SHA-256", c.token_id, s))


def opens(port: int, mechanism: str, token_id: str, secret: str) -> bool:
    """Whether one logs in with a token."""
    with RawClient(port) as raw:
        return logged_in(raw, mechanism, token_id, secret, by_token=True)


# Kafka's tools

TOOLS_CLIENTS: Final = "--entity-type users --entity-name tool --entity-type clients --entity-default"


@pytest.mark.parametrize(
    "command",
    [
        "AclCommand --add --allow-principal User:tool --consumer --topic t --group g",
        "AclCommand --list",
        "AclCommand --remove --allow-principal User:tool --topic t --force",
        "ConfigCommand --alter --entity-type users --entity-name tool --add-config consumer_byte_rate=77",
        f"ConfigCommand --alter {TOOLS_CLIENTS} --add-config request_percentage=7.5",
        "ConfigCommand --describe --entity-type users",
        "ConfigCommand --describe --entity-type users --entity-type clients",
    ],
)
def test_kafkas_tools_say_the_same_and_leave_the_same_znodes(world: World, command: str) -> None:
    tool, *arguments = command.split()
    reported = []
    for broker in (world.kafka, world.ours):
        words = ("--bootstrap-server", broker.bootstrap_servers, *arguments)
        done = java(f"kafka.admin.{tool}", *words, release=jars.KAFKA_BEFORE_4)
        assert done.returncode == 0, done.stdout + done.stderr
        parts = (part.strip() for line in done.stdout.splitlines() for part in line.split("\t"))
        reported.append(sorted(part for part in parts if "tool" in part))
    assert reported[0] == reported[1]
    kafkas, ours = without_order(kept(world.kafkas_tree)), without_order(kept(world.our_tree))
    assert {path: each for path, each in ours.items() if "tool" in path} == {
        path: each for path, each in kafkas.items() if "tool" in path
    }


# Last, since it changes the controller of Apache Kafka's cluster


def test_a_user_of_a_controller_of_kpybroker_logs_in_at_apache_kafka(world: World) -> None:
    tree = world.kafkas_tree
    while not (tree.exists("/controller") and b'"brokerid":2' in tree.get("/controller")[0]):
        with suppress(NoNodeError):
            tree.delete("/controller")
        soon(lambda: tree.exists("/controller"))
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion("heidi", 2, password="alps")])
    with RawClient(port_of(world.guest)) as raw:
        soon(lambda: raw.call(request, 0).results[0].error_code == 0)
    soon(lambda: may_list(login(world, "kafka", "heidi", "alps", "SCRAM-SHA-512")))
    assert not may_list(login(world, "kafka", "heidi", "andes", "SCRAM-SHA-512"))
