"""ACLs, quotas and SCRAM users that clients change through ZooKeeper: what is written, and what is refused, in words.

The words and codes are those of Kafka 3.9 (``AclAuthorizer``, ``AclApis``, ``ZkAdminManager``, ``DynamicConfig``).
"""

from typing import Any

import pytest

from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl import scram
from kpybroker.machines.zookeeper.broker.acl_requests import AclDeletion, Creation
from kpybroker.machines.zookeeper.broker.client_configs import (
    check_configs,
    entity_of,
    faults,
    with_credentials,
    with_quotas,
)
from kpybroker.machines.zookeeper.tree import configs
from kpybroker.machines.zookeeper.tree.acls import AclEntry, ResourcePattern
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import OpData
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

INVALID, UNKNOWN = error_codes.INVALID_REQUEST, error_codes.UNKNOWN_SERVER_ERROR
T = ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)


def acl(**changes: Any) -> AclCreation:
    usual: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC, "resource_name": "t", "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ann", "host": "*", "operation": AclOperation.READ, "permission_type": Permission.ALLOW,
    }  # fmt: skip
    return AclCreation(**{**usual, **changes})


def entry(principal: str = "User:ann", operation: AclOperation = AclOperation.READ) -> AclEntry:
    return AclEntry(principal, Permission.ALLOW, "*", operation)


def created(*acls: AclCreation) -> Creation:
    return Creation(CreateAclsRequest(creations=list(acls)))


def codes(
    creation: Creation, failures: dict[ResourcePattern, KafkaError] | None = None
) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in creation.response(failures or {}).results]


# ACLs that are created.


def test_acls_are_added_to_those_of_their_resource_once() -> None:
    creation = created(acl(), acl(operation=AclOperation.WRITE), acl(resource_name="u"), acl())
    assert list(creation.added) == [T, T._replace(name="u")]
    assert creation.changed(T, (entry("User:bob"), entry())) == (
        entry("User:bob"),
        entry(),
        entry(operation=AclOperation.WRITE),
    )
    assert codes(creation) == [(0, "")] * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_name": "a/b"}, "Failed to create ACL"),
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            {"resource_type": ResourceType.CLUSTER, "resource_name": ""},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"resource_type": 99}, "Failed to create ACL"),
        ({"operation": 99}, "Failed to create ACL"),
        ({"permission_type": 99}, "Failed to create ACL"),
        ({"resource_pattern_type": 99}, "Failed to create ACL"),
    ],
)
def test_an_acl_that_cannot_be_is_refused_and_the_others_are_made(changes: dict[str, Any], message: str) -> None:
    creation = created(acl(**changes), acl())
    assert codes(creation) == [(INVALID, message), (0, "")]
    assert list(creation.added) == [T]


def test_an_acl_on_the_cluster_has_its_name() -> None:
    creation = created(acl(resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster"))
    assert codes(creation) == [(0, "")]


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_pattern_type": PatternType.MATCH},
        {"operation": AclOperation.ANY},
        {"permission_type": Permission.ANY},
    ],
)
def test_filter_values_in_a_creation_fail_the_whole_request(changes: dict[str, Any]) -> None:
    with pytest.raises(KafkaError) as caught:
        created(acl(), acl(**changes))
    assert caught.value.code == UNKNOWN


@pytest.mark.parametrize("principal", ["ann", "", ":ann"])
def test_a_principal_has_a_type(principal: str) -> None:
    creation = created(acl(), acl(principal=principal))
    with pytest.raises(KafkaError) as caught:
        creation.changed(T, ())
    assert caught.value.code == UNKNOWN
    assert created(acl(principal="User:")).changed(T, ()) == (entry("User:"),)


def test_a_resource_that_could_not_be_written_fails_for_all_its_acls() -> None:
    creation = created(acl(), acl(resource_name="u"), acl(operation=AclOperation.WRITE), acl(resource_name=""))
    assert codes(creation, {T: KafkaError(UNKNOWN, "why")}) == [
        (UNKNOWN, "why"),
        (0, ""),
        (UNKNOWN, "why"),
        (INVALID, "Invalid empty resource name"),
    ]


# ACLs that are deleted.


def acl_filter(**changes: Any) -> DeleteAclsFilter:
    usual: dict[str, Any] = {
        "resource_type_filter": ResourceType.TOPIC, "resource_name_filter": "t",
        "pattern_type_filter": PatternType.LITERAL, "principal_filter": None, "host_filter": None,
        "operation": AclOperation.ANY, "permission_type": Permission.ANY,
    }  # fmt: skip
    return DeleteAclsFilter(**{**usual, **changes})


def deletion(*filters: DeleteAclsFilter) -> AclDeletion:
    return AclDeletion(DeleteAclsRequest(filters=list(filters)))


def test_acls_go_with_the_first_filter_that_they_match() -> None:
    asked = deletion(acl_filter(operation=AclOperation.READ), acl_filter(), acl_filter(resource_name_filter="u"))
    write = entry(operation=AclOperation.WRITE)
    assert asked.changed(T, (entry(), write)) == ()
    results = asked.response({}).filter_results
    assert [[each.operation for each in result.matching_acls] for result in results] == [
        [AclOperation.READ],
        [AclOperation.WRITE],
        [],
    ]
    found = results[0].matching_acls[0]
    assert (found.error_code, found.resource_type, found.resource_name, found.pattern_type) == (
        0,
        ResourceType.TOPIC,
        "t",
        PatternType.LITERAL,
    )
    assert (found.principal, found.host, found.permission_type) == ("User:ann", "*", Permission.ALLOW)


def test_acls_that_match_no_filter_stay() -> None:
    asked = deletion(acl_filter(operation=AclOperation.READ))
    write = entry(operation=AclOperation.WRITE)
    assert asked.changed(T, (write, entry())) == (write,)
    asked = deletion(acl_filter(principal_filter="User:bob"))
    assert asked.changed(T, (entry(),)) == (entry(),)


def test_a_deletion_that_is_tried_again_reports_what_the_first_attempt_found() -> None:
    asked = deletion(acl_filter())
    asked.changed(T, (entry(),))
    asked.changed(T, (entry(), entry("User:bob")))
    (result,) = asked.response({}).filter_results
    assert [each.principal for each in result.matching_acls] == ["User:ann", "User:bob"]


def test_a_resource_that_could_not_be_written_keeps_its_acls() -> None:
    asked = deletion(acl_filter(), acl_filter(resource_name_filter="u"))
    asked.changed(T, (entry(),))
    asked.changed(T._replace(name="u"), (entry(),))
    results = asked.response({T: KafkaError(UNKNOWN, "why")}).filter_results
    assert [(each.error_code, each.matching_acls[0].error_code) for each in results] == [(0, UNKNOWN), (0, 0)]
    assert results[0].matching_acls[0].error_message == "why"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, [T]),
        ({"pattern_type_filter": PatternType.PREFIXED}, [T._replace(pattern=PatternType.PREFIXED)]),
        ({"pattern_type_filter": PatternType.ANY}, []),
        ({"pattern_type_filter": PatternType.MATCH}, []),
        ({"resource_name_filter": None}, []),
        ({"resource_type_filter": ResourceType.ANY}, []),
    ],
)
def test_a_filter_names_a_resource_exactly_or_none(changes: dict[str, Any], named: list[ResourcePattern]) -> None:
    assert deletion(acl_filter(**changes)).named == named


def test_a_filter_concerns_the_resources_that_it_may_match() -> None:
    asked = deletion(acl_filter(principal_filter="User:nobody", operation=AclOperation.READ, host_filter="h"))
    assert asked.concerns(T)
    assert not asked.concerns(T._replace(name="u"))
    assert not asked.concerns(T._replace(kind=ResourceType.GROUP))
    both = deletion(acl_filter(resource_name_filter="u"), acl_filter(permission_type=Permission.DENY))
    assert both.concerns(T)


# Quotas.


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"user": ""}, "Empty user not supported"),
        ({"client-id": ""}, "Empty client-id not supported"),
        ({"ip": ""}, "Empty ip not supported"),
        ({"planet": "earth"}, "Unhandled client quota entity type: planet"),
        ({"user": "a", "ip": "1.2.3.4"}, "Invalid quota entity combination"),
        ({"ip": "no address"}, "is not a valid IP or resolvable host."),
    ],
)
def test_an_owner_of_quotas_that_cannot_be_is_refused(names: dict[str, str | None], message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        entity_of(names)
    assert caught.value.code == INVALID


@pytest.mark.parametrize(
    ("names", "entity"),
    [
        ({"user": "a"}, ConfigEntity(configs.USERS, "a")),
        ({"user": None}, ConfigEntity(configs.USERS, "<default>")),
        ({"user": "a", "client-id": "c"}, ConfigEntity(configs.USERS, "a", "c")),
        ({"client-id": "c"}, ConfigEntity(configs.CLIENTS, "c")),
        ({"ip": "1.2.3.4"}, ConfigEntity(configs.ADDRESSES, "1.2.3.4")),
        ({"ip": None}, ConfigEntity(configs.ADDRESSES, "<default>")),
    ],
)
def test_quotas_belong_to_users_clients_and_addresses(names: dict[str, str | None], entity: ConfigEntity) -> None:
    assert entity_of(names) == entity


USER_A, ADDRESS = ConfigEntity(configs.USERS, "a"), ConfigEntity(configs.ADDRESSES, "1.2.3.4")


def operation(key: str, value: float = 0.0, *, remove: bool = False) -> OpData:
    return OpData(key=key, value=value, remove=remove)


def test_quotas_are_set_replaced_and_removed() -> None:
    values = {"consumer_byte_rate": "5", "SCRAM-SHA-256": "secret"}
    changed = with_quotas(
        USER_A,
        values,
        [
            operation("producer_byte_rate", 7.0),
            operation("consumer_byte_rate", remove=True),
            operation("request_percentage", 1.5),
            operation("unknown", remove=True),
        ],
    )
    assert changed == {"SCRAM-SHA-256": "secret", "producer_byte_rate": "7", "request_percentage": "1.5"}
    assert values == {"consumer_byte_rate": "5", "SCRAM-SHA-256": "secret"}, "the values before stay as they are"
    assert with_quotas(USER_A, {}, [operation("producer_byte_rate", 0.0)]) == {"producer_byte_rate": "0"}


@pytest.mark.parametrize(
    ("entity", "given", "message"),
    [
        (USER_A, operation("connection_creation_rate", 1.0), "Invalid configuration key connection_creation_rate"),
        (ADDRESS, operation("producer_byte_rate", 1.0), "Invalid configuration key producer_byte_rate"),
        (USER_A, operation("producer_byte_rate", 1.5), "Configuration producer_byte_rate must be a LONG value"),
        (ADDRESS, operation("connection_creation_rate", 2.0**40), "connection_creation_rate must be a INT value"),
    ],
)
def test_a_quota_that_an_entity_cannot_have_is_refused(entity: ConfigEntity, given: OpData, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        with_quotas(entity, {}, [given])
    assert caught.value.code == INVALID


@pytest.mark.parametrize(
    ("entity", "values", "is_valid"),
    [
        (USER_A, {"producer_byte_rate": "1", "SCRAM-SHA-512": "x"}, True),
        (ConfigEntity(configs.USERS, configs.DEFAULT_NAME), {"SCRAM-SHA-512": "x"}, False),
        (ConfigEntity(configs.USERS, configs.DEFAULT_NAME), {"producer_byte_rate": "1"}, True),
        (ConfigEntity(configs.USERS, "a", "c"), {"SCRAM-SHA-512": "x"}, False),
        (ConfigEntity(configs.CLIENTS, "c"), {"SCRAM-SHA-512": "x"}, False),
        (USER_A, {"connection_creation_rate": "1"}, False),
        (ADDRESS, {"connection_creation_rate": "1"}, True),
        (ADDRESS, {"connection_creation_rate": "-1"}, False),
        (USER_A, {"producer_byte_rate": "-1"}, True),
        (USER_A, {}, True),
    ],
)
def test_an_entity_with_configs_that_it_cannot_have_is_not_written(
    entity: ConfigEntity, values: dict[str, str], is_valid: bool
) -> None:
    if is_valid:
        check_configs(entity, values)
        return
    with pytest.raises(KafkaError) as caught:
        check_configs(entity, values)
    assert caught.value.code == UNKNOWN


# SCRAM users.

SHA_256, SHA_512 = 1, 2


def upsertion(name: str = "ann", mechanism: int = SHA_256, iterations: int = 4_096, password: bytes = b"p") -> Any:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=password * 32
    )


def dropped(name: str = "ann", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def altered(upsertions: list[Any], deletions: list[Any]) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def fault_of(upsertions: list[Any], deletions: list[Any]) -> dict[str, int]:
    return {name: error.code for name, error in faults(altered(upsertions, deletions)).items()}


def test_users_that_cannot_be_altered_get_their_own_errors() -> None:
    unacceptable, unsupported = error_codes.UNACCEPTABLE_CREDENTIAL, error_codes.UNSUPPORTED_SASL_MECHANISM
    assert fault_of([upsertion()], [dropped("bob")]) == {}
    assert fault_of([], [dropped("")]) == {"": unacceptable}
    assert fault_of([upsertion("")], []) == {"": unacceptable}
    assert fault_of([], [dropped(mechanism=0), dropped("bob", 3)]) == {"ann": unsupported, "bob": unsupported}
    assert fault_of([upsertion(mechanism=9)], []) == {"ann": unsupported}
    assert fault_of([upsertion(iterations=4_095)], []) == {"ann": unacceptable}
    assert fault_of([upsertion(iterations=16_385)], []) == {"ann": unacceptable}
    assert fault_of([upsertion(iterations=16_384)], []) == {}


def test_a_credential_is_altered_once_in_a_request_and_both_mechanisms_may_be() -> None:
    assert fault_of([upsertion(), upsertion()], []) == {"ann": error_codes.DUPLICATE_RESOURCE}
    assert fault_of([upsertion()], [dropped()]) == {"ann": error_codes.DUPLICATE_RESOURCE}
    assert fault_of([upsertion(mechanism=SHA_512)], [dropped()]) == {}
    assert fault_of([upsertion(mechanism=9), upsertion()], [dropped()])["ann"] != error_codes.DUPLICATE_RESOURCE


def test_credentials_are_written_and_removed_beside_other_configs() -> None:
    before = {"SCRAM-SHA-256": "old", "producer_byte_rate": "5"}
    request = altered([upsertion(mechanism=SHA_512), upsertion("bob")], [dropped(), dropped("bob", SHA_512)])
    after = with_credentials(request, "ann", before)
    assert after.keys() == {"SCRAM-SHA-512", "producer_byte_rate"}
    assert "iterations=4096" in after["SCRAM-SHA-512"]
    assert before["SCRAM-SHA-256"] == "old"
    assert scram.BY_CODE[SHA_512].name == "SCRAM-SHA-512"
    for present in ({}, {"SCRAM-SHA-512": "other"}):
        with pytest.raises(KafkaError, match="does not exist") as caught:
            with_credentials(altered([], [dropped()]), "ann", present)
        assert caught.value.code == error_codes.RESOURCE_NOT_FOUND
