"""The authorizer while ACLs change: what it has remembered, how much of it, and before anything is known."""

import logging
import sys
from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.authorization import authorizer as module
from kpybroker.machines.authorization.acl_authorizer import AclAuthorizer
from kpybroker.machines.authorization.audit import LONGEST_NAME, MOST_LINES, log
from kpybroker.machines.authorization.authorizer import SUPER_USER, Authorizer
from kpybroker.machines.authorization.networks import address_of, holds
from kpybroker.machines.authorization.resources import WILDCARD, AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.requests.serving.permissions import denied_among, may, may_on_cluster, may_with_any
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.principal import Principal
from kpybroker.runtime.calls.steps import at_once
from kpywire import api
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord as Acl

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.7"
TOPIC = ResourceType.TOPIC
NAMES = ("a", "b", "ab", "abc", "*")
ACLS = st.builds(
    Acl,
    id=st.binary(min_size=16, max_size=16),
    resource_type=st.sampled_from((TOPIC, ResourceType.GROUP)),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    principal=st.sampled_from(("User:alice", "User:*", "User:bob")),
    host=st.sampled_from(("*", HOST, "10.0.0.8", "10.0.0.0/8", "10.0.0.7/32", "10.0.0.8/30", "11.0.0.0/8")),
    operation=st.sampled_from((AclOperation.READ, AclOperation.ALL, AclOperation.DESCRIBE)),
    permission_type=st.sampled_from((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
)


def authorizer(*acls: Acl, everyone: bool = False) -> Authorizer:
    made = Authorizer(frozenset([BOB]), allows_without_acl=everyone)
    change(made, {acl.id: acl for acl in acls})
    return made


def change(judge: Authorizer, acls: Mapping[bytes, Acl], *removed: bytes) -> None:
    judge.acls_changed(acls, [*acls, *removed])


def acl(name: str = "t", operation: AclOperation = AclOperation.READ, number: int = 0, **fields: object) -> Acl:
    whole = {"resource_type": TOPIC, "pattern_type": 3, "principal": "User:alice", "host": "*", "permission_type": 3}
    return Acl(**{"id": bytes([number]) * 16, "resource_name": name, "operation": operation, **whole, **fields})


def plainly(acls: list[Acl], operation: AclOperation, name: str) -> bool:
    """The rules without an index: whether Alice may do this with a topic."""
    covering = [
        each
        for each in acls
        if each.resource_type == TOPIC
        and (
            name.startswith(each.resource_name)
            if each.pattern_type == PatternType.PREFIXED
            else each.resource_name in (name, WILDCARD)
        )
    ]
    about = [
        each
        for each in covering
        if each.principal != "User:bob" and (each.host in (HOST, "*") or holds(each.host, HOST))
    ]
    if any(
        each.permission_type == Permission.DENY and each.operation in (operation, AclOperation.ALL) for each in about
    ):
        return False
    enough = {operation, AclOperation.ALL, *((AclOperation.READ,) if operation == AclOperation.DESCRIBE else ())}
    return any(each.permission_type == Permission.ALLOW and each.operation in enough for each in about)


@given(first=st.lists(ACLS), second=st.lists(ACLS), seed=st.integers())
def test_adding_and_removing_acls_leaves_the_current_ones(first: list[Acl], second: list[Acl], seed: int) -> None:
    rng = Random(seed)
    judge = Authorizer(frozenset(), allows_without_acl=False)
    present: dict[bytes, Acl] = {}
    for acls in (first, second, []):
        gone = rng.sample(sorted(present), rng.randint(0, len(present)))
        present = {key: value for key, value in present.items() if key not in gone}
        present.update((each.id, each) for each in acls)
        change(judge, present, *gone)
        for _ in range(2):  # the second answer is remembered
            for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE):
                for name in NAMES:
                    expected = plainly(list(present.values()), operation, name)
                    assert judge.allows(ALICE, HOST, operation, TOPIC, name) is expected
    assert judge.acl_count == len(present)


def test_a_change_counts_from_the_next_question_on() -> None:
    judge = authorizer()
    asked = (ALICE, HOST, AclOperation.READ, TOPIC, "t")
    assert not judge.allows(*asked)
    assert not judge.allows_any(*asked[:4])
    change(judge, {b"1": acl()})
    assert judge.allows(*asked)
    assert judge.allows_any(*asked[:4])
    change(judge, {}, b"1")
    assert not judge.allows(*asked)
    assert not judge.allows_any(*asked[:4])
    assert (judge.allowed_count, judge.denied_count) == (1, 5)


def test_acls_that_are_gone_leave_nothing_to_search() -> None:
    acls = [
        acl(name, pattern_type=pattern, host=host, number=number)
        for number, (name, pattern, host) in enumerate(
            [
                ("t", PatternType.LITERAL, HOST),
                ("ab", PatternType.PREFIXED, "10.0.0.0/8"),
                ("cd", PatternType.PREFIXED, "*"),
                ("abc", PatternType.PREFIXED, "10.1.0.0/16"),
            ]
        )
    ]
    judge = authorizer(*acls)
    index = judge._indexes[TOPIC]
    assert list(index._lengths.items()) == [(3, 1), (2, 2)], "the longest prefixes first"
    (of_alice,) = index._by_principal.values()
    change(judge, {each.id: each for each in acls if each is not acls[1]}, acls[1].id)
    assert index._lengths == {3: 1, 2: 1}
    assert of_alice._networks is not None
    change(judge, {each.id: each for each in acls[:1]}, *(each.id for each in acls[2:]))
    assert (index._lengths, index._prefixes, of_alice._networks) == ({}, {}, None)
    change(judge, {}, acls[0].id)
    assert (index._literals, index._by_principal) == ({}, {})


def test_an_answer_about_any_resource_is_remembered_until_an_acl_changes() -> None:
    judge = authorizer(acl("t"), acl("t", permission_type=Permission.DENY, operation=AclOperation.WRITE, number=1))
    for operation in (AclOperation.READ, AclOperation.WRITE):
        judge.allows_any(ALICE, HOST, operation, TOPIC)
    assert [(key[2], allows) for key, allows in judge._any.items()] == [
        (AclOperation.READ, True),
        (AclOperation.WRITE, False),
    ]
    change(judge, {})
    assert not judge._any


def test_removing_one_acl_of_a_resource_keeps_the_other() -> None:
    read, write = acl(), acl(operation=AclOperation.WRITE, number=1)
    judge = authorizer(read, write)
    change(judge, {write.id: write}, read.id)
    assert not judge.allows(ALICE, HOST, AclOperation.READ, TOPIC, "t")
    assert judge.allows(ALICE, HOST, AclOperation.WRITE, TOPIC, "t")


def test_remembered_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 100)
    judge = authorizer(acl("n1", pattern_type=PatternType.PREFIXED))
    for number in range(1_000):
        name = f"n{number}"
        assert judge.allows(ALICE, f"10.0.0.{number}", AclOperation.READ, TOPIC, name) is name.startswith("n1")
        judge.allows_any(ALICE, f"10.0.0.{number}", AclOperation.WRITE, TOPIC)
        assert judge.allows(ALICE, HOST, AclOperation.READ, TOPIC, "n1" + "x" * 10_000)
        assert sum(map(len, judge._rules.values())) <= 100
        assert len(judge._any) <= 100
    assert max(len(name) for names in judge._rules.values() for name in names) < 300


def test_as_many_decisions_are_remembered_after_a_change_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 10)
    judge = authorizer(acl("n1", pattern_type=PatternType.PREFIXED))
    names = [f"n{number}" for number in range(10)]
    for _ in range(2):
        for name in names:
            judge.allows(ALICE, HOST, AclOperation.READ, TOPIC, name)
        assert [name for rules in judge._rules.values() for name in rules] == names
        change(judge, {})
        assert not judge._rules


@pytest.mark.parametrize("length", [module.LONGEST_REMEMBERED, module.LONGEST_REMEMBERED + 1])
def test_decisions_on_names_up_to_the_longest_are_remembered(length: int) -> None:
    judge = authorizer(acl())
    judge.allows(ALICE, HOST, AclOperation.READ, TOPIC, "x" * length)
    assert bool(judge._rules) == (length == module.LONGEST_REMEMBERED)


@pytest.mark.parametrize("kind", [Authorizer, AclAuthorizer])
def test_either_authorizer_may_be_made_before_the_acls_are_known(kind: type[Authorizer]) -> None:
    judge = kind(frozenset(), allows_without_acl=True, awaits_acls=True)
    with pytest.raises(AuthorizerNotReady):
        judge.allows_any(ALICE, HOST, AclOperation.READ, TOPIC)
    judge.caught_up()
    assert judge.allows_any(ALICE, HOST, AclOperation.READ, TOPIC)


def test_only_super_users_are_served_before_the_acls_are_known() -> None:
    judge = authorizer(acl())
    judge.awaits_acls = True
    assert judge.decide(BOB, HOST, AclOperation.WRITE, TOPIC, "t") is SUPER_USER
    for _ in range(2):
        with pytest.raises(AuthorizerNotReady):
            judge.allows(ALICE, HOST, AclOperation.READ, TOPIC, "t")
        with pytest.raises(AuthorizerNotReady):
            judge.allows_any(ALICE, HOST, AclOperation.READ, TOPIC)
    judge.awaits_acls = False
    assert judge.allows(ALICE, HOST, AclOperation.READ, TOPIC, "t")


class Node:
    """A node for the questions of handlers."""

    def __init__(self, judge: Authorizer | None) -> None:
        self.authorizer = judge


def call(principal: Principal, host: str = "::ffff:10.0.0.7") -> Call:
    client = ConnectedClient(host, 1, "PLAINTEXT")
    client.authenticated(principal)
    peer: Any = SimpleNamespace(answered_ns=0)
    return Call(api.METADATA, 12, None, client, peer, {})


def test_the_log_says_what_was_denied_and_at_debug_what_was_allowed(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(authorizer(acl(), acl("u\nv", permission_type=Permission.DENY, host=HOST, number=1)))
    caplog.set_level(logging.INFO, log.name)
    assert may(node, call(ALICE), AclOperation.READ, TOPIC, "t")
    assert not may(node, call(ALICE), AclOperation.WRITE, TOPIC, "t")
    assert not may(node, call(ALICE), AclOperation.READ, TOPIC, "u\nv")
    assert not may(node, call(ALICE), AclOperation.READ, TOPIC, "w", logs_denial=False)
    assert not may_on_cluster(node, call(ALICE), AclOperation.ALTER)
    reported = (
        "Principal = User:alice is {} operation = {} from host = 10.0.0.7 on resource = {} for request = Metadata "
    )
    reported += "with resourceRefCount = 1 based on rule {}"
    matching = (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName={}, patternType=LITERAL, principal=User:alice, "
        "host={}, operation=READ, permissionType={}])"
    )
    assert caplog.messages == [
        reported.format("Denied", "WRITE", "Topic:LITERAL:t", "DefaultDeny"),
        reported.format("Denied", "READ", "Topic:LITERAL:u\\x0av", matching.format("u\\x0av", HOST, "DENY")),
        reported.format("Denied", "ALTER", "Cluster:LITERAL:kafka-cluster", "DefaultDeny"),
    ]
    assert {each.levelno for each in caplog.records} == {logging.INFO}
    caplog.clear()
    caplog.set_level(logging.DEBUG, log.name)
    assert may(node, call(ALICE), AclOperation.READ, TOPIC, "t")
    assert may(node, call(BOB), AclOperation.READ, TOPIC, "t")
    assert caplog.messages == [
        reported.format("Allowed", "READ", "Topic:LITERAL:t", matching.format("t", "*", "ALLOW")),
        reported.format("Allowed", "READ", "Topic:LITERAL:t", "SuperUser").replace("alice", "bob"),
    ]
    assert {each.levelno for each in caplog.records} == {logging.DEBUG}


def test_one_request_fills_the_log_with_a_bounded_number_of_bounded_lines(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(authorizer(acl()))
    caplog.set_level(logging.INFO, log.name)
    asked = call(ALICE)
    peer: Any = asked.peer
    denied = at_once(denied_among(node, asked, AclOperation.READ, TOPIC, (f"{n}" + 32_000 * "x" for n in range(5000))))
    assert len(denied) == 5000
    assert len(caplog.messages) == MOST_LINES + 1
    assert caplog.messages[-1].startswith("Further decisions for request = Metadata of Principal = User:alice")
    assert max(map(len, caplog.messages)) < LONGEST_NAME + 500
    caplog.clear()
    peer.answered_ns = 1  # the next request of the same connection
    assert not may(node, asked, AclOperation.READ, TOPIC, "u")
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("length", "logged"),
    [(LONGEST_NAME, "x" * LONGEST_NAME), (LONGEST_NAME + 1, "x" * LONGEST_NAME + "...")],
)
def test_the_log_has_names_up_to_the_longest_as_a_whole(
    length: int, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, log.name)
    assert not may(Node(authorizer(acl())), call(ALICE), AclOperation.READ, TOPIC, "x" * length)
    assert f":{logged} for request" in caplog.text


def test_without_an_authorizer_everybody_may_do_everything() -> None:
    assert may(Node(None), call(ALICE), AclOperation.READ, TOPIC, "t")
    assert may_with_any(Node(None), call(ALICE), AclOperation.WRITE, TOPIC)
    assert may_with_any(Node(authorizer(acl(operation=AclOperation.WRITE))), call(ALICE), AclOperation.WRITE, TOPIC)
    assert not may_with_any(Node(authorizer()), call(ALICE), AclOperation.WRITE, TOPIC)


def work_of_a_decision(count: int) -> int:
    """The calls of a decision that is not remembered, among ACLs that each name a network."""
    acls = {
        number.to_bytes(16): acl(host=f"10.{number >> 8}.{number & 255}.0/{24 + number % 9}", number=number & 255)
        for number in range(count)
    }
    judge = Authorizer(frozenset(), allows_without_acl=False)
    change(judge, acls)
    calls = 0

    def count_calls(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    address_of.cache_clear()
    before = sys.getprofile()
    sys.setprofile(count_calls)
    try:
        assert judge.allows(ALICE, "10.0.9.0", AclOperation.READ, TOPIC, "t")
    finally:
        sys.setprofile(before)
    return calls


def test_a_decision_costs_the_same_among_a_hundred_networks_and_ten_thousand() -> None:
    few, many = work_of_a_decision(100), work_of_a_decision(10_000)
    assert abs(many - few) <= 5, (few, many)
    assert many < 150
