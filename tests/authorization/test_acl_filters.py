"""Filters of ACLs: what each field excludes, and which patterns cover a name."""

from typing import Any

import pytest

from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.authorization.filters import AclFilter, only_filters_have
from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.runtime.calls.principal import Principal
from kpywire.messages.create_acls import AclCreation
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord

ANY = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY)


def acl(name: str = "t", pattern: PatternType = PatternType.LITERAL, **fields: Any) -> AccessControlEntryRecord:
    usual: dict[str, Any] = {
        "id": bytes(16),
        "resource_type": ResourceType.TOPIC,
        "principal": "User:u",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AccessControlEntryRecord(resource_name=name, pattern_type=pattern, **(usual | fields))


@pytest.mark.parametrize(
    ("field", "same", "other"),
    [
        ("resource_type", ResourceType.TOPIC, ResourceType.GROUP),
        ("resource_name", "t", "u"),
        ("pattern_type", PatternType.LITERAL, PatternType.PREFIXED),
        ("principal", "User:u", "User:v"),
        ("host", "*", "10.0.0.1"),
        ("operation", AclOperation.READ, AclOperation.WRITE),
        ("permission_type", Permission.ALLOW, Permission.DENY),
    ],
)
def test_each_field_excludes_other_values_and_none_when_it_is_open(field: str, same: Any, other: Any) -> None:
    assert ANY.matches(acl())
    assert ANY._replace(**{field: same}).matches(acl())
    assert not ANY._replace(**{field: other}).matches(acl())


@pytest.mark.parametrize(
    ("found", "name", "is_wanted"),
    [
        (acl("t"), "t", True),
        (acl("t"), "tt", False),
        (acl("*"), "t", True),
        (acl("t", PatternType.PREFIXED), "tt", True),
        (acl("tt", PatternType.PREFIXED), "t", False),
        (acl("*", PatternType.PREFIXED), "t", False),
        (acl("u"), None, True),
        (acl("u", PatternType.PREFIXED), None, True),
    ],
)
def test_match_wants_the_patterns_that_cover_a_name(
    found: AccessControlEntryRecord, name: str | None, is_wanted: bool
) -> None:
    assert ANY._replace(resource_name=name, pattern_type=PatternType.MATCH).matches(found) == is_wanted


@pytest.mark.parametrize(
    ("fields", "is_only_of_filters"),
    [
        ({}, False),
        ({"resource_type": ResourceType.ANY}, True),
        ({"resource_pattern_type": PatternType.ANY}, True),
        ({"resource_pattern_type": PatternType.MATCH}, True),
        ({"resource_pattern_type": PatternType.PREFIXED}, False),
        ({"operation": AclOperation.ANY}, True),
        ({"permission_type": Permission.ANY}, True),
    ],
)
def test_an_acl_cannot_have_what_only_filters_have(fields: dict[str, int], is_only_of_filters: bool) -> None:
    usual: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": "t",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:u",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": Permission.ALLOW,
    }
    assert only_filters_have(AclCreation(**(usual | fields))) == is_only_of_filters


@pytest.mark.parametrize("names", [("a", "ab", "abc"), ("abc", "ab", "a"), ("ab", "abc", "a")])
def test_the_most_specific_denial_is_named(names: tuple[str, ...]) -> None:
    made = Authorizer(frozenset(), allows_without_acl=False)
    acls = {
        number.to_bytes(16): acl(name, PatternType.PREFIXED, permission_type=Permission.DENY)
        for number, name in enumerate(names)
    }
    for each in acls:
        made.acls_changed({key: acls[key] for key in acls if key <= each}, [each])
    asked = (Principal("User", "u"), "10.0.0.1", AclOperation.READ, ResourceType.TOPIC)
    for name, named in (("abcd", "abc"), ("abx", "ab"), ("ax", "a")):
        rule = made.decide(*asked, name)
        assert not rule.allows
        assert rule.acl is not None
        assert rule.acl.resource_name == named
    longest = next(key for key, each in acls.items() if each.resource_name == "abc")
    made.acls_changed({key: each for key, each in acls.items() if key != longest}, [longest])
    rule = made.decide(*asked, "abcd")
    assert rule.acl is not None
    assert rule.acl.resource_name == "ab"
