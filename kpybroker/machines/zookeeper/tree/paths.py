"""The paths of a Kafka cluster in ZooKeeper, without the chroot (Kafka's ``ZkData``)."""

from typing import Final
from urllib.parse import quote, unquote_plus

CLUSTER_ID: Final = "/cluster/id"
BROKERS: Final = "/brokers"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
"""Its data version counts the broker ids that ZooKeeper gave away."""
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
CONFIGS: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
ACLS: Final = "/kafka-acl"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"
PRODUCER_IDS: Final = "/latest_producer_id_block"
FEATURES: Final = "/feature"
CONSUMERS: Final = "/consumers"
MIGRATION: Final = "/migration"

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_IDS,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Every broker makes these at its start, where they are missing (``ZkData.PersistentZkPaths``)."""
SENSITIVE: Final = ("/config/users", "/config/brokers", TOKENS)
"""Nobody but Kafka may read these where ``zookeeper.set.acl`` is on (``ZkData.SensitiveRootPaths``)."""

SEQUENCE_DIGITS: Final = 10


def broker(broker_id: int) -> str:
    """The registration of a broker."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """The assignment of a topic."""
    return f"{TOPICS}/{name}"


def partition_state(topic_name: str, partition: int) -> str:
    """The leader and the ISR of a partition."""
    return f"{TOPICS}/{topic_name}/partitions/{partition}/state"


def delete_topic(name: str) -> str:
    """The marker that a topic is to be deleted."""
    return f"{DELETE_TOPICS}/{name}"


def token(token_id: str) -> str:
    """A delegation token."""
    return f"{TOKENS}/{token_id}"


def child(parent: str, name: str) -> str:
    """The path of a child."""
    return f"{parent}/{name}"


def last(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def sequence(name: str) -> int | None:
    """The number that ZooKeeper appended to the name of a sequential znode. None if there is none."""
    digits = name[-SEQUENCE_DIGITS:]
    return int(digits) if len(digits) == SEQUENCE_DIGITS and digits.isascii() and digits.isdecimal() else None


def sanitize(name: str) -> str:
    """The name of a user or client as a part of a path (Kafka's ``Sanitizer``)."""
    return quote(name, safe="*", encoding="utf-8", errors="replace").replace("*", "%2A").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The name that was sanitized."""
    return unquote_plus(name)
