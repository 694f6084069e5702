"""The authorizer: which ACLs count, and what they allow (``StandardAuthorizer``)."""

import pytest

from kpybroker.machines.authorization.acl_authorizer import AclAuthorizer
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.runtime.calls.principal import Principal
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.7"


def acl(
    name: str,
    operation: AclOperation,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=bytes(16),
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def authorizer(*acls: AccessControlEntryRecord, allows_without_acl: bool = False) -> Authorizer:
    made = Authorizer(frozenset([BOB]), allows_without_acl=allows_without_acl)
    by_id = {number.to_bytes(16): each for number, each in enumerate(acls)}
    made.acls_changed(by_id, by_id)
    return made


@pytest.mark.parametrize(
    ("acls", "allowed", "denied"),
    [
        ([acl("t", AclOperation.READ)], {AclOperation.READ, AclOperation.DESCRIBE}, {AclOperation.WRITE}),
        ([acl("t", AclOperation.ALL)], {AclOperation.READ, AclOperation.ALTER_CONFIGS}, set()),
        ([acl("t", AclOperation.ALTER_CONFIGS)], {AclOperation.DESCRIBE_CONFIGS}, {AclOperation.DESCRIBE}),
        ([acl("*", AclOperation.WRITE)], {AclOperation.WRITE}, {AclOperation.READ}),
        ([acl("*", AclOperation.WRITE, pattern=PatternType.PREFIXED)], set(), {AclOperation.WRITE}),
        ([acl("", AclOperation.WRITE, pattern=PatternType.PREFIXED)], {AclOperation.WRITE}, set()),
        ([acl("t", AclOperation.WRITE, host=HOST)], {AclOperation.WRITE}, set()),
        ([acl("t", AclOperation.WRITE, host="10.0.0.0/8")], {AclOperation.WRITE}, set()),
        ([acl("t", AclOperation.WRITE, host="10.1.0.0/16")], set(), {AclOperation.WRITE}),
        ([acl("t", AclOperation.WRITE, principal="User:*")], {AclOperation.WRITE}, set()),
        (
            [acl("t", AclOperation.ALL), acl("t", AclOperation.READ, Permission.DENY)],
            {AclOperation.DESCRIBE, AclOperation.WRITE},
            {AclOperation.READ},
        ),
        (
            [acl("t", AclOperation.READ), acl("t", AclOperation.DESCRIBE, Permission.DENY)],
            {AclOperation.READ},
            {AclOperation.DESCRIBE},
        ),
    ],
)
def test_an_acl_allows_what_it_names_and_implies(
    acls: list[AccessControlEntryRecord], allowed: set[AclOperation], denied: set[AclOperation]
) -> None:
    judge = authorizer(*acls)
    answers = {
        operation: judge.allows(ALICE, HOST, operation, ResourceType.TOPIC, "t") for operation in allowed | denied
    }
    assert answers == {**dict.fromkeys(allowed, True), **dict.fromkeys(denied, False)}


def test_super_users_may_everything_and_a_resource_without_acls_is_as_configured() -> None:
    other = acl("u", AclOperation.READ, principal="User:carol")
    for everyone in (False, True):
        judge = authorizer(other, allows_without_acl=everyone)
        assert judge.allows(BOB, HOST, AclOperation.READ, ResourceType.TOPIC, "u")
        assert judge.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "t") is everyone
        assert not judge.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "u")


@pytest.mark.parametrize(
    ("denied", "pattern", "any_is_left"),
    [
        ("t", PatternType.LITERAL, False),
        ("u", PatternType.LITERAL, True),
        ("t", PatternType.PREFIXED, False),
        ("", PatternType.PREFIXED, True),  # as in Kafka, which begins with the first character
        ("tt", PatternType.PREFIXED, True),
        ("*", PatternType.LITERAL, False),
    ],
)
def test_any_topic_is_allowed_where_a_denial_does_not_cover_all_that_is_allowed(
    denied: str, pattern: PatternType, any_is_left: bool
) -> None:
    allowing = acl("t", AclOperation.READ)
    assert authorizer(allowing).allows_any(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC)
    both = authorizer(allowing, acl(denied, AclOperation.READ, Permission.DENY, pattern))
    for _ in range(2):
        assert both.allows_any(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC) == any_is_left
    assert not both.allows_any(ALICE, HOST, AclOperation.WRITE, ResourceType.TOPIC)
    both.acls_changed({}, [number.to_bytes(16) for number in range(2)])
    assert not both.allows_any(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC)


def test_decisions_are_counted_once_each() -> None:
    made = authorizer(acl("t", AclOperation.READ))
    for name, count in (("t", 3), ("u", 2)):
        for _ in range(count):
            made.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, name)
    assert (made.allowed_count, made.denied_count) == (3, 2)


def test_in_zookeeper_mode_networks_mean_nothing() -> None:
    for kind, is_allowed in ((Authorizer, True), (AclAuthorizer, False)):
        made = kind(frozenset([BOB]), allows_without_acl=False)
        by_id = {bytes(16): acl("t", AclOperation.READ, host="10.0.0.0/8")}
        made.acls_changed(by_id, by_id)
        assert made.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "t") is is_allowed
        assert made.allows_any(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC) is is_allowed


@pytest.mark.parametrize("everyone", [True, False])
def test_in_zookeeper_mode_a_question_about_any_resource_counts_once(*, everyone: bool) -> None:
    made = AclAuthorizer(frozenset([BOB]), allows_without_acl=everyone)
    made.acls_changed({}, [])
    assert made.allows_any(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC) == everyone
    assert (made.allowed_count, made.denied_count) == ((1, 0) if everyone else (0, 1))
    assert made.allows_any(BOB, HOST, AclOperation.READ, ResourceType.TOPIC)
