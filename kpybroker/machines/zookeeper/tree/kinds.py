"""All kinds of znodes that Kafka 3.9 has: their paths, who writes them, who watches them, and how to read them."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kpybroker.machines.zookeeper.tree import (
    acls,
    brokers,
    cluster,
    configs,
    controller,
    paths,
    requests,
    tokens,
    topics,
)

Decode = Callable[[str, bytes | None], object]
"""From a path without chroot and a content to a value, or ``InvalidZnode``."""


class ZnodeKind(NamedTuple):
    """A kind of znode. ``watcher`` is empty where nobody has a watch on it."""

    pattern: re.Pattern[str]
    meaning: str
    writer: str
    watcher: str
    decode: Decode


def _text(_path: str, content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")


def _kind(pattern: str, meaning: str, writer: str, watcher: str, decode: Decode = _text) -> ZnodeKind:
    return ZnodeKind(re.compile(pattern), meaning, writer, watcher, decode)


_BROKERS: Final = "all brokers"
_ANY_BROKER: Final = "the broker that got the request"
_CONTROLLER: Final = "the controller"

KINDS: Final = (
    _kind(
        r"/cluster/id",
        "the id of the cluster",
        "the first broker",
        "",
        lambda _path, content: cluster.decode_cluster_id(content),
    ),
    _kind(
        r"/brokers/ids/\d+",
        "a broker that is alive, and its addresses",
        "that broker",
        _CONTROLLER,
        lambda path, content: brokers.Registration.decode(int(paths.last(path)), content),
    ),
    _kind(r"/brokers/seqid", "the number of broker ids given away, as its version", "brokers without an id", ""),
    _kind(
        r"/brokers/topics/[^/]+",
        "a topic: its id and the replicas of its partitions",
        "the broker that created the topic, then the controller",
        _CONTROLLER,
        lambda path, content: topics.TopicAssignment.decode(paths.last(path), content),
    ),
    _kind(
        r"/brokers/topics/[^/]+/partitions/\d+/state",
        "the leader and the ISR of a partition",
        _CONTROLLER,
        "",
        topics.LeaderIsrAndControllerEpoch.decode,
    ),
    _kind(
        r"/controller",
        "the broker that is the controller",
        "the elected broker",
        _BROKERS,
        lambda _path, content: controller.ElectedController.decode(content),
    ),
    _kind(
        r"/controller_epoch",
        "the number of elections, whose version fences former controllers",
        _CONTROLLER,
        "",
        lambda _path, content: controller.decode_epoch(content),
    ),
    _kind(r"/admin/delete_topics/[^/]+", "a topic that is to be deleted", _ANY_BROKER, _CONTROLLER),
    _kind(
        r"/admin/reassign_partitions",
        "reassignments that an old tool asks for",
        "the tool",
        _CONTROLLER,
        lambda _path, content: requests.decode_reassignments(content),
    ),
    _kind(
        r"/admin/preferred_replica_election",
        "elections that an old tool asks for",
        "the tool",
        _CONTROLLER,
        requests.decode_partitions,
    ),
    _kind(
        r"/isr_change_notification/isr_change_\d{10}",
        "partitions whose ISR has changed",
        "their leader, before Kafka 2.7",
        _CONTROLLER,
        requests.decode_partitions,
    ),
    _kind(
        r"/log_dir_event_notification/log_dir_event_\d{10}",
        "a broker with a failed log directory",
        "that broker",
        _CONTROLLER,
        requests.decode_log_dir_failure,
    ),
    _kind(
        r"/config/changes/config_change_\d{10}",
        "the notice that configs have changed",
        _ANY_BROKER,
        _BROKERS,
        configs.decode_change,
    ),
    _kind(
        r"/config/(topics|brokers|users|clients|ips)/[^/]+(/clients/[^/]+)?",
        "configs, quotas and SCRAM credentials",
        _ANY_BROKER,
        "",
        configs.decode_configs,
    ),
    _kind(r"/kafka-acl/[^/]+/.+", "ACLs of one name", _ANY_BROKER, "", acls.decode_acls),
    _kind(r"/kafka-acl-extended/[^/]+/[^/]+/.+", "ACLs of a prefix", _ANY_BROKER, "", acls.decode_acls),
    _kind(
        r"/kafka-acl-changes/acl_changes_\d{10}",
        "the notice that ACLs of a name have changed",
        _ANY_BROKER,
        _BROKERS,
        acls.decode_literal_change,
    ),
    _kind(
        r"/kafka-acl-extended-changes/acl_changes_\d{10}",
        "the notice that ACLs of a prefix have changed",
        _ANY_BROKER,
        _BROKERS,
        acls.decode_extended_change,
    ),
    _kind(
        r"/delegation_token/tokens/[^/]+",
        "a delegation token",
        _ANY_BROKER,
        "",
        lambda path, content: tokens.TokenContent.decode(paths.last(path), content),
    ),
    _kind(
        r"/delegation_token/token_changes/token_change_\d{10}",
        "the notice that a token has changed",
        _ANY_BROKER,
        _BROKERS,
    ),
    _kind(
        r"/latest_producer_id_block",
        "the last block of producer ids",
        _CONTROLLER,
        "",
        lambda _path, content: cluster.ProducerIdBlock.decode(content),
    ),
    _kind(
        r"/feature",
        "the finalised features",
        _CONTROLLER,
        _BROKERS,
        lambda _path, content: cluster.FinalizedFeatures.decode(content),
    ),
    _kind(
        r"/migration",
        "how much of the KRaft metadata log is in ZooKeeper",
        "the KRaft controller",
        "",
        lambda _path, content: controller.MigrationState.decode(content),
    ),
)


def kind_of(path: str) -> ZnodeKind | None:
    """The kind of the znode at a path without chroot. None for a znode that only has children, or is not Kafka's."""
    return next((kind for kind in KINDS if kind.pattern.fullmatch(path)), None)
