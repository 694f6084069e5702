"""The writes that lead from one tree of znodes to another: contents, versions, parents, and the notices for brokers."""

from collections.abc import Sequence
from typing import Any

import pytest

from kpybroker.machines.zookeeper.client.operations import OPEN_ACL, Create, Delete, Set
from kpybroker.machines.zookeeper.migration.differences import MOST_REPEATED, ZnodeChange, difference, everything
from kpybroker.machines.zookeeper.migration.reading import StoredZnode
from kpybroker.machines.zookeeper.migration.wanted import WantedZnode
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch

STATE = paths.partition_state("t", 0)
TOPIC = paths.topic("t")
CONFIG = f"{paths.CONFIGS}/topics/t"


def changes(held: dict[str, StoredZnode], wanted: dict[str, WantedZnode | None]) -> list[ZnodeChange]:
    return difference(held, wanted, lambda _path: OPEN_ACL)


def state(leader: int = 1, controller_epoch: int = 4, leader_epoch: int = 2) -> bytes:
    return LeaderIsrAndControllerEpoch(leader, leader_epoch, (1, 2), controller_epoch).encode()


def create(path: str, data: bytes | None) -> Create:
    return Create(path, data, OPEN_ACL)


def notice(parent: str, prefix: str, content: bytes) -> Create:
    return Create(f"{parent}/{prefix}", content, OPEN_ACL, is_sequential=True)


def config_notice(kind: str, name: str, client_id: str | None = None) -> Create:
    content = configs.encode_change(configs.ConfigEntity(kind, name, client_id))
    return notice(paths.CONFIG_CHANGES, configs.CHANGE_PREFIX, content)


# Contents and versions.


def test_existing_znodes_are_not_written_again() -> None:
    assert changes({TOPIC: StoredZnode(b"{}", 3)}, {TOPIC: WantedZnode(b"{}")}) == []
    assert changes({STATE: StoredZnode(state(), 3)}, {STATE: WantedZnode(state(), 3)}) == []
    assert changes({}, {TOPIC: None}) == []
    assert changes({TOPIC: StoredZnode(b'{"a":1,"b":2}', 0)}, {TOPIC: WantedZnode(b'{"b":2,"a":1}')}) == [], (
        "it means the same"
    )


def test_a_znode_is_created_changed_and_deleted() -> None:
    assert changes({}, {TOPIC: WantedZnode(b"{}")}) == [
        ZnodeChange(TOPIC, (create(TOPIC, b"{}"),), StoredZnode(b"{}", 0))
    ]
    (changed,) = changes({TOPIC: StoredZnode(b"[]", 3)}, {TOPIC: WantedZnode(b"{}")})
    assert changed == ZnodeChange(TOPIC, (Set(TOPIC, b"{}", 3),), StoredZnode(b"{}", 4))
    assert changes({TOPIC: StoredZnode(b"[]", 3)}, {TOPIC: None}) == [ZnodeChange(TOPIC, (Delete(TOPIC, 3),), None)]


@pytest.mark.parametrize(
    ("version", "goal", "operations", "after"),
    [
        (3, 4, [Set(STATE, state(2), 3)], 4),
        (3, 6, [Set(STATE, state(2), each) for each in (3, 4, 5)], 6),
        (3, 3, [Delete(STATE, 3), create(STATE, state(2)), *[Set(STATE, state(2), each) for each in range(3)]], 3),
        (3, 1, [Delete(STATE, 3), create(STATE, state(2)), Set(STATE, state(2), 0)], 1),
        (3, 0, [Delete(STATE, 3), create(STATE, state(2))], 0),
        (None, 0, [create(STATE, state(2))], 0),
        (None, 2, [create(STATE, state(2)), Set(STATE, state(2), 0), Set(STATE, state(2), 1)], 2),
        (3, 3 + MOST_REPEATED + 1, [Set(STATE, state(2), 3)], 4),
        (500, 500 - MOST_REPEATED - 1, [Set(STATE, state(2), 500)], 501),
        (None, MOST_REPEATED, [create(STATE, state(2))], 0),
    ],
)
def test_a_state_gets_the_version_that_is_its_partition_epoch(
    version: int | None, goal: int, operations: Sequence[Any], after: int
) -> None:
    held = {} if version is None else {STATE: StoredZnode(state(), version)}
    (found,) = changes(held, {STATE: WantedZnode(state(2), goal)})
    assert list(found.operations) == list(operations)
    assert found.after == StoredZnode(state(2), after)


@pytest.mark.parametrize(
    ("goal", "count"), [(3 + MOST_REPEATED, MOST_REPEATED), (MOST_REPEATED - 1, MOST_REPEATED - 4)]
)
def test_a_version_is_caught_up_with_by_a_hundred_writes_at_most(goal: int, count: int) -> None:
    (found,) = changes({STATE: StoredZnode(state(), 3)}, {STATE: WantedZnode(state(2), goal)})
    assert (len(found.operations), found.after) == (count, StoredZnode(state(2), goal))


def test_a_state_whose_version_alone_is_another_is_written_unless_it_is_too_far() -> None:
    for version, is_written in (
        (3, False),
        (2, True),
        (4, True),
        (3 + MOST_REPEATED, True),
        (4 + MOST_REPEATED, False),
    ):
        found = changes({STATE: StoredZnode(state(), version)}, {STATE: WantedZnode(state(), 3)})
        assert bool(found) is is_written, version


@pytest.mark.parametrize(
    ("held", "is_same"),
    [
        (state(controller_epoch=3), True),
        (state(controller_epoch=4), True),
        (state(controller_epoch=5), False),
        (state(leader_epoch=1), False),
        (state(leader=2), False),
        (b"{}", False),
        (None, False),
    ],
)
def test_a_state_of_an_earlier_controller_stays_and_one_of_a_later_is_replaced(
    held: bytes | None, is_same: bool
) -> None:
    assert (changes({STATE: StoredZnode(held, 3)}, {STATE: WantedZnode(state(), 3)}) == []) is is_same


def block(end: int, broker: int = 1) -> bytes:
    return f'{{"version":1,"broker":{broker},"block_start":"0","block_end":"{end}"}}'.encode()


def test_blocks_of_producer_ids_are_compared_by_their_end() -> None:
    path = paths.PRODUCER_IDS
    assert changes({path: StoredZnode(block(999), 3)}, {path: WantedZnode(block(999, broker=2))}) == []
    assert len(changes({path: StoredZnode(block(999), 3)}, {path: WantedZnode(block(1_999))})) == 1
    assert len(changes({path: StoredZnode(None, 3)}, {path: WantedZnode(block(999))})) == 1
    assert len(changes({path: StoredZnode(block(999), 3)}, {path: WantedZnode(None)})) == 1


def test_acls_may_stand_in_any_order() -> None:
    path = f"{paths.ACLS}/Topic/t"
    known = {each: StoredZnode(None, 0) for each in (paths.ACLS, f"{paths.ACLS}/Topic", paths.ACL_CHANGES)}
    one, two = b'{"version":1,"acls":[{"a":1},{"b":2}]}', b'{"acls":[{"b":2},{"a":1}],"version":1}'
    assert changes({**known, path: StoredZnode(one, 0)}, {path: WantedZnode(two)}) == []
    three = b'{"version":1,"acls":[{"a":1},{"b":3}]}'
    assert len(changes({**known, path: StoredZnode(one, 0)}, {path: WantedZnode(three)})) == 1
    assert len(changes({**known, path: StoredZnode(b"no json", 0)}, {path: WantedZnode(one)})) == 1


# Orders, parents and notices.


def test_parents_come_before_their_children_and_go_after_them() -> None:
    below = f"{TOPIC}/partitions"
    wanted = {
        STATE: WantedZnode(state(), 0),
        TOPIC: WantedZnode(b"{}"),
        below: WantedZnode(None),
        f"{below}/0": WantedZnode(None),
    }
    made = [each.path for each in changes({}, wanted)]
    assert made == [TOPIC, below, f"{below}/0", STATE]
    held = {path: StoredZnode(b"", 0) for path in made}
    assert [each.path for each in changes(held, dict.fromkeys(made))] == made[::-1]


def test_parents_that_no_broker_has_needed_are_created_once() -> None:
    first, second = f"{paths.ACLS}/Topic/t", f"{paths.ACLS}/Topic/u"
    found = changes({}, {first: WantedZnode(b'{"a":1}'), second: WantedZnode(b'{"a":1}')})
    parents = [each.path for each in found if each.path not in (first, second)]
    assert parents == [paths.ACLS, f"{paths.ACLS}/Topic", paths.ACL_CHANGES]
    for each in found:
        if each.path in parents:
            assert each == ZnodeChange(each.path, (create(each.path, None),), StoredZnode(None, 0))
    assert found.index(next(each for each in found if each.path == paths.ACL_CHANGES)) < [
        each.path for each in found
    ].index(first)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{paths.CONFIGS}/topics/t", config_notice("topics", "t")),
        (f"{paths.CONFIGS}/brokers/1", config_notice("brokers", "1")),
        (f"{paths.CONFIGS}/users/a", config_notice("users", "a")),
        (f"{paths.CONFIGS}/clients/c", config_notice("clients", "c")),
        (f"{paths.CONFIGS}/ips/1.2.3.4", config_notice("ips", "1.2.3.4")),
        (f"{paths.CONFIGS}/users/a/clients/c", config_notice("users", "a", "c")),
        (f"{paths.CONFIGS}/planets/earth", None),
        (TOPIC, None),
    ],
)
def test_brokers_learn_of_changed_configs(path: str, expected: Create | None) -> None:
    data = configs.encode_configs({"a": "1"})
    for held in ({}, {path: StoredZnode(configs.encode_configs({"a": "2"}), 3)}):
        (found,) = changes(held, {path: WantedZnode(data)})
        assert list(found.operations[1:]) == ([] if expected is None else [expected])


def test_a_new_entity_without_configs_is_no_news() -> None:
    (found,) = changes({}, {CONFIG: WantedZnode(configs.encode_configs({}))})
    assert len(found.operations) == 1
    (found,) = changes(
        {CONFIG: StoredZnode(configs.encode_configs({"a": "1"}), 0)}, {CONFIG: WantedZnode(configs.encode_configs({}))}
    )
    assert found.operations[1:] == (config_notice("topics", "t"),)


def test_tokens_and_acls_have_notices_of_their_own() -> None:
    token = f"{paths.TOKENS}/id"
    *_, found = changes({}, {token: WantedZnode(b"{}")})
    assert found.operations[1] == notice(paths.TOKEN_CHANGES, "token_change_", b"id")
    *_, found = changes({token: StoredZnode(b"{}", 2)}, {token: None})
    assert found.operations == (Delete(token, 2), notice(paths.TOKEN_CHANGES, "token_change_", b"id"))
    literal = f"{paths.ACLS}/Topic/t"
    *_, found = changes({}, {literal: WantedZnode(b'{"a":1}')})
    assert found.operations[1] == notice(paths.ACL_CHANGES, "acl_changes_", b"TOPIC:t")
    prefixed = f"{paths.EXTENDED_ACLS}/prefixed/Topic/t"
    *_, found = changes({}, {prefixed: WantedZnode(b'{"a":1}')})
    content = b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}'
    assert found.operations[1].path == f"{paths.EXTENDED_ACL_CHANGES}/acl_changes_"
    assert sorted(found.operations[1].data or b"") == sorted(content)


@pytest.mark.parametrize("kind", ["brokers", "users", "clients", "ips"])
def test_entities_that_have_no_configs_left_stay_empty(kind: str) -> None:
    path = f"{paths.CONFIGS}/{kind}/x"
    empty = configs.encode_configs({})
    (found,) = changes({path: StoredZnode(configs.encode_configs({"a": "1"}), 3)}, {path: None})
    assert found.operations == (Set(path, empty, 3), config_notice(kind, "x"))
    assert changes({path: StoredZnode(empty, 3)}, {path: None}) == []


def test_a_topics_configs_go_with_it_without_a_notice() -> None:
    (found,) = changes({CONFIG: StoredZnode(configs.encode_configs({"a": "1"}), 3)}, {CONFIG: None})
    assert found == ZnodeChange(CONFIG, (Delete(CONFIG, 3),), None)


def test_all_that_an_image_does_not_have_goes_but_for_the_structure() -> None:
    user = f"{paths.CONFIGS}/users/a"
    held = [TOPIC, user, f"{user}/clients", f"{user}/clients/c", paths.PRODUCER_IDS, paths.ACLS, f"{paths.ACLS}/Topic"]
    wanted = {f"{paths.TOPICS}/u": WantedZnode(b"{}"), user: WantedZnode(b"{}")}
    found = everything({path: StoredZnode(None, 0) for path in held}, dict(wanted))
    assert found == {**wanted, TOPIC: None, f"{user}/clients/c": None}
