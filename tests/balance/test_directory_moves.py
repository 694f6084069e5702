"""Moves between the log directories of one broker: full disks get emptier, and limits and cordons hold."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.balance.directories import DirectoryLoad, plan_directories

TOTAL = 1000


def directory(path: str, *sizes: int, free: int | None = None, is_cordoned: bool = False) -> DirectoryLoad:
    """A directory on a disk of its own: of 1000 bytes, and a few more by its name, since equal ones are one disk."""
    total = TOTAL + int(path[2:])
    free = total - sum(sizes) if free is None else free
    return DirectoryLoad(path, total, free, is_cordoned, {(path, number): size for number, size in enumerate(sizes)})


def test_a_full_disk_gives_the_replicas_that_help_most_to_the_emptiest() -> None:
    move, _ = plan_directories([directory("/d1", 400, 100, 300), directory("/d2", 300), directory("/d3", 250)])
    assert (move.topic, move.partition, move.source, move.target) == ("/d1", 2, "/d1", "/d3")
    assert move.text == "/d1-2: /d1 → /d3, 300 B: its disk is filled by 80%, falls to 50%"


def test_equal_disks_are_one_and_nothing_moves_between_their_directories() -> None:
    sizes = {("t", number): 100 for number in range(4)}
    one = DirectoryLoad("/a", TOTAL, 600, False, sizes)
    assert plan_directories([one, one._replace(path="/b", sizes={})]) == []


def test_cordoned_directories_get_nothing() -> None:
    assert plan_directories([directory("/d1", 300, 300), directory("/d2", is_cordoned=True)]) == []


def test_a_directory_is_emptied_as_far_as_there_is_room() -> None:
    moves = plan_directories([directory("/d1", 300, 200), directory("/d2", 500)], ["/d1"])
    assert [each.size_bytes for each in moves] == [300]
    assert plan_directories([directory("/d1", 300)], ["/d1"]) == []


def test_unknown_capacities_are_left_alone() -> None:
    assert plan_directories([DirectoryLoad("/a", -1, -1, False, {("t", 0): 9}), directory("/d2", 1)]) == []


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 300), max_size=8), st.booleans()), max_size=5),
    st.sets(st.integers(0, 4)),
)
def test_every_plan_keeps_the_limits_and_moves_each_replica_once(
    disks: list[tuple[list[int], bool]], emptied: set[int]
) -> None:
    found = [
        directory(f"/d{number}", *sizes, free=max(0, TOTAL + number - sum(sizes)), is_cordoned=cordoned)
        for number, (sizes, cordoned) in enumerate(disks)
    ]
    paths = {f"/d{each}" for each in emptied}
    moves = plan_directories(found, paths)
    by_path = {each.path: each for each in found}
    assert len({(each.topic, each.partition) for each in moves}) == len(moves)
    for target in {each.target for each in moves}:
        assert not by_path[target].is_cordoned
        assert target not in paths
    used = {each.path: each.total_bytes - each.usable_bytes for each in found}
    for each in moves:
        used[each.source] -= each.size_bytes
        used[each.target] += each.size_bytes
        assert used[each.target] <= 0.85 * by_path[each.target].total_bytes
