"""The table of needs: for every served API what its sender needs, on a broker's listener and at a controller.

An entry is an `AclOperation` on the cluster for the whole request, the place of a guard as ``module:function``, or one
of the reasons below why nothing is needed at this place. `tests/guards` compares the table with the APIs that are
served.
"""

from importlib import import_module
from typing import Any, Final

from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.requests.guards.verdict import Guard, InSteps, Verdict, refused
from kpybroker.requests.serving.permissions import GuardedImage, may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpywire import api, error_codes


class Reason(str):
    """The reason why an API has no guard at a place."""

    __slots__ = ()


Need = AclOperation | str | Reason

OF_ITSELF: Final = Reason("a client tells how it fares itself, and names nothing else")
FOR_EVERYBODY: Final = Reason("everybody may send it: it is how a client gets to know the node and logs in")
AT_CONTROLLER: Final = Reason("it is forwarded, and authorised by the active controller")
BY_HANDLER: Final = Reason("the handler asks for each topic: its answer is made of kept parts")
BY_OWNER: Final = Reason("the handler asks whose token it is")

AT_BROKER: Final[dict[int, Need]] = {
    api.PRODUCE: "records:produce",
    api.FETCH: BY_HANDLER,
    api.LIST_OFFSETS: "topics:list_offsets",
    api.METADATA: BY_HANDLER,
    api.OFFSET_COMMIT: "offsets:offset_commit",
    api.OFFSET_FETCH: "offsets:offset_fetch",
    api.FIND_COORDINATOR: "groups:find_coordinator",
    api.JOIN_GROUP: "groups:member",
    api.HEARTBEAT: "groups:member",
    api.LEAVE_GROUP: "groups:member",
    api.SYNC_GROUP: "groups:member",
    api.DESCRIBE_GROUPS: "groups:describe_groups",
    api.LIST_GROUPS: "groups:list_groups",
    api.CONSUMER_GROUP_HEARTBEAT: "groups:consumer_group_heartbeat",
    api.CONSUMER_GROUP_DESCRIBE: "groups:described_by_topics",
    api.STREAMS_GROUP_HEARTBEAT: "groups:member",
    api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: "groups:member",
    api.STREAMS_GROUP_DESCRIBE: "groups:described_by_topics",
    api.SHARE_GROUP_HEARTBEAT: "groups:consumer_group_heartbeat",
    api.SHARE_GROUP_DESCRIBE: "groups:described_by_topics",
    api.SHARE_FETCH: "groups:member",
    api.SHARE_ACKNOWLEDGE: "groups:member",
    api.DESCRIBE_SHARE_GROUP_OFFSETS: BY_HANDLER,
    api.ALTER_SHARE_GROUP_OFFSETS: "groups:member",
    api.DELETE_SHARE_GROUP_OFFSETS: "groups:owner",
    api.SASL_HANDSHAKE: FOR_EVERYBODY,
    api.API_VERSIONS: FOR_EVERYBODY,
    api.SASL_AUTHENTICATE: FOR_EVERYBODY,
    api.CREATE_TOPICS: AT_CONTROLLER,
    api.DELETE_TOPICS: AT_CONTROLLER,
    api.DELETE_RECORDS: "topics:delete_records",
    api.INIT_PRODUCER_ID: "transactions:init_producer_id",
    api.OFFSET_FOR_LEADER_EPOCH: "topics:offset_for_leader_epoch",
    api.ADD_PARTITIONS_TO_TXN: "transactions:add_partitions_to_txn",
    api.ADD_OFFSETS_TO_TXN: "transactions:add_offsets_to_txn",
    api.END_TXN: "transactions:end_txn",
    api.WRITE_TXN_MARKERS: "transactions:write_txn_markers",
    api.TXN_OFFSET_COMMIT: "offsets:txn_offset_commit",
    api.DESCRIBE_ACLS: AclOperation.DESCRIBE,
    api.CREATE_ACLS: AT_CONTROLLER,
    api.DELETE_ACLS: AT_CONTROLLER,
    api.DESCRIBE_CONFIGS: "configs:describe_configs",
    api.ALTER_CONFIGS: AT_CONTROLLER,
    api.INCREMENTAL_ALTER_CONFIGS: "configs:loggers_of_broker",
    api.ALTER_REPLICA_LOG_DIRS: AclOperation.ALTER,
    api.DESCRIBE_LOG_DIRS: AclOperation.DESCRIBE,
    api.CREATE_PARTITIONS: AT_CONTROLLER,
    api.CREATE_DELEGATION_TOKEN: BY_OWNER,
    api.RENEW_DELEGATION_TOKEN: BY_OWNER,
    api.EXPIRE_DELEGATION_TOKEN: BY_OWNER,
    api.DESCRIBE_DELEGATION_TOKEN: BY_OWNER,
    api.DELETE_GROUPS: "groups:delete_groups",
    api.ELECT_LEADERS: AT_CONTROLLER,
    api.ALTER_PARTITION_REASSIGNMENTS: AT_CONTROLLER,
    api.LIST_PARTITION_REASSIGNMENTS: AT_CONTROLLER,
    api.OFFSET_DELETE: "offsets:offset_delete",
    api.DESCRIBE_CLIENT_QUOTAS: AclOperation.DESCRIBE_CONFIGS,
    api.ALTER_CLIENT_QUOTAS: AT_CONTROLLER,
    api.DESCRIBE_USER_SCRAM_CREDENTIALS: AclOperation.DESCRIBE,
    api.ALTER_USER_SCRAM_CREDENTIALS: AT_CONTROLLER,
    api.DESCRIBE_QUORUM: AT_CONTROLLER,
    api.UPDATE_FEATURES: AT_CONTROLLER,
    api.DESCRIBE_CLUSTER: FOR_EVERYBODY,
    api.DESCRIBE_PRODUCERS: "topics:describe_producers",
    api.UNREGISTER_BROKER: AT_CONTROLLER,
    api.UNREGISTER_CONTROLLER: AT_CONTROLLER,
    api.DESCRIBE_TRANSACTIONS: "transactions:describe_transactions",
    api.LIST_TRANSACTIONS: "transactions:list_transactions",
    api.GET_TELEMETRY_SUBSCRIPTIONS: OF_ITSELF,
    api.PUSH_TELEMETRY: OF_ITSELF,
    api.LIST_CONFIG_RESOURCES: AclOperation.DESCRIBE_CONFIGS,
    api.DESCRIBE_TOPIC_PARTITIONS: BY_HANDLER,
    api.ADD_RAFT_VOTER: AT_CONTROLLER,
    api.REMOVE_RAFT_VOTER: AT_CONTROLLER,
    api.INITIALIZE_SHARE_GROUP_STATE: AclOperation.CLUSTER_ACTION,
    api.READ_SHARE_GROUP_STATE: AclOperation.CLUSTER_ACTION,
    api.WRITE_SHARE_GROUP_STATE: AclOperation.CLUSTER_ACTION,
    api.DELETE_SHARE_GROUP_STATE: AclOperation.CLUSTER_ACTION,
    api.READ_SHARE_GROUP_STATE_SUMMARY: AclOperation.CLUSTER_ACTION,
}
"""The needs on the listeners of a broker."""
IN_ZOOKEEPER_MODE: Final[dict[int, Need]] = {
    api.LEADER_AND_ISR: AclOperation.CLUSTER_ACTION,
    api.STOP_REPLICA: AclOperation.CLUSTER_ACTION,
    api.UPDATE_METADATA: AclOperation.CLUSTER_ACTION,
    api.CONTROLLED_SHUTDOWN: AclOperation.CLUSTER_ACTION,
    api.ALTER_PARTITION: AT_CONTROLLER,
    api.ALLOCATE_PRODUCER_IDS: AT_CONTROLLER,
}
"""The needs of requests that a broker serves in ZooKeeper mode only: orders of the controller, and requests to it."""
AT_A_CONTROLLER: Final[dict[int, Need]] = {
    api.FETCH: AclOperation.CLUSTER_ACTION,
    api.API_VERSIONS: FOR_EVERYBODY,
    api.SASL_HANDSHAKE: FOR_EVERYBODY,
    api.SASL_AUTHENTICATE: FOR_EVERYBODY,
    api.CREATE_TOPICS: "controllers:create_topics",
    api.DELETE_TOPICS: "controllers:delete_topics",
    api.CREATE_PARTITIONS: "controllers:create_partitions",
    api.DESCRIBE_ACLS: AclOperation.DESCRIBE,
    api.CREATE_ACLS: AclOperation.ALTER,
    api.DELETE_ACLS: AclOperation.ALTER,
    api.DESCRIBE_CONFIGS: "configs:describe_configs",
    api.ALTER_CONFIGS: "configs:alter_configs",
    api.INCREMENTAL_ALTER_CONFIGS: "configs:alter_configs",
    api.CREATE_DELEGATION_TOKEN: BY_OWNER,
    api.RENEW_DELEGATION_TOKEN: BY_OWNER,
    api.EXPIRE_DELEGATION_TOKEN: BY_OWNER,
    api.ELECT_LEADERS: AclOperation.ALTER,
    api.ALTER_PARTITION_REASSIGNMENTS: AclOperation.ALTER,
    api.LIST_PARTITION_REASSIGNMENTS: AclOperation.DESCRIBE,
    api.ALTER_CLIENT_QUOTAS: AclOperation.ALTER_CONFIGS,
    api.ALTER_USER_SCRAM_CREDENTIALS: AclOperation.ALTER,
    api.VOTE: AclOperation.CLUSTER_ACTION,
    api.BEGIN_QUORUM_EPOCH: AclOperation.CLUSTER_ACTION,
    api.END_QUORUM_EPOCH: AclOperation.CLUSTER_ACTION,
    api.DESCRIBE_QUORUM: AclOperation.DESCRIBE,
    api.ALTER_PARTITION: AclOperation.CLUSTER_ACTION,
    api.UPDATE_FEATURES: AclOperation.ALTER,
    api.ENVELOPE: AclOperation.CLUSTER_ACTION,
    api.FETCH_SNAPSHOT: AclOperation.CLUSTER_ACTION,
    api.DESCRIBE_CLUSTER: AclOperation.ALTER,
    api.BROKER_REGISTRATION: AclOperation.CLUSTER_ACTION,
    api.BROKER_HEARTBEAT: AclOperation.CLUSTER_ACTION,
    api.UNREGISTER_BROKER: AclOperation.ALTER,
    api.UNREGISTER_CONTROLLER: AclOperation.ALTER,
    api.ALLOCATE_PRODUCER_IDS: AclOperation.CLUSTER_ACTION,
    api.CONTROLLER_REGISTRATION: AclOperation.CLUSTER_ACTION,
    api.ASSIGN_REPLICAS_TO_DIRS: AclOperation.CLUSTER_ACTION,
    api.ADD_RAFT_VOTER: AclOperation.ALTER,
    api.REMOVE_RAFT_VOTER: AclOperation.ALTER,
    api.UPDATE_RAFT_VOTER: AclOperation.CLUSTER_ACTION,
}
"""The needs on the listeners of a controller, and of requests that brokers forward to it."""


def guard_of(node: Any, api_key: int) -> Guard | None:
    """The guard of an API at this node. An API that is not in the table is refused: it was forgotten."""
    if node.is_controller_role:
        return guard_for(AT_A_CONTROLLER[api_key])
    return guard_for(AT_BROKER.get(api_key) or IN_ZOOKEEPER_MODE[api_key])


def guard_for(need: Need) -> Guard | None:
    """The guard that examines a need; None if there is nothing to examine."""
    if isinstance(need, Reason):
        return None
    if isinstance(need, AclOperation):
        return _on_cluster(need)
    module, function = need.split(":")
    guard: Guard = getattr(import_module(f"kpybroker.requests.guards.{module}"), function)
    return guard


def forwarded_guard(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    """The verdict of the controller on a request that a broker of the same process forwards. In ZooKeeper mode it is
    the broker itself that decides."""
    guard = guard_for(AT_A_CONTROLLER.get(call.api_key) or IN_ZOOKEEPER_MODE[call.api_key])
    return None if guard is None else guard(node, request, call)


def _on_cluster(operation: AclOperation) -> Guard:
    def guard(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
        if may_on_cluster(node, call, operation):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED, _lacking(call, operation))

    return guard


def _lacking(call: Call, operation: AclOperation) -> str:
    """The reason in Kafka's words. In the brackets Kafka also names threads, connections and buffers."""
    asked = f"api={api.API_KEYS[call.api_key].name}, principal={call.principal}, clientAddress={call.host}"
    return f"Request Request({asked}) needs {operation.name} permission."
