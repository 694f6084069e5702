"""The plan by which a mirror carries ACLs and quotas over, and the notes of what it carries."""

from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.mirror import carrying
from kpybroker.machines.mirror.carrying import CarriedAcl, CarryingPlan, is_of_mirror, note, plan
from kpybroker.machines.mirror.mirror import Mirror, mirrors_of

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, USER = 2, 3, 4, 5, 7
LITERAL, PREFIXED = 3, 4
READ, WRITE, ALLOW, DENY = 3, 4, 3, 2
DR = Mirror("dr", ["orders.*", "payments"])


def acl(kind: int, name: str, pattern: int = LITERAL, principal: str = "User:a", **fields: int) -> CarriedAcl:
    return CarriedAcl(kind, name, pattern, principal, "*", READ, ALLOW)._replace(**fields)


@pytest.mark.parametrize(
    ("wanted", "is_carried"),
    [
        (acl(TOPIC, "orders.eu"), True),
        (acl(TOPIC, "payments"), True),
        (acl(TOPIC, "other"), False),
        (acl(TOPIC, "*"), False),
        (acl(TOPIC, "orders.", PREFIXED), True),
        (acl(TOPIC, "orders.eu", PREFIXED), True),
        (acl(TOPIC, "orders", PREFIXED), False),
        (acl(TOPIC, "payments", PREFIXED), False),
        (acl(GROUP, "g"), True),
        (acl(TRANSACTIONAL_ID, "t", PREFIXED), True),
        (acl(CLUSTER, "kafka-cluster"), False),
        (acl(USER, "u"), False),
    ],
)
def test_an_acl_is_carried_over_if_all_its_topics_are_mirrored(wanted: CarriedAcl, is_carried: bool) -> None:
    assert is_of_mirror(DR, wanted) is is_carried


def test_an_acl_for_all_topics_is_carried_over_by_a_mirror_of_all() -> None:
    assert is_of_mirror(Mirror("all", ["*"]), acl(TOPIC, "*"))
    assert not is_of_mirror(Mirror("odd", ["a*b*"]), acl(TOPIC, "a*b", PREFIXED))


def test_the_config_of_a_mirror_names_its_acls_and_quotas_options() -> None:
    both = Mirror("dr", ["a", "b*"], ["quotas", "acls"])
    assert str(both) == "dr:a|b*:acls|quotas"
    assert mirrors_of(["dr:a|b*:acls|quotas", "x:c:quotas", "y:d"]) == {
        "dr": both,
        "x": Mirror("x", ["c"], ["quotas"]),
        "y": Mirror("y", ["d"]),
    }


def test_a_new_entry_of_the_source_is_noted_and_created() -> None:
    found = plan("dr", {"a": 1}, {}, [])
    assert found == CarryingPlan(frozenset({note("dr", "a")}), {"a": 1}, [], 0)


def test_acls_and_quotas_that_no_mirror_carried_over_stay() -> None:
    assert plan("dr", {"a": 1}, {"a": 2}, []) == CarryingPlan(frozenset(), {}, [], 0)
    assert plan("dr", {}, {"a": 2}, []) == CarryingPlan(frozenset(), {}, [], 0)


def test_carried_acls_and_quotas_change_and_go_with_those_of_the_source() -> None:
    notes = frozenset({note("dr", "a")})
    assert plan("dr", {"a": 1}, {"a": 2}, notes) == CarryingPlan(notes, {"a": 1}, [], 0)
    assert plan("dr", {"a": 1}, {"a": 1}, notes) == CarryingPlan(notes, {}, [], 0)
    assert plan("dr", {}, {"a": 1}, notes) == CarryingPlan(notes, {}, ["a"], 0), "the note stays until it is deleted"
    assert plan("dr", {}, {}, notes) == CarryingPlan(frozenset(), {}, [], 0)
    assert plan("dr", {}, {}, notes, ["a"]).notes == notes, "it is planned elsewhere"


def test_an_acl_that_two_mirrors_carry_over_stays_when_one_source_deletes_it() -> None:
    notes = frozenset({note("dr", "a"), note("b", "a")})
    assert plan("dr", {}, {"a": 1}, notes) == CarryingPlan(frozenset({note("b", "a")}), {}, [], 0)


def test_an_acl_has_one_note_however_its_codes_are_written() -> None:
    class Code(IntEnum):
        READ = READ

    assert note("dr", acl(TOPIC, "a", operation=Code.READ)) == note("dr", acl(TOPIC, "a"))


def test_no_more_is_carried_over_than_can_be_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "MOST_CARRIED", 2)
    found = plan("dr", dict.fromkeys("abc"), {}, [note("b", "x")])
    assert (list(found.put), found.left_out, len(found.notes)) == (["a"], 2, 2)
    assert plan("dr", {"a": 1}, {}, [note("b", each) for each in "xyz"]).left_out == 1


@given(
    there=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
    here=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
    carried=st.sets(st.sampled_from("abcd")),
)
def test_two_looks_make_all_that_was_carried_over_equal(
    there: dict[str, int], here: dict[str, int], carried: set[str]
) -> None:
    own = {key: value for key, value in here.items() if key not in carried}
    notes = frozenset(note("dr", each) for each in carried)
    for _ in range(2):
        found = plan("dr", there, here, notes)
        here = {key: value for key, value in {**here, **found.put}.items() if key not in found.delete}
        notes = found.notes
    assert here == {**there, **own}
    assert plan("dr", there, here, notes) == CarryingPlan(notes, {}, [], 0)
    assert notes == {note("dr", key) for key in there if key not in own}
