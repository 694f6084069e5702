"""The response "this request failed", for each API (``getErrorResponse`` of Kafka's request classes)."""

from collections.abc import Callable, Generator
from typing import Any

from kpybroker.machines.controller import client_quotas
from kpybroker.machines.reporting_heartbeat import ReportingHeartbeatRequest
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, in_blocks
from kpywire import error_codes
from kpywire.messages import alter_configs, incremental_alter_configs
from kpywire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kpywire.messages.alter_client_quotas import AlterClientQuotasRequest
from kpywire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kpywire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kpywire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kpywire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from kpywire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kpywire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kpywire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kpywire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kpywire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kpywire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kpywire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kpywire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kpywire.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from kpywire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

InSteps = Generator[None, None, Any]


def error_response(request: Any, api_version: int, code: int, message: str | None) -> Any:
    """The response to a request of the controller that failed as a whole."""
    work = error_response_in_steps(request, api_version, code, message)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def error_response_in_steps(request: Any, api_version: int, code: int, message: str | None) -> InSteps:
    """Return what `error_response` returns, in steps."""
    response = _RESPONSES[type(request)](request, code, message)
    if isinstance(response, Generator):
        response = yield from response
    if api_version == 0 and type(request) is ElectLeadersRequest:
        response.error_code = error_codes.NONE  # version 0 has no place for it; the partitions say it
    return response


def plain_error_response(request: Any, api_version: int, code: int) -> Any:
    """Like `error_response`, with Kafka's standard message for the code."""
    return error_response(request, api_version, code, error_codes.message(code))


def _create_topics(request: CreateTopicsRequest, code: int, message: str | None) -> InSteps:
    topics = yield from in_blocks(
        request.topics,
        lambda topic: CreatableTopicResult(name=topic.name, error_code=code, error_message=message),
    )
    return CreateTopicsResponse(throttle_time_ms=0, topics=topics)


def _delete_topics(request: DeleteTopicsRequest, code: int, _message: str | None) -> InSteps:
    by_name = yield from in_blocks(request.topic_names, lambda name: DeletableTopicResult(name=name, error_code=code))
    by_state = yield from in_blocks(
        request.topics,
        lambda topic: DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code),
    )
    return DeleteTopicsResponse(throttle_time_ms=0, responses=by_name + by_state)


def _create_partitions(request: CreatePartitionsRequest, code: int, message: str | None) -> InSteps:
    results = yield from in_blocks(
        request.topics,
        lambda topic: CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message),
    )
    return CreatePartitionsResponse(throttle_time_ms=0, results=results)


def _configs_refused(response_class: type[Any], result_class: type[Any]) -> Callable[[Any, int, str | None], Any]:
    """Refuse AlterConfigs or IncrementalAlterConfigs: their messages have the same fields, but classes of their own."""

    def refuse(request: Any, code: int, message: str | None) -> InSteps:
        responses = yield from in_blocks(
            request.resources,
            lambda resource: result_class(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            ),
        )
        return response_class(throttle_time_ms=0, responses=responses)

    return refuse


def _alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, code: int, message: str | None
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    results = [AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message) for user in users]
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)


def _create_delegation_token(
    _request: CreateDelegationTokenRequest, code: int, _message: str | None
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        throttle_time_ms=0,
        error_code=code,
        principal_type=ANONYMOUS.principal_type,
        principal_name=ANONYMOUS.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
        token_id="",
        hmac=b"",
    )


def _elect_leaders(request: ElectLeadersRequest, code: int, message: str | None) -> InSteps:
    results: list[ReplicaElectionResult] = []
    for topic in request.topic_partitions or ():
        partitions = yield from in_blocks(
            topic.partitions,
            lambda partition_id: PartitionResult(partition_id=partition_id, error_code=code, error_message=message),
        )
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=partitions))
        if len(results) % STEP_ELEMENTS == 0:
            yield
    return ElectLeadersResponse(throttle_time_ms=0, error_code=code, replica_election_results=results)


def _create_acls(request: CreateAclsRequest, code: int, message: str | None) -> CreateAclsResponse:
    results = [AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    return CreateAclsResponse(throttle_time_ms=0, results=results)


def _delete_acls(request: DeleteAclsRequest, code: int, message: str | None) -> DeleteAclsResponse:
    results = [
        DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[]) for _ in request.filters
    ]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


_RESPONSES: dict[type, Callable[[Any, int, str | None], Any]] = {
    CreateAclsRequest: _create_acls,
    DeleteAclsRequest: _delete_acls,
    CreateTopicsRequest: _create_topics,
    DeleteTopicsRequest: _delete_topics,
    AlterClientQuotasRequest: client_quotas.refused,
    AlterPartitionReassignmentsRequest: lambda request, code, message: AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=code,
        error_message=message,
        responses=[],
    ),
    AlterUserScramCredentialsRequest: _alter_user_scram_credentials,
    CreateDelegationTokenRequest: _create_delegation_token,
    CreatePartitionsRequest: _create_partitions,
    alter_configs.AlterConfigsRequest: _configs_refused(
        alter_configs.AlterConfigsResponse, alter_configs.AlterConfigsResourceResponse
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest: _configs_refused(
        incremental_alter_configs.IncrementalAlterConfigsResponse,
        incremental_alter_configs.AlterConfigsResourceResponse,
    ),
    DescribeQuorumRequest: lambda _, code, message: DescribeQuorumResponse(
        error_code=code, error_message=message, topics=[]
    ),
    ElectLeadersRequest: _elect_leaders,
    ExpireDelegationTokenRequest: lambda _, code, __: ExpireDelegationTokenResponse(
        throttle_time_ms=0, error_code=code, expiry_timestamp_ms=0
    ),
    ListPartitionReassignmentsRequest: lambda _, code, message: ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=code, error_message=message, topics=[]
    ),
    RenewDelegationTokenRequest: lambda _, code, __: RenewDelegationTokenResponse(
        throttle_time_ms=0, error_code=code, expiry_timestamp_ms=0
    ),
    UpdateFeaturesRequest: lambda _, code, message: UpdateFeaturesResponse(
        throttle_time_ms=0, error_code=code, error_message=message
    ),
    UnregisterBrokerRequest: lambda _, code, message: UnregisterBrokerResponse(
        throttle_time_ms=0, error_code=code, error_message=message
    ),
    UnregisterControllerRequest: lambda _, code, message: UnregisterControllerResponse(
        throttle_time_ms=0, error_code=code, error_message=message
    ),
    AddRaftVoterRequest: lambda _, code, message: AddRaftVoterResponse(
        throttle_time_ms=0, error_code=code, error_message=message
    ),
    RemoveRaftVoterRequest: lambda _, code, message: RemoveRaftVoterResponse(
        throttle_time_ms=0, error_code=code, error_message=message
    ),
    AssignReplicasToDirsRequest: lambda _, code, __: AssignReplicasToDirsResponse(
        throttle_time_ms=0, error_code=code, directories=[]
    ),
    ControllerRegistrationRequest: lambda _, code, message: ControllerRegistrationResponse(
        throttle_time_ms=0, error_code=code, error_message=message
    ),
    AlterPartitionRequest: lambda _, code, __: AlterPartitionResponse(throttle_time_ms=0, topics=[], error_code=code),
    AllocateProducerIdsRequest: lambda _, code, __: AllocateProducerIdsResponse(
        throttle_time_ms=0, producer_id_start=0, producer_id_len=0, error_code=code
    ),
    ControlledShutdownRequest: lambda _, code, __: ControlledShutdownResponse(error_code=code, remaining_partitions=[]),
    BrokerHeartbeatRequest: lambda _, code, __: BrokerHeartbeatResponse(
        throttle_time_ms=0, should_shut_down=False, error_code=code
    ),
    ReportingHeartbeatRequest: lambda _, code, __: BrokerHeartbeatResponse(
        throttle_time_ms=0, should_shut_down=False, error_code=code
    ),
    BrokerRegistrationRequest: lambda _, code, __: BrokerRegistrationResponse(throttle_time_ms=0, error_code=code),
}
