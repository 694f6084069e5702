"""Paths of the APIs that look after topics, configs, the cluster and its security: see `error_paths`."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from differential.steps import learned
from differential.world import call
from kpywire import api
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.create_acls import CreateAclsRequest
from kpywire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kpywire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.list_config_resources import ListConfigResourcesRequest
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.unregister_controller import UnregisterControllerRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.uuid import ZERO_UUID
from support.admin_requests import acl, acl_filter, quorum_of
from support.quorum_requests import addition_of, removal_of
from support.quota_requests import alteration as change_of_quotas
from support.quota_requests import entry
from support.raw_requests import (
    INVALID_NAMES,
    TOPIC,
    UNKNOWN_ID,
    alteration,
    creation,
    deletion,
    incremental_alteration,
    topic_named,
)

BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NO_SUCH_NODE = 1 << 30
MEANT_FROM = 5
"""The first version of ApiVersions that says which cluster and node the client means."""
BAD_CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("retention.ms", "soon"), ("retention.ms", None), ("no.such.config", "1"), ("cleanup.policy", "none"),
    ("max.message.bytes", "-1"), ("segment.bytes", "13"), ("compression.type", "brotli"), ("", "1"),
    ("min.cleanable.dirty.ratio", "2"), ("message.timestamp.type", "Never"), ("preallocate", "maybe"),
    ("leader.replication.throttled.replicas", "nonsense"), ("unclean.leader.election.enable", ""),
)  # fmt: skip


def _create_topics(version: int) -> Iterator[Any]:
    new = f"~new{version}"
    wanted = [topic_named(name) for name in (new, "~t0", *INVALID_NAMES, "__consumer_offsets")]
    wanted += [topic_named(f"{new}x", count, factor) for count, factor in ((0, 1), (-2, 1), (1, 0), (1, 2), (1, -2))]
    assignments: list[list[tuple[int, list[int]]]] = [
        [(0, [1]), (0, [1])], [(1, [1])], [(0, [])], [(0, [1, 1])], [(0, [77])], [(0, [-1])], [(0, [1]), (1, [])],
    ]  # fmt: skip
    wanted += [topic_named(f"{new}y", -1, -1, each) for each in assignments]
    wanted += [topic_named(f"{new}z", 2, -1, [(0, [1])]), topic_named(f"{new}z", -1, 2, [(0, [1])])]
    wanted += [topic_named(f"{new}c", configs={name: value}) for name, value in BAD_CONFIGS]
    wanted += [topic_named(f"{new}d", -1, -1), topic_named(f"{new}e", 1, 1, configs={"retention.ms": "77000"})]
    wanted += [topic_named(f"{new}.f"), topic_named(f"{new}_f")]
    for each in wanted:
        yield call("admin", version, creation(each))
    if version >= 1:
        yield call("admin", version, creation(topic_named(f"{new}v"), topic_named("~t0"), validate_only=True))
    yield call("admin", version, creation(topic_named(f"{new}w"), topic_named(f"{new}w")))
    yield call("admin", version, creation())
    for partitions in (1, 20_000, 2**31 - 1):  # together they overflow, and the last one has no replicas
        other = topic_named(f"{new}h", partitions, int(partitions < 2**31 - 1))
        yield call("admin", version, creation(topic_named(f"{new}g", 2**31 - 1, 2), other))


def _delete_topics(version: int) -> Iterator[Any]:
    yield call("admin", 7, creation(topic_named("~gone"), topic_named("~left")))
    if version < 6:
        for names in (["~nowhere", "", "a b"], ["~gone", "~gone"], ["~gone"], ["~gone"], []):
            yield DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
        yield call("admin", 5, deletion("~left", version=5))
        return
    known = learned("topic_id", "~gone")
    for topics in (
        [DeleteTopicState(name="~nowhere", topic_id=bytes(16)), DeleteTopicState(name="", topic_id=bytes(16))],
        [DeleteTopicState(name=None, topic_id=UNKNOWN_ID)],
        [DeleteTopicState(name=None, topic_id=bytes(16))],
        [DeleteTopicState(name="~gone", topic_id=known)],
        [DeleteTopicState(name="~gone", topic_id=bytes(16)), DeleteTopicState(name="~gone", topic_id=bytes(16))],
        [DeleteTopicState(name="~gone", topic_id=bytes(16)), DeleteTopicState(name=None, topic_id=known)],
        [DeleteTopicState(name=None, topic_id=known), DeleteTopicState(name=None, topic_id=known)],
        [DeleteTopicState(name=None, topic_id=known)],
        [DeleteTopicState(name=None, topic_id=known)],
        [],
    ):
        yield DeleteTopicsRequest(topics=topics, timeout_ms=30_000)
    yield call("admin", 6, deletion("~left"))


def _create_partitions(version: int) -> Iterator[Any]:
    def asking(name: str, count: int, *brokers: list[int], validate: bool = False) -> Any:
        assigned = [CreatePartitionsAssignment(broker_ids=each) for each in brokers] or None
        topic = CreatePartitionsTopic(name=name, count=count, assignments=assigned)
        return call(
            "admin", version, CreatePartitionsRequest(topics=[topic], timeout_ms=30_000, validate_only=validate)
        )

    of = f"~grows{version}"
    yield call("admin", 7, creation(topic_named(of)))
    for name, count in (("~nowhere", 2), ("", 2), (of, 1), (of, 0), (of, -1), ("a b", 3)):
        yield asking(name, count)
    for brokers in ([[1]], [[77], [1]], [[], [1]], [[1, 1], [1]], [[-1], [1]], [[1], [1], [1]], [[1], [1]]):
        yield asking(of, 3, *brokers, validate=True)
    if version == 3:
        yield asking(of, 2**31 - 1)
    yield asking(of, 2)
    yield asking(of, 3, [1])
    twice = [CreatePartitionsTopic(name=of, count=9, assignments=None)] * 2
    yield call("admin", version, CreatePartitionsRequest(topics=twice, timeout_ms=30_000, validate_only=True))
    yield CreatePartitionsRequest(topics=[], timeout_ms=30_000, validate_only=False)


def _metadata(version: int) -> Iterator[Any]:
    def asking(*topics: MetadataRequestTopic, **fields: Any) -> MetadataRequest:
        return MetadataRequest(topics=list(topics), **{"allow_auto_topic_creation": False, **fields})

    for name in ("~t0", "~nowhere" if version >= 4 else "~t0", *INVALID_NAMES):
        yield asking(MetadataRequestTopic(name=name))
    yield asking(MetadataRequestTopic(name="~t0"), MetadataRequestTopic(name="~t0"))
    yield call("admin", version, asking(MetadataRequestTopic(name=f"~made{version}"), allow_auto_topic_creation=True))
    yield asking(MetadataRequestTopic(name=f"~made{version}"))
    if version >= 1:
        yield MetadataRequest(topics=None, allow_auto_topic_creation=False)
        yield asking()
    if version >= 10:
        yield asking(MetadataRequestTopic(name="~t0", topic_id=UNKNOWN_ID))
        yield asking(MetadataRequestTopic(name=None, topic_id=learned("topic_id", "~t0")))
        yield asking(MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID))
        yield asking(MetadataRequestTopic(name=None, topic_id=bytes(16)))
        yield asking(
            MetadataRequestTopic(name="~t0"), MetadataRequestTopic(name=None, topic_id=learned("topic_id", "~t0"))
        )


def _describe_topic_partitions(version: int) -> Iterator[Any]:  # noqa: ARG001
    for names, limit, cursor in (
        (["~t0"], 2000, None), (["~nowhere", "~t0"], 2000, None), (["a b"], 10, None), (["~t0"], 0, None),
        (["~t0"], -1, None), (["~small", "~t0"], 1, None), (["~t0"], 1, ("~t0", 0)), (["~t0"], 1, ("~t0", 5)),
        (["~t0"], 1, ("~t0", -1)), (["~t0"], 1, ("~nowhere", 0)), ([], 10, ("~t0", 0)), ([], 10, ("~nowhere", 0)),
    ):  # fmt: skip
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=each) for each in names], response_partition_limit=limit
        )
        if cursor is not None:
            name, index = cursor
            request.cursor = DescribeTopicPartitionsRequestCursor(topic_name=name, partition_index=index)
        yield request


def _describe_configs(version: int) -> Iterator[Any]:
    for kind, name in (
        (TOPIC, "~t0"), (TOPIC, "~nowhere"), (TOPIC, ""), (TOPIC, "a b"), (BROKER, "1"), (BROKER, ""), (BROKER, "77"),
        (BROKER, "x"), (BROKER_LOGGER, "1"), (BROKER_LOGGER, ""), (BROKER_LOGGER, "77"), (BROKER_LOGGER, "x"),
        (GROUP, "~g"), (GROUP, ""), (CLIENT_METRICS, "~m"), (CLIENT_METRICS, ""), (1, "x"), (0, "x"), (99, "x"),
    ):  # fmt: skip
        keys = ["retention.ms", "message.max.bytes", "no.such.config"] if kind in (BROKER, BROKER_LOGGER) else None
        wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        yield DescribeConfigsRequest(
            resources=[wanted, wanted], include_synonyms=True, include_documentation=version >= 3
        )
    for keys in ([], ["cleanup.policy"], ["no.such.config"]):
        wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name="~t0", configuration_keys=keys)
        yield DescribeConfigsRequest(resources=[wanted])


RESOURCES = (
    (TOPIC, "~nowhere"), (TOPIC, ""), (TOPIC, "a b"), (BROKER, "77"), (BROKER, "x"), (BROKER_LOGGER, "77"),
    (BROKER_LOGGER, ""), (GROUP, ""), (CLIENT_METRICS, ""), (1, "x"), (0, "x"), (99, "x"),
)  # fmt: skip


def _alter_configs(version: int) -> Iterator[Any]:
    for kind, name in RESOURCES:
        yield alteration((kind, name, {"retention.ms": "70000"}))
    for name, value in BAD_CONFIGS:
        yield call("admin", version, alteration((TOPIC, "~t0", {name: value})))
    for kind, config in ((GROUP, "consumer.session.timeout.ms"), (CLIENT_METRICS, "interval.ms"), (BROKER, "node.id")):
        for value in ("1", "soon", None):
            yield alteration((kind, "1" if kind == BROKER else "~of", {config: value}), validate_only=True)
    yield alteration((TOPIC, "~t0", {"retention.ms": "70000"}), validate_only=True)
    yield call("admin", 2, alteration((TOPIC, "~t0", {"retention.ms": "70000"})))
    yield call("admin", 2, alteration((TOPIC, "~t0", {})))
    yield alteration()


def _incremental_alter_configs(version: int) -> Iterator[Any]:
    for kind, name in RESOURCES:
        yield incremental_alteration((kind, name, [("retention.ms", SET, "70000")]))
    operations = [(name, SET, value) for name, value in BAD_CONFIGS]
    operations += [("cleanup.policy", APPEND, "compact"), ("cleanup.policy", SUBTRACT, "delete")]
    operations += [("cleanup.policy", APPEND, "none"), ("retention.ms", APPEND, "1"), ("retention.ms", SUBTRACT, "1")]
    operations += [("retention.ms", DELETE, None), ("no.such.config", DELETE, None), ("cleanup.policy", APPEND, None)]
    operations += [("retention.ms", SET, "70000"), ("retention.ms", DELETE, None), ("cleanup.policy", DELETE, "x")]
    for each in operations:
        yield call("admin", version, incremental_alteration((TOPIC, "~t0", [each])))
    twice = [("retention.ms", SET, "70000"), ("retention.ms", SET, "80000")]
    yield incremental_alteration((TOPIC, "~t0", twice))
    yield incremental_alteration((TOPIC, "~t0", twice[:1]), (TOPIC, "~t0", twice[1:]))
    for kind, config in ((GROUP, "consumer.session.timeout.ms"), (CLIENT_METRICS, "interval.ms"), (BROKER, "node.id")):
        for value in ("1", "soon", None):
            where = "1" if kind == BROKER else "~of"
            yield incremental_alteration((kind, where, [(config, SET, value)]), validate_only=True)
    loggers = [("no.such.logger", SET, "INFO"), ("root", SET, "LOUD"), ("root", DELETE, None), ("root", APPEND, "INFO")]
    for each in loggers:
        yield incremental_alteration((BROKER_LOGGER, "1", [each]), validate_only=True)
    yield incremental_alteration((TOPIC, "~t0", []))
    yield incremental_alteration()


def _list_config_resources(version: int) -> Iterator[Any]:
    for kinds in ([], [TOPIC], [BROKER, BROKER_LOGGER], [GROUP], [CLIENT_METRICS], [1], [99], [TOPIC, TOPIC]):
        if version >= 1 or not kinds:
            yield ListConfigResourcesRequest(resource_types=list(kinds))


def _elect_leaders(version: int) -> Iterator[Any]:
    asked: list[list[tuple[str, list[int]]]]
    asked = [[("~t0", [0])], [("~t0", [0, 5, -1]), ("~nowhere", [0])], [("~t0", [])], [("", [0])], []]
    for kind in (0, 1, 9) if version >= 1 else (0,):
        for topics in asked:
            wanted = [TopicPartitions(topic=name, partitions=partitions) for name, partitions in topics]
            yield ElectLeadersRequest(election_type=kind, topic_partitions=wanted)
    yield ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="~t0", partitions=[0])] * 2)


def _alter_partition_reassignments(version: int) -> Iterator[Any]:  # noqa: ARG001
    def asking(name: str, *wanted: list[int] | None, **fields: Any) -> AlterPartitionReassignmentsRequest:
        partitions = [
            ReassignablePartition(partition_index=at, replicas=replicas) for at, replicas in enumerate(wanted)
        ]
        topic = ReassignableTopic(name=name, partitions=partitions)
        return AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=30_000, **fields)

    for name in ("~t0", "~nowhere", ""):
        for replicas in ([1], None, [], [1, 1], [-3]):
            yield asking(name, replicas)
        yield asking(name)
    yield asking("~t0", [1], [1])
    yield AlterPartitionReassignmentsRequest(topics=[], timeout_ms=30_000)


def _list_partition_reassignments(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield ListPartitionReassignmentsRequest(topics=None)
    for name, partitions in (("~t0", [0]), ("~t0", [5]), ("~nowhere", [0]), ("", []), ("~t0", [])):
        wanted = ListPartitionReassignmentsTopics(name=name, partition_indexes=partitions)
        yield ListPartitionReassignmentsRequest(topics=[wanted])


def _alter_replica_log_dirs(version: int) -> Iterator[Any]:  # noqa: ARG001
    def asking(path: str, *topics: tuple[str, list[int]]) -> AlterReplicaLogDir:
        moved = [AlterReplicaLogDirTopic(name=name, partitions=partitions) for name, partitions in topics]
        return AlterReplicaLogDir(path=path, topics=moved)

    for path in ("/nowhere", "nowhere", ""):
        for name, partitions in (("~t0", [0]), ("~t0", [5, -1]), ("~nowhere", [0]), ("", [0]), ("~t0", [])):
            yield AlterReplicaLogDirsRequest(dirs=[asking(path, (name, partitions))])
        yield AlterReplicaLogDirsRequest(dirs=[asking(path)])
    yield AlterReplicaLogDirsRequest(dirs=[asking("/nowhere", ("~t0", [0])), asking("/elsewhere", ("~compacted", [0]))])
    yield AlterReplicaLogDirsRequest(dirs=[])


def _describe_log_dirs(version: int) -> Iterator[Any]:  # noqa: ARG001
    for name, partitions in (("~t0", [0]), ("~t0", [5, -1]), ("~nowhere", [0]), ("", []), ("~t0", [])):
        yield DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=name, partitions=partitions)])
    yield DescribeLogDirsRequest(topics=[])
    yield DescribeLogDirsRequest(topics=None)


def _describe_cluster(version: int) -> Iterator[Any]:
    for operations in (False, True):
        yield DescribeClusterRequest(include_cluster_authorized_operations=operations)
    if version >= 1:
        for kind in (2, 0, 9):
            yield DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)
    if version >= 2:
        yield DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)


def _describe_quorum(version: int) -> Iterator[Any]:  # noqa: ARG001
    for topics in (
        [("__cluster_metadata", [0])],
        [("__cluster_metadata", [1])],
        [("~t0", [0])],
        [("~nowhere", [0])],
        [],
    ):
        yield quorum_of(*topics)
    yield quorum_of(("__cluster_metadata", [0, 1]), ("~t0", [0]))


def _add_voter(version: int) -> Iterator[Any]:  # noqa: ARG001
    """No voter is added: none of these is reachable, or is another one's."""
    yield addition_of(-1)
    yield addition_of(9, "ELSEWHERE")
    yield addition_of(9, listeners=[])
    yield addition_of(9, voter_directory_id=ZERO_UUID)
    yield addition_of(9, cluster_id="another")
    yield addition_of(9)
    yield addition_of(1)


def _remove_voter(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield removal_of(-1)
    yield removal_of(9, ZERO_UUID)
    yield removal_of(9)
    yield removal_of(1)
    yield removal_of(9, cluster_id="another")


def _api_versions(version: int) -> Iterator[Any]:
    yield ApiVersionsRequest()
    if version >= 3:
        for name, number in (("raw", "1"), ("", ""), ("a b", "1"), ("raw", "-1-"), ("x" * 300, "1.2.3")):
            yield ApiVersionsRequest(client_software_name=name, client_software_version=number)
    if version >= MEANT_FROM:
        named = partial(ApiVersionsRequest, client_software_name="raw", client_software_version="1")
        own = learned("cluster_id", "")
        yield call("c", 1, DescribeClusterRequest(include_cluster_authorized_operations=False))
        for cluster, node in (
            (own, 1),
            (own, 2),
            (own, -1),
            (None, 1),
            ("", 1),
            ("", -1),
            ("~other", 1),
            ("~other", 2),
        ):
            yield named(cluster_id=cluster, node_id=node)


def _update_features(version: int) -> Iterator[Any]:
    updates = [("metadata.version", 29, 2), ("metadata.version", 30, 1), ("metadata.version", 31, 1)]
    updates += [("metadata.version", 1, 3), ("metadata.version", 0, 3), ("no.such.feature", 1, 1), ("", 1, 1)]
    updates += [("metadata.version", 29, 1), ("metadata.version", -1, 1), ("metadata.version", 29, 9)]
    updates += [("metadata.version", level, kind) for level in (32, 33, 34) for kind in (1, 2, 3)]
    updates += [("share.version", 3, 1), ("share.version", 3, 2), ("kraft.version", 2, 1), ("streams.version", 2, 1)]
    if version >= 1:
        updates += [("share.version", 1, kind) for kind in (1, 2, 3)]
    for name, level, kind in updates:
        update = FeatureUpdateKey(feature=name, max_version_level=level)
        if version >= 1:
            update.upgrade_type = kind
        else:
            update.allow_downgrade = kind > 1
        yield UpdateFeaturesRequest(feature_updates=[update], validate_only=version >= 1)
    yield UpdateFeaturesRequest(feature_updates=[])


def _unregister_broker(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield UnregisterBrokerRequest(broker_id=NO_SUCH_NODE)
    yield UnregisterBrokerRequest(broker_id=-1)


def _unregister_controller(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield UnregisterControllerRequest(controller_id=NO_SUCH_NODE)
    yield UnregisterControllerRequest(controller_id=-1)
    yield UnregisterControllerRequest(controller_id=1)


# Security


def _acls() -> Iterator[dict[str, Any]]:
    for kind in (1, 2, 3, 4, 99):
        yield acl_filter(resource_type_filter=kind, resource_name_filter="~t0", principal_filter="User:a")
    yield acl_filter(operation=99, permission_type=0)


def _describe_acls(version: int) -> Iterator[Any]:  # noqa: ARG001
    for fields in _acls():
        yield DescribeAclsRequest(**fields)


def _delete_acls(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield DeleteAclsRequest(filters=[DeleteAclsFilter(**fields) for fields in _acls()])
    yield DeleteAclsRequest(filters=[])


def _create_acls(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield CreateAclsRequest(creations=[acl("~t0"), acl("", principal="nobody"), acl("~t0", operation=1)])
    yield CreateAclsRequest(creations=[])


def _create_token(version: int) -> Iterator[Any]:  # noqa: ARG001
    for lifetime_ms in (-1, 0, 1000):
        renewers = [CreatableRenewers(principal_type="User", principal_name="a")]
        yield CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=lifetime_ms)
    yield CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="Group", principal_name="a")], max_lifetime_ms=-1
    )


def _renew_token(version: int) -> Iterator[Any]:  # noqa: ARG001
    for hmac in (b"", b"token"):
        yield RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1)


def _expire_token(version: int) -> Iterator[Any]:  # noqa: ARG001
    for hmac in (b"", b"token"):
        yield ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)


def _describe_token(version: int) -> Iterator[Any]:  # noqa: ARG001
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="a")
    for owners in (None, [], [owner]):
        yield DescribeDelegationTokenRequest(owners=owners)


def _describe_credentials(version: int) -> Iterator[Any]:  # noqa: ARG001
    for names in (None, [], ["a"], ["a", "a"], [""]):
        users = None if names is None else [UserName(name=each) for each in names]
        yield DescribeUserScramCredentialsRequest(users=users)


def _alter_credentials(version: int) -> Iterator[Any]:  # noqa: ARG001
    """Each error alone and among good changes, a user twice in every way; everybody is described after each request."""

    def put(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=bytes(32)
        )

    def drop(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
        return ScramCredentialDeletion(name=name, mechanism=mechanism)

    everybody = DescribeUserScramCredentialsRequest(users=None)
    for deletions, upsertions in (
        ([], []),
        ([], [put("a"), put("b", 2, 16384)]),
        ([drop("nobody")], [put("c")]),
        ([drop("nobody")], [put("nobody")]),
        ([drop("a", 2)], [put("a", 2)]),
        ([drop("a")], [put("a")]),
        ([drop("a"), drop("a")], [put("a")]),
        ([], [put("d"), put("d", 2), put("d", 9)]),
        ([], [put("", 9), put("e", 9), put("f", 1, 4095), put("g", 2, 16385), put("h", 0)]),
        ([drop("", 9), drop("e", 9), drop("h", 0), drop("b", 2)], [put("a", 1, 5000)]),
        ([drop("a"), drop("c")], []),
    ):
        yield AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        yield everybody


def _describe_quotas(version: int) -> Iterator[Any]:  # noqa: ARG001
    for entity, kind, match in (
        ("user", 0, "a"), ("user", 1, None), ("user", 2, None), ("client-id", 0, "c"), ("ip", 0, "127.0.0.1"),
        ("user", 0, None), ("user", 1, "a"), ("user", 9, None), ("nonsense", 0, "a"), ("", 2, None),
    ):  # fmt: skip
        for strict in (False, True):
            component = ComponentData(entity_type=entity, match_type=kind, match=match)
            yield DescribeClientQuotasRequest(components=[component], strict=strict)
    both = [ComponentData(entity_type=entity, match_type=2, match=None) for entity in ("user", "user")]
    yield DescribeClientQuotasRequest(components=both, strict=False)
    both = [ComponentData(entity_type=entity, match_type=2, match=None) for entity in ("ip", "user")]
    yield DescribeClientQuotasRequest(components=both, strict=False)
    yield DescribeClientQuotasRequest(components=[], strict=True)


def _alter_quotas(version: int) -> Iterator[Any]:  # noqa: ARG001
    """Each error alone, and good changes with what is described after them. No rate is low enough to throttle."""
    rate, percent = {"producer_byte_rate": 1e12}, {"request_percentage": 1e6}
    both = {"user": "qa", "client-id": None}
    for names, quotas in (
        ({"user": "qa"}, rate), ({"user": "qa"}, rate), ({"user": "qa"}, {"producer_byte_rate": 2e12, **percent}),
        (both, {"consumer_byte_rate": 1e12, "controller_mutation_rate": 0.5e9}), ({"client-id": "qc"}, percent),
        ({"user": None}, {"producer_byte_rate": None}), ({"user": "qa"}, {"nope": None}), ({"user": "qa"}, {}),
        ({}, rate), ({"planet": "x"}, rate), ({"user": ""}, rate), ({"user": "qa"}, {"nope": 1.0}), ({"": "x"}, rate),
        ({"ip": "127.0.0.7"}, {"connection_creation_rate": 1e6}), ({"ip": "::7"}, {"connection_creation_rate": 1e6}),
        ({"ip": "127.0.0.7"}, rate), ({"ip": "127.0.0.7", "user": "qa"}, {"connection_creation_rate": 1e6}),
        ({"user": "qa"}, {"connection_creation_rate": 1e6}), ({"ip": ""}, {"connection_creation_rate": 1e6}),
        ({"ip": "127.0.0.7"}, {"connection_creation_rate": 3e9}), ({"user": "qa"}, {"producer_byte_rate": 1e19}),
        ({"ip": "127.0.0.7"}, {"connection_creation_rate": 7.5}), ({"user": "qa"}, {"producer_byte_rate": 0.0001}),
        ({"user": "qa"}, {"producer_byte_rate": 1e12 + 0.5}), ({"user": "qa"}, {"request_percentage": -1.0}),
        ({"user": "qa"}, {"producer_byte_rate": 0.0}), ({"user": "qa"}, {"controller_mutation_rate": -0.5}),
    ):  # fmt: skip
        for validate_only in (True, False):
            yield change_of_quotas(entry(names, quotas), validate_only=validate_only)
    everything = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match_type=0, match="qa")], strict=False
    )
    yield everything
    yield change_of_quotas(entry({"user": "qd"}, rate), entry({"user": "qd"}, rate))
    twice = entry({"user": "qe"}, rate)
    twice.ops += twice.ops
    yield change_of_quotas(twice)
    for name, value in (("qf", 1e12), ("qf", None)):
        repeated = entry({"user": name}, {"producer_byte_rate": value})
        repeated.entity = [*entry({"user": "qg"}, {}).entity, *repeated.entity]
        yield change_of_quotas(repeated)
    yield change_of_quotas()
    for names, keys in (
        ({"user": "qa"}, ("producer_byte_rate", "request_percentage")), ({"client-id": "qc"}, ("request_percentage",)),
        (both, ("consumer_byte_rate", "controller_mutation_rate")), ({"user": "qd"}, ("producer_byte_rate",)),
        ({"ip": "127.0.0.7"}, ("connection_creation_rate",)), ({"ip": "::7"}, ("connection_creation_rate",)),
    ):  # fmt: skip
        yield change_of_quotas(entry(names, dict.fromkeys(keys)))
    yield everything


def _sasl_handshake(version: int) -> Iterator[Any]:
    for number, mechanism in enumerate(("PLAIN", "NONSENSE", "")):
        yield call(f"s{version}{number}", version, SaslHandshakeRequest(mechanism=mechanism))


def _sasl_authenticate(version: int) -> Iterator[Any]:
    for number, sent in enumerate((b"\0a\0b", b"")):
        yield call(f"s{version}{number}", version, SaslAuthenticateRequest(auth_bytes=sent))


PATHS: Mapping[int, Any] = {
    api.CREATE_TOPICS: _create_topics,
    api.DELETE_TOPICS: _delete_topics,
    api.CREATE_PARTITIONS: _create_partitions,
    api.METADATA: _metadata,
    api.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    api.DESCRIBE_CONFIGS: _describe_configs,
    api.ALTER_CONFIGS: _alter_configs,
    api.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    api.LIST_CONFIG_RESOURCES: _list_config_resources,
    api.ELECT_LEADERS: _elect_leaders,
    api.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    api.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    api.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    api.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    api.DESCRIBE_CLUSTER: _describe_cluster,
    api.DESCRIBE_QUORUM: _describe_quorum,
    api.ADD_RAFT_VOTER: _add_voter,
    api.REMOVE_RAFT_VOTER: _remove_voter,
    api.API_VERSIONS: _api_versions,
    api.UPDATE_FEATURES: _update_features,
    api.UNREGISTER_BROKER: _unregister_broker,
    api.UNREGISTER_CONTROLLER: _unregister_controller,
    api.DESCRIBE_ACLS: _describe_acls,
    api.DELETE_ACLS: _delete_acls,
    api.CREATE_ACLS: _create_acls,
    api.CREATE_DELEGATION_TOKEN: _create_token,
    api.RENEW_DELEGATION_TOKEN: _renew_token,
    api.EXPIRE_DELEGATION_TOKEN: _expire_token,
    api.DESCRIBE_DELEGATION_TOKEN: _describe_token,
    api.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_credentials,
    api.ALTER_USER_SCRAM_CREDENTIALS: _alter_credentials,
    api.DESCRIBE_CLIENT_QUOTAS: _describe_quotas,
    api.ALTER_CLIENT_QUOTAS: _alter_quotas,
    api.SASL_HANDSHAKE: _sasl_handshake,
    api.SASL_AUTHENTICATE: _sasl_authenticate,
}
"""By api key; see `error_paths.Paths`."""
