"""A mapping of many keys never grows at once, and is freed in steps."""

from kpybroker.runtime.calls.scattered import FEW, PARTS, STEP_ITEMS, Scattered, emptied

MANY = 100_000


def test_a_scattered_mapping_behaves_like_a_dict_at_any_size() -> None:
    for count in (0, 1, FEW, FEW + 1, 3 * FEW):
        found: Scattered[int, str] = Scattered()
        for number in range(count):
            found[number] = str(number)
        assert len(found) == count
        assert bool(found) == bool(count)
        assert sorted(found) == list(range(count))
        assert all(found[number] == str(number) for number in range(count))
        assert count not in found
        for number in range(0, count, 2):
            del found[number]
        assert sorted(found) == list(range(1, count, 2))


def test_few_keys_keep_their_order() -> None:
    found: Scattered[str, None] = Scattered()
    for name in ("c", "a", "b"):
        found[name] = None
    assert list(found) == ["c", "a", "b"]


def test_no_part_of_it_is_large() -> None:
    found: Scattered[str, None] = Scattered()
    for number in range(MANY):
        found[str(number)] = None
    assert max(map(len, found._parts)) < 3 * MANY // PARTS


def test_a_scattered_mapping_is_freed_in_steps() -> None:
    found: Scattered[int, set[int]] = Scattered()
    for number in range(MANY):
        found[number] = set()
    found[0] = set(range(MANY))
    steps = sum(1 for _ in found.emptied())
    assert not found
    assert steps >= 2 * MANY // STEP_ITEMS - PARTS


def test_lists_and_sets_are_freed_in_steps() -> None:
    for many in (list(range(MANY)), set(range(MANY))):
        steps = sum(1 for _ in emptied(many))
        assert not many
        assert steps >= MANY // STEP_ITEMS
