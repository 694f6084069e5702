"""The functions that decide requests. The module of each is imported when the first such request comes.

A plain start needs few of them: a broker registers and sends heartbeats, and everything else is asked for by somebody.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision, Steps

Decider = Callable[[ControllerState, ControllerRequest, int], Decision | Steps]

DECIDERS: Final = {
    "AllocateProducerIdsRequest": "producer_ids.allocate_producer_ids",
    "AlterClientQuotasRequest": "client_quotas.alter_client_quotas",
    "AlterConfigsRequest": "configs.alter_configs",
    "AlterPartitionReassignmentsRequest": "reassignments.alter_partition_reassignments",
    "AlterPartitionRequest": "partitions.alter_partition",
    "AlterUserScramCredentialsRequest": "scram.alter_user_scram_credentials",
    "AssignReplicasToDirsRequest": "directories.assign_replicas_to_dirs",
    "BrokerHeartbeatRequest": "brokers.heartbeat",
    "BrokerRegistrationRequest": "brokers.register_broker",
    "ControllerRegistrationRequest": "brokers.register_controller",
    "Copied": "migration.copied",
    "CreateAclsRequest": "acls.create_acls",
    "CreateDelegationTokenRequest": "delegation_tokens.create_delegation_token",
    "CreatePartitionsRequest": "partitions.create_partitions",
    "CreateTopicsRequest": "topics.create_topics",
    "DeleteAclsRequest": "acls.delete_acls",
    "DeleteTopicsRequest": "topics.delete_topics",
    "ElectLeadersRequest": "partitions.elect_leaders",
    "ExpireDelegationTokenRequest": "delegation_tokens.expire_delegation_token",
    "IncrementalAlterConfigsRequest": "configs.incremental_alter_configs",
    "ListPartitionReassignmentsRequest": "reassignments.list_partition_reassignments",
    "RenewDelegationTokenRequest": "delegation_tokens.renew_delegation_token",
    "UnregisterBrokerRequest": "brokers.unregister_broker",
    "UnregisterControllerRequest": "controllers.unregister_controller",
    "UpdateFeaturesRequest": "features.update_features",
}
"""The module and function for each request, by the name of its class. ``Copied`` never comes over the network."""
IN_STEPS: Final = frozenset(
    (
        "AlterClientQuotasRequest", "AlterConfigsRequest", "AlterPartitionReassignmentsRequest",
        "AlterUserScramCredentialsRequest", "CreateAclsRequest", "CreatePartitionsRequest", "CreateTopicsRequest",
        "DeleteAclsRequest", "DeleteTopicsRequest", "ElectLeadersRequest", "IncrementalAlterConfigsRequest",
        "ListPartitionReassignmentsRequest", "UpdateFeaturesRequest",
    )
)  # fmt: skip
"""Requests that may be large: their deciders are generators."""
_WITH_TIMEOUT: Final = ("CreatePartitionsRequest", "CreateTopicsRequest", "DeleteTopicsRequest", "ElectLeadersRequest")


@cache
def decider_of(name: str) -> Decider:
    """The function that decides requests whose class has this name. Raises KeyError if there is none."""
    module, _, function = DECIDERS[name].partition(".")
    decider: Decider = getattr(import_module(f"kpybroker.machines.controller.{module}"), function)
    return decider


def decides_in_steps(message: Any) -> bool:
    """Whether a request may be large enough to be decided in steps (`Controller.deliberate`)."""
    return type(message).__name__ in IN_STEPS


def has_no_time(message: Any) -> bool:
    """Whether the time of a request is up before it began."""
    return type(message).__name__ in _WITH_TIMEOUT and message.timeout_ms <= 0
