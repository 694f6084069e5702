"""The table of APIs: a row for each that is served, with all that the way of its requests has to know of it.

Handlers, guards, the dispatcher, quotas, the controller and failed responses read their part of it, so that a new API
is a row and a handler. Not here: keys, versions and messages (`kpywire.api`); APIs of ZooKeeper mode alone, which Kafka
4 no longer has.
"""

from collections.abc import Mapping
from enum import Flag, auto
from typing import Any, Final, NamedTuple

from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.runtime.fairness.trait import Trait
from kpywire import api
from kpywire.sizes import MAX_OBJECT_BYTES


class Reason(str):
    """The reason why an API has no guard at a place."""

    __slots__ = ()


Need = AclOperation | str | Reason
"""An operation on the cluster for the whole request, a guard as ``module:function`` (`kpybroker.requests.guards`), or
the reason why nothing is needed at this place."""

OF_ITSELF: Final = Reason("a client tells how it fares itself, and names nothing else")
FOR_EVERYBODY: Final = Reason("everybody may send it: it is how a client gets to know the node and logs in")
AT_CONTROLLER: Final = Reason("it is forwarded, and authorised by the active controller")
BY_HANDLER: Final = Reason("the handler asks for each topic: its answer is made of kept parts")
BY_OWNER: Final = Reason("the handler asks whose token it is")

FEW: Final = 1 << 19
THOUSAND: Final = 1 << 20
THOUSANDS: Final = 1 << 21
TEN_THOUSAND: Final = 1 << 22
MANY: Final = 1 << 24
USUAL_OBJECT_BYTES: Final = 1 << 25


class Words(Flag):
    """The words in which a response gives an error too."""

    NONE = 0
    OF_THE_ERROR = auto()
    """Kafka's words for the error code."""
    OF_A_REFUSAL = auto()
    """Kafka's words for CLUSTER_AUTHORIZATION_FAILED, and none for any other error."""
    OF_THE_EXCEPTION = auto()
    """The words of the exception, where it has words of its own."""


class Api(NamedTuple):
    """A served API. Its defaults are those of an API that is nothing special."""

    at_broker: Need | None
    """The need of its sender on a broker's listener; None if brokers do not serve it."""
    at_controller: Need | None = None
    """The need at a controller, also of requests that brokers forward; None if controllers do not serve it."""
    decided_by: str | None = None
    """The function of `kpybroker.machines.controller` that decides it, as ``module.function``."""
    ends_with_timeout: bool = False
    """Whether the controller refuses it if its time is up before it began."""
    trait: Trait | None = None
    """The facts that the server needs before it decodes a request; None for an ordinary one."""
    is_repeated: bool = False
    """Whether clients repeat it byte for byte for as long as nothing changes."""
    is_answered_alike: bool = False
    """Whether it changes, but its client gets the same answer again for as long as it succeeds."""
    most_object_bytes: int = USUAL_OBJECT_BYTES
    """The memory that its elements may take. It is less than usual where something of it is decided at once: for the
    partitions of a quorum, for thousands of users, or for ten thousand topics, members or ACLs. Produce and Fetch have
    codecs with bounds of their own."""
    is_exempt: bool = False
    """Whether it has no quota, though brokers serve it: it is sent between nodes."""
    holds_secrets: bool = False
    """Whether the console must not show its contents."""
    fails_twice: bool = False
    """Whether its failed response carries the error both for the whole and in each entry."""
    words: Words = Words.NONE
    """The words of the error in its failed response."""
    unknown: Mapping[str, Any] = {}
    """The values that say "none" in its failed response, by field, where they are not the defaults of the fields."""


APIS: Final[Mapping[int, Api]] = {
    api.ADD_OFFSETS_TO_TXN: Api("transactions:add_offsets_to_txn"),
    api.ADD_PARTITIONS_TO_TXN: Api("transactions:add_partitions_to_txn", most_object_bytes=TEN_THOUSAND),
    api.ADD_RAFT_VOTER: Api(AT_CONTROLLER, AclOperation.ALTER, most_object_bytes=FEW, words=Words.OF_THE_ERROR),
    api.ALLOCATE_PRODUCER_IDS: Api(None, AclOperation.CLUSTER_ACTION, decided_by="producer_ids.allocate_producer_ids"),
    api.ALTER_CLIENT_QUOTAS: Api(
        AT_CONTROLLER,
        AclOperation.ALTER_CONFIGS,
        decided_by="client_quotas.alter_client_quotas",
        most_object_bytes=THOUSAND,
    ),
    api.ALTER_CONFIGS: Api(
        AT_CONTROLLER, "configs:alter_configs", decided_by="configs.alter_configs", holds_secrets=True
    ),
    api.ALTER_PARTITION: Api(None, AclOperation.CLUSTER_ACTION, decided_by="partitions.alter_partition"),
    api.ALTER_PARTITION_REASSIGNMENTS: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="reassignments.alter_partition_reassignments",
        fails_twice=True,
        words=Words.OF_THE_EXCEPTION,
    ),
    api.ALTER_REPLICA_LOG_DIRS: Api(AclOperation.ALTER),
    api.ALTER_SHARE_GROUP_OFFSETS: Api("groups:member", most_object_bytes=FEW, words=Words.OF_THE_ERROR),
    api.ALTER_USER_SCRAM_CREDENTIALS: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="scram.alter_user_scram_credentials",
        most_object_bytes=THOUSANDS,
        holds_secrets=True,
        words=Words.OF_THE_EXCEPTION,
    ),
    api.API_VERSIONS: Api(FOR_EVERYBODY, FOR_EVERYBODY, trait=Trait(is_greeting=True), most_object_bytes=FEW),
    api.ASSIGN_REPLICAS_TO_DIRS: Api(
        None, AclOperation.CLUSTER_ACTION, decided_by="directories.assign_replicas_to_dirs"
    ),
    api.BEGIN_QUORUM_EPOCH: Api(None, AclOperation.CLUSTER_ACTION, most_object_bytes=FEW),
    api.BROKER_HEARTBEAT: Api(None, AclOperation.CLUSTER_ACTION, decided_by="brokers.heartbeat", most_object_bytes=FEW),
    api.BROKER_REGISTRATION: Api(
        None, AclOperation.CLUSTER_ACTION, decided_by="brokers.register_broker", most_object_bytes=FEW
    ),
    api.CONSUMER_GROUP_DESCRIBE: Api("groups:described_by_topics"),
    api.CONSUMER_GROUP_HEARTBEAT: Api(
        "groups:consumer_group_heartbeat", is_repeated=True, most_object_bytes=TEN_THOUSAND
    ),
    api.CONTROLLER_REGISTRATION: Api(
        None, AclOperation.CLUSTER_ACTION, decided_by="brokers.register_controller", most_object_bytes=FEW
    ),
    api.CREATE_ACLS: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="acls.create_acls",
        most_object_bytes=MANY,
        words=Words.OF_THE_EXCEPTION,
    ),
    api.CREATE_DELEGATION_TOKEN: Api(
        BY_OWNER,
        BY_OWNER,
        decided_by="delegation_tokens.create_delegation_token",
        most_object_bytes=FEW,
        holds_secrets=True,
    ),
    api.CREATE_PARTITIONS: Api(
        AT_CONTROLLER,
        "controllers:create_partitions",
        decided_by="partitions.create_partitions",
        ends_with_timeout=True,
        most_object_bytes=TEN_THOUSAND,
    ),
    api.CREATE_TOPICS: Api(
        AT_CONTROLLER,
        "controllers:create_topics",
        decided_by="topics.create_topics",
        ends_with_timeout=True,
        most_object_bytes=MAX_OBJECT_BYTES,
        unknown={"num_partitions": -1, "replication_factor": -1},
    ),
    api.DELETE_ACLS: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="acls.delete_acls",
        most_object_bytes=MANY,
        words=Words.OF_THE_EXCEPTION,
    ),
    api.DELETE_GROUPS: Api("groups:delete_groups"),
    api.DELETE_RECORDS: Api("topics:delete_records", unknown={"low_watermark": -1}),
    api.DELETE_SHARE_GROUP_OFFSETS: Api("groups:owner", most_object_bytes=FEW, words=Words.OF_THE_ERROR),
    api.DELETE_SHARE_GROUP_STATE: Api(
        AclOperation.CLUSTER_ACTION, words=Words.OF_A_REFUSAL, most_object_bytes=THOUSAND
    ),
    api.DELETE_TOPICS: Api(
        AT_CONTROLLER, "controllers:delete_topics", decided_by="topics.delete_topics", ends_with_timeout=True
    ),
    api.DESCRIBE_ACLS: Api(AclOperation.DESCRIBE, AclOperation.DESCRIBE, words=Words.OF_THE_EXCEPTION),
    api.DESCRIBE_CLIENT_QUOTAS: Api(AclOperation.DESCRIBE_CONFIGS, most_object_bytes=FEW, unknown={"entries": None}),
    api.DESCRIBE_CLUSTER: Api(FOR_EVERYBODY, AclOperation.ALTER),
    api.DESCRIBE_CONFIGS: Api("configs:describe_configs", "configs:describe_configs", words=Words.OF_THE_ERROR),
    api.DESCRIBE_DELEGATION_TOKEN: Api(BY_OWNER, most_object_bytes=FEW, holds_secrets=True),
    api.DESCRIBE_GROUPS: Api("groups:describe_groups"),
    api.DESCRIBE_LOG_DIRS: Api(AclOperation.DESCRIBE),
    api.DESCRIBE_PRODUCERS: Api("topics:describe_producers"),
    api.DESCRIBE_QUORUM: Api(AT_CONTROLLER, AclOperation.DESCRIBE, most_object_bytes=FEW, words=Words.OF_THE_ERROR),
    api.DESCRIBE_SHARE_GROUP_OFFSETS: Api(BY_HANDLER, most_object_bytes=TEN_THOUSAND, words=Words.OF_THE_ERROR),
    api.DESCRIBE_TOPIC_PARTITIONS: Api(BY_HANDLER),
    api.DESCRIBE_TRANSACTIONS: Api("transactions:describe_transactions"),
    api.DESCRIBE_USER_SCRAM_CREDENTIALS: Api(AclOperation.DESCRIBE, most_object_bytes=THOUSANDS),
    api.ELECT_LEADERS: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="partitions.elect_leaders",
        ends_with_timeout=True,
        fails_twice=True,
        words=Words.OF_THE_EXCEPTION,
    ),
    api.END_QUORUM_EPOCH: Api(None, AclOperation.CLUSTER_ACTION, most_object_bytes=FEW),
    api.END_TXN: Api("transactions:end_txn", trait=Trait(goes_first=True)),
    api.ENVELOPE: Api(None, AclOperation.CLUSTER_ACTION, holds_secrets=True),
    api.EXPIRE_DELEGATION_TOKEN: Api(
        BY_OWNER, BY_OWNER, decided_by="delegation_tokens.expire_delegation_token", holds_secrets=True
    ),
    api.FETCH: Api(
        BY_HANDLER,
        AclOperation.CLUSTER_ACTION,
        trait=Trait(is_whole=True),
        unknown={"high_watermark": -1, "records": b""},
    ),
    api.FETCH_SNAPSHOT: Api(None, AclOperation.CLUSTER_ACTION, most_object_bytes=FEW),
    api.FIND_COORDINATOR: Api("groups:find_coordinator", words=Words.OF_THE_ERROR, unknown={"node_id": -1, "port": -1}),
    api.GET_TELEMETRY_SUBSCRIPTIONS: Api(OF_ITSELF),
    api.HEARTBEAT: Api("groups:member", is_repeated=True),
    api.INCREMENTAL_ALTER_CONFIGS: Api(
        "configs:loggers_of_broker",
        "configs:alter_configs",
        decided_by="configs.incremental_alter_configs",
        holds_secrets=True,
    ),
    api.INIT_PRODUCER_ID: Api("transactions:init_producer_id", unknown={"producer_epoch": -1}),
    api.INITIALIZE_SHARE_GROUP_STATE: Api(
        AclOperation.CLUSTER_ACTION, words=Words.OF_A_REFUSAL, most_object_bytes=THOUSANDS
    ),
    api.JOIN_GROUP: Api("groups:member", most_object_bytes=TEN_THOUSAND, unknown={"protocol_name": ""}),
    api.LEAVE_GROUP: Api("groups:member", most_object_bytes=THOUSANDS),
    api.LIST_CONFIG_RESOURCES: Api(AclOperation.DESCRIBE_CONFIGS, most_object_bytes=FEW),
    api.LIST_GROUPS: Api("groups:list_groups", most_object_bytes=FEW),
    api.LIST_OFFSETS: Api("topics:list_offsets", unknown={"timestamp": -1}),
    api.LIST_PARTITION_REASSIGNMENTS: Api(
        AT_CONTROLLER,
        AclOperation.DESCRIBE,
        decided_by="reassignments.list_partition_reassignments",
        words=Words.OF_THE_EXCEPTION,
    ),
    api.LIST_TRANSACTIONS: Api("transactions:list_transactions", most_object_bytes=FEW),
    api.METADATA: Api(BY_HANDLER, fails_twice=True, unknown={"controller_id": -1}),
    api.OFFSET_COMMIT: Api("offsets:offset_commit", is_answered_alike=True, most_object_bytes=TEN_THOUSAND),
    api.OFFSET_DELETE: Api("offsets:offset_delete", most_object_bytes=THOUSANDS),
    api.OFFSET_FETCH: Api("offsets:offset_fetch", most_object_bytes=TEN_THOUSAND, unknown={"committed_offset": -1}),
    api.OFFSET_FOR_LEADER_EPOCH: Api("topics:offset_for_leader_epoch", unknown={"leader_epoch": -1}),
    api.PRODUCE: Api("records:produce", trait=Trait(overlaps=True, is_whole=True)),
    api.PUSH_TELEMETRY: Api(OF_ITSELF),
    api.READ_SHARE_GROUP_STATE: Api(AclOperation.CLUSTER_ACTION, words=Words.OF_THE_ERROR, most_object_bytes=THOUSANDS),
    api.READ_SHARE_GROUP_STATE_SUMMARY: Api(
        AclOperation.CLUSTER_ACTION, words=Words.OF_THE_ERROR, most_object_bytes=THOUSANDS
    ),
    api.REMOVE_RAFT_VOTER: Api(AT_CONTROLLER, AclOperation.ALTER, words=Words.OF_THE_ERROR),
    api.RENEW_DELEGATION_TOKEN: Api(
        BY_OWNER, BY_OWNER, decided_by="delegation_tokens.renew_delegation_token", holds_secrets=True
    ),
    api.SASL_AUTHENTICATE: Api(FOR_EVERYBODY, FOR_EVERYBODY, holds_secrets=True),
    api.SASL_HANDSHAKE: Api(FOR_EVERYBODY, FOR_EVERYBODY),
    api.SHARE_ACKNOWLEDGE: Api("groups:member", most_object_bytes=THOUSAND),
    api.SHARE_FETCH: Api("groups:member", most_object_bytes=THOUSAND),
    api.SHARE_GROUP_DESCRIBE: Api("groups:described_by_topics"),
    api.SHARE_GROUP_HEARTBEAT: Api("groups:consumer_group_heartbeat", is_repeated=True, most_object_bytes=THOUSAND),
    api.STREAMS_GROUP_DESCRIBE: Api("groups:described_by_topics"),
    api.STREAMS_GROUP_HEARTBEAT: Api("groups:member", is_repeated=True, most_object_bytes=THOUSAND),
    api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Api("groups:member"),
    api.SYNC_GROUP: Api("groups:member", most_object_bytes=TEN_THOUSAND),
    api.TXN_OFFSET_COMMIT: Api("offsets:txn_offset_commit"),
    api.UNREGISTER_BROKER: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="brokers.unregister_broker",
        words=Words.OF_THE_ERROR | Words.OF_THE_EXCEPTION,
    ),
    api.UNREGISTER_CONTROLLER: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="controllers.unregister_controller",
        words=Words.OF_THE_ERROR | Words.OF_THE_EXCEPTION,
    ),
    api.UPDATE_FEATURES: Api(
        AT_CONTROLLER,
        AclOperation.ALTER,
        decided_by="features.update_features",
        most_object_bytes=FEW,
        words=Words.OF_THE_EXCEPTION,
    ),
    api.UPDATE_RAFT_VOTER: Api(None, AclOperation.CLUSTER_ACTION),
    api.VOTE: Api(None, AclOperation.CLUSTER_ACTION, most_object_bytes=FEW),
    api.WRITE_SHARE_GROUP_STATE: Api(
        AclOperation.CLUSTER_ACTION, words=Words.OF_THE_ERROR, most_object_bytes=THOUSANDS
    ),
    api.WRITE_TXN_MARKERS: Api("transactions:write_txn_markers", most_object_bytes=THOUSAND, is_exempt=True),
}
"""The rows by API key, in the order of the names of their messages."""

TRAITS: Final = {key: Trait() for key in api.API_KEYS} | {
    key: served.trait for key, served in APIS.items() if served.trait is not None
}
"""The trait of each API key."""
REPEATED: Final = frozenset(key for key, served in APIS.items() if served.is_repeated)
ANSWERED_ALIKE: Final = frozenset(key for key, served in APIS.items() if served.is_answered_alike)
MOST_OBJECT_BYTES: Final = {key: served.most_object_bytes for key, served in APIS.items()}
