"""The handlers: one module per API key, named like kpywire's message modules, with ``handle(broker, request, call)``.

Two modules serve many keys: `forwarded` passes requests to the active controller, `quorum` to this node's part of the
metadata quorum. `SERVED` lists what ApiVersions advertises. A module is imported when its first request arrives.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from kpywire import api

SERVED = (
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "add_raft_voter",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition",
    "alter_partition_reassignments",
    "alter_replica_log_dirs",
    "alter_share_group_offsets",
    "alter_user_scram_credentials",
    "api_versions",
    "assign_replicas_to_dirs",
    "begin_quorum_epoch",
    "broker_heartbeat",
    "broker_registration",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "controller_registration",
    "create_acls",
    "create_delegation_token",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_groups",
    "delete_records",
    "delete_share_group_offsets",
    "delete_share_group_state",
    "delete_topics",
    "describe_acls",
    "describe_client_quotas",
    "describe_cluster",
    "describe_configs",
    "describe_delegation_token",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_quorum",
    "describe_share_group_offsets",
    "describe_topic_partitions",
    "describe_transactions",
    "describe_user_scram_credentials",
    "elect_leaders",
    "end_quorum_epoch",
    "end_txn",
    "envelope",
    "expire_delegation_token",
    "fetch",
    "fetch_snapshot",
    "find_coordinator",
    "get_telemetry_subscriptions",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "initialize_share_group_state",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "list_partition_reassignments",
    "list_transactions",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "push_telemetry",
    "read_share_group_state",
    "read_share_group_state_summary",
    "remove_raft_voter",
    "renew_delegation_token",
    "sasl_authenticate",
    "sasl_handshake",
    "share_acknowledge",
    "share_fetch",
    "share_group_describe",
    "share_group_heartbeat",
    "streams_group_describe",
    "streams_group_heartbeat",
    "streams_group_topology_description_update",
    "sync_group",
    "txn_offset_commit",
    "unregister_broker",
    "unregister_controller",
    "update_features",
    "update_raft_voter",
    "vote",
    "write_share_group_state",
    "write_txn_markers",
)


class NotYet(NamedTuple):
    """The newest version of an API that is served; None if none is. ``reason`` says what the newer ones need."""

    newest: int | None
    reason: str


NOT_YET: Final[Mapping[str, NotYet]] = {}
"""The APIs whose newest versions Kafka serves and this broker does not. All others are advertised at Kafka's versions:
the messages of another Kafka bring a row for each version that they raise, and it goes when the version is served."""

ADVERTISED_FROM_ZERO = frozenset({0})
"""The API keys advertised from version 0. Produce is served from 3, but old librdkafka enables codecs only if version 0
is advertised (KAFKA-18659)."""


ON_BROKER = "broker"


def _served() -> list[api.ApiKey]:
    """The served APIs, with the newest versions that are served."""
    modules = {entry.module: entry for entry in api.API_KEYS.values()}
    return [_capped(modules[name]) for name in SERVED]


def _capped(entry: api.ApiKey) -> api.ApiKey:
    cap = NOT_YET.get(entry.module)
    return entry if cap is None or cap.newest is None else entry._replace(max_version=cap.newest)


def served_versions() -> dict[int, tuple[int, int]]:
    """The versions of each api key that a broker's listener serves: ``{key: (first, last)}``, both included."""
    return {entry.key: (entry.min_version, entry.max_version) for entry in _served() if ON_BROKER in entry.listeners}


OF_CLIENT_METRICS = frozenset({api.GET_TELEMETRY_SUBSCRIPTIONS, api.PUSH_TELEMETRY})
"""The API keys of KIP-714. They are always served, and advertised once a subscription exists."""


OF_ZOOKEEPER_MODE = frozenset(key for key, entry in api.API_KEYS.items() if entry.listeners == ("zkBroker",))
"""The API keys that only brokers in ZooKeeper mode serve, and their controllers send (Kafka 3.9)."""

OF_ZOOKEEPER_CONTROLLERS = ("leader_and_isr", "stop_replica", "update_metadata")
"""The handlers of what such a controller orders."""

CONTROLLER_SERVED = frozenset(
    {
        "add_raft_voter",
        "alter_client_quotas",
        "alter_configs",
        "alter_partition_reassignments",
        "alter_user_scram_credentials",
        "api_versions",
        "create_acls",
        "create_delegation_token",
        "create_partitions",
        "create_topics",
        "delete_acls",
        "delete_topics",
        "describe_acls",
        "describe_cluster",
        "describe_configs",
        "describe_quorum",
        "elect_leaders",
        "expire_delegation_token",
        "fetch",
        "incremental_alter_configs",
        "list_partition_reassignments",
        "remove_raft_voter",
        "renew_delegation_token",
        "sasl_authenticate",
        "sasl_handshake",
        "unregister_broker",
        "unregister_controller",
        "update_features",
    }
)
"""The APIs of brokers that a controller listener serves too: those that the controller decides or any node answers."""


def controller_versions() -> dict[int, tuple[int, int]]:
    """The versions of each api key that a controller listener serves: `CONTROLLER_SERVED`, and what only nodes use."""
    return {
        entry.key: (entry.min_version, entry.max_version)
        for entry in _served()
        if entry.module in CONTROLLER_SERVED or ON_BROKER not in entry.listeners
    }


def home_of(name: str) -> str:
    """The name of the module that handles the messages of ``name``."""
    from kpybroker.requests.handlers import forwarded, quorum

    return "forwarded" if name in forwarded.FORWARDED else "quorum" if name in quorum.QUORUM else name


def load(api_key: int) -> Any:
    """The handler module of a served api key. It has ``handle``; ``codec(version)`` if it brings its own codec, and
    ``request_decoder(version)`` if it brings the half of it that decodes."""
    return import_module(f"kpybroker.requests.handlers.{home_of(api.API_KEYS[api_key].module)}")


def load_for_controller(api_key: int) -> Any:
    """Like `load`, on a controller's listener, where Fetch reads the metadata log."""
    if api_key == api.FETCH:
        from kpybroker.requests.handlers import quorum

        return quorum
    return load(api_key)
