"""The offsets and groups that a mirror removes, by what its source has deleted."""

from kpybroker.machines.mirror.group_offsets import GroupOffset, GroupRemoval, removals

A, B = ("m-a", 0), ("m-b", 0)
COMMIT = GroupOffset(1, 0, "")


def test_offsets_that_the_source_deleted_are_removed() -> None:
    due = removals({"g": {A, B}}, {"g": {A: COMMIT}}, (), {"m-a", "m-b"})
    assert due == {"g": GroupRemoval(frozenset({B}), is_whole=False)}


def test_a_group_that_the_source_deleted_is_removed_as_a_whole() -> None:
    due = removals({"g": {A, B}}, {}, {"g"}, {"m-a", "m-b"})
    assert due == {"g": GroupRemoval(frozenset({A, B}), is_whole=True)}


def test_offsets_of_a_topic_that_the_source_deleted_stay() -> None:
    assert removals({"g": {A}}, {}, {"g"}, {"m-b"}) == {}
    assert removals({"g": {A, B}}, {}, {"g"}, {"m-b"}) == {"g": GroupRemoval(frozenset({B}), is_whole=False)}


def test_a_group_of_which_nothing_is_known_stays() -> None:
    assert removals({"g": {A}}, {}, (), {"m-a"}) == {}
