"""The same requests to create and delete ACLs, decided here and by Kafka's ``AclControlManager``."""

import base64
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from controller_world import ControllerWorld

from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.controller.existing_acls import AclContent
from kpywire import codec, uuid
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.metadata_records import encode_record
from kpywire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from oracle.asked import AskedOracle
from oracle.recorded import Asked, Play

PRINCIPALS: Final = ("User:a", "User:b", "User:*", "User:CN=a,O=b")
HOSTS: Final = (*("*", "10.0.0.7") * 3, "10.0.0.0/8", "2001:db8::/32", "10.0.0.0/40", "some/thing", "::1/x", "")
LEVELS: Final = (33, 31, 32, 30, 33, 7)
"""The levels of `metadata.version`, for each seed."""
NAMES: Final = ("a", "aa", "ab", "*", "é")
TYPES: Final = tuple(ResourceType)[2:]
OPERATIONS: Final = tuple(AclOperation)[2:]


def started() -> AskedOracle:
    return AskedOracle("AclOracle.java", "org.apache.kafka.controller.AclOracle")


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


def an_acl(rng: Random) -> AclContent:
    return AclContent(
        rng.choice(TYPES),
        rng.choice(NAMES),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice(PRINCIPALS),
        rng.choice(HOSTS),
        rng.choice(OPERATIONS),
        rng.choice((Permission.ALLOW, Permission.DENY)),
    )


def a_creation(rng: Random, content: AclContent) -> AclCreation:
    """The request for an ACL; now and then something about it is wrong."""
    fields = content._asdict()
    fields["resource_pattern_type"] = fields.pop("pattern_type")
    if content.resource_type == ResourceType.CLUSTER:
        fields["resource_name"] = "kafka-cluster"
    wrong = {
        "resource_type": 99,
        "resource_pattern_type": 77,
        "operation": 55,
        "permission_type": 44,
        "principal": rng.choice(("", "nobody")),
    }
    for name in rng.sample(sorted(wrong), rng.choice((0, 0, 0, 0, 1, 2))):
        fields[name] = wrong[name]
    return AclCreation(**fields)


def a_filter(rng: Random) -> DeleteAclsFilter:
    def some(*values: Any) -> Any:
        return rng.choice(values)

    return DeleteAclsFilter(
        resource_type_filter=some(1, 1, *TYPES, 99),
        resource_name_filter=some(None, None, *NAMES),
        pattern_type_filter=some(1, 2, 2, 3, 4, 99) if rng.random() < 0.9 else 1,
        principal_filter=some(None, None, None, *PRINCIPALS),
        host_filter=some(None, None, None, *HOSTS),
        operation=some(1, 1, 1, *OPERATIONS, 99),
        permission_type=some(1, 1, 2, 3, 99),
    )


def content_text(acl: Any) -> str:
    return ",".join(str(each) if isinstance(each, str) else str(int(each)) for each in AclContent.of(acl))


def outcome(code: int, message: str | None, success: str) -> str:
    return f"{code},{message}" if code else success


def encoded(request: Any) -> str:
    return base64.b64encode(codec.encode(request, 3)).decode()


@pytest.mark.java
@pytest.mark.parametrize("seed", range(len(LEVELS)))
def test_both_controllers_decide_the_same(kafka: AskedOracle, seed: int) -> None:
    compare(kafka, seed)


@pytest.mark.parametrize("seed", range(2))
def test_decisions_are_those_that_kafka_made(recorded: Play, seed: int) -> None:
    compare(recorded(started), seed)


def compare(kafka: Asked, seed: int) -> None:
    rng = Random(seed)
    world = ControllerWorld(LEVELS[seed])
    kafka.ask_for_line("begin", "", "false")
    for _ in range(40):
        before = len(world.log)
        if rng.random() < 0.6:
            wanted = [a_creation(rng, an_acl(rng)) for _ in range(rng.choice((0, 1, 2, 10)))]
            creation = CreateAclsRequest(creations=wanted + wanted[: rng.randint(0, 2)])
            answers = world.send(creation).results
            ours = ";".join(outcome(each.error_code, each.error_message, "0") for each in answers)
            written = ";".join(content_text(each) for each in world.log[before:])
            assert kafka.ask_for_line("create", LEVELS[seed], encoded(creation)) == f"{ours}\t{written}", creation
        else:
            deletion = DeleteAclsRequest(filters=[a_filter(rng) for _ in range(rng.choice((0, 1, 3)))])
            results = world.send(deletion).filter_results
            ours = ";".join(
                outcome(each.error_code, each.error_message, "|".join(sorted(map(content_text, each.matching_acls))))
                for each in results
            )
            removed = ";".join(sorted(uuid.to_string(each.id) for each in world.log[before:]))
            assert kafka.ask_for_line("delete", encoded(deletion)) == f"{ours}\t{removed}", deletion
        records = [base64.b64encode(encode_record(each, 0)).decode() for each in world.log[before:]]
        if records:
            kafka.ask_for_line("records", ",".join(records))
    assert len(world.image.acls) > 10


@pytest.mark.java
def test_ten_thousand_may_go_at_once_and_no_more(kafka: AskedOracle) -> None:
    world = ControllerWorld()
    kafka.ask_for_line("begin", "", "false")
    everything = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
                host_filter=None, operation=1, permission_type=1,
            )
        ]
    )  # fmt: skip
    many = [
        AclContent(2, f"t{number}", 3, "User:a", "*", AclOperation.READ, Permission.ALLOW) for number in range(10_001)
    ]
    for start in (0, 5_000, 10_000):
        creations = [a_creation(Random(0), each) for each in many[start : start + 5_000]]
        before = len(world.log)
        world.send(CreateAclsRequest(creations=creations))
        records = [base64.b64encode(encode_record(each, 0)).decode() for each in world.log[before:]]
        kafka.ask_for_line("records", ",".join(records))
    refused = world.send(everything).filter_results
    assert kafka.ask_for_line("delete", encoded(everything)) == f"error 42,{refused[0].error_message}"
    assert [each.error_code for each in refused] == [42]
    last = next(iter(world.image.acls.values()))
    world.write([RemoveAccessControlEntryRecord(id=last.id)])
    (deleted,) = world.send(everything).filter_results
    assert (deleted.error_code, len(deleted.matching_acls), world.image.acls) == (0, 10_000, {})
