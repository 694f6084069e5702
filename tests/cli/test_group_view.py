"""How groups are shown: what people read, and the keys that programs rely on."""

from kpybroker.cli import group_view
from kpybroker.client.client import Spot
from kpybroker.client.group_requests import GroupDescription, MemberDescription
from kpybroker.client.lag import GroupLag
from kpybroker.client.resets import Reset

NOW_MS = 1_700_000_100_000
READER = MemberDescription("m-1", "static", "app", "/10.0.0.1", (Spot("t", 0), Spot("t", 2)))
FOREIGN = MemberDescription("m-2", None, "connect", "/10.0.0.2", None)
GROUP = GroupDescription("g", "classic", "Stable", "consumer", "range", 1, (READER,))
LAGS = {
    Spot("t", 0): GroupLag(10, 25, NOW_MS - 65_000),
    Spot("t", 1): GroupLag(5, 5, None),
    Spot("t", 2): GroupLag(None, 7, None),
    Spot("gone", 0): GroupLag(3, None, None),
}


def test_lag_is_known_where_both_ends_are() -> None:
    assert [lag.records for lag in LAGS.values()] == [15, 0, None, None]
    assert [lag.behind_ms(NOW_MS) for lag in LAGS.values()] == [65_000, 0, None, None]
    assert GroupLag(10, 8, None).records == 0
    assert GroupLag(1, 2, NOW_MS + 50).behind_ms(NOW_MS) == 0


def test_people_see_state_owners_and_lag() -> None:
    caller = "g  Stable, classic (range), 1 member, coordinator 1"
    assert group_view.heading(GROUP, LAGS) == f"{caller}, lag 15, 1 partition without a commit"
    never = {Spot("t", 0): GroupLag(None, 7, None), Spot("t", 1): GroupLag(None, 0, None)}
    assert group_view.heading(GROUP, never) == f"{caller}, lag unknown, 1 partition without a commit"
    assert group_view.heading(GROUP, {Spot("t", 1): GroupLag(5, 5, None)}) == f"{caller}, lag 0"
    assert [line.split() for line in group_view.offsets_text(GROUP, LAGS, NOW_MS).splitlines()] == [
        ["TOPIC", "PARTITION", "COMMITTED", "LOG", "END", "LAG", "BEHIND", "MEMBER", "HOST"],
        ["t", "0", "10", "25", "15", "1", "min", "5", "s", "m-1", "/10.0.0.1"],
        ["t", "1", "5", "5", "0", "0", "ms", "-", "-"],
        ["t", "2", "-", "7", "-", "-", "m-1", "/10.0.0.1"],
        ["gone", "0", "3", "-", "-", "-", "-", "-"],
    ]


def test_members_of_other_protocols_are_shown_without_partitions() -> None:
    connect = GroupDescription("c", "classic", "Stable", "connect", "sessioned", 1, (READER, FOREIGN))
    assert "protocol type connect" in group_view.heading(connect)
    shown = group_view.members_text(connect)
    assert "t:0,2" in shown
    assert "in a protocol of its own" in shown
    assert group_view.as_dict(connect, {}, {}, NOW_MS)["members"][1]["assignment"] is None


def member(
    name: str, epoch: int, assigned: list[int], target: list[int], instance: str | None = None
) -> MemberDescription:
    spots, wanted = (tuple(Spot("t", index) for index in indexes) for indexes in (assigned, target))
    return MemberDescription(f"m-{name}", instance, name, "/10.0.0.1", spots, "consumer", epoch, wanted)


def moving(*members: MemberDescription, epoch: int = 3, state: str = "Reconciling") -> GroupDescription:
    return GroupDescription("g", "consumer", state, "consumer", "uniform", 1, members, epoch, 3)


def test_a_rebalancing_group_shows_the_members_it_waits_for_and_how_long() -> None:
    group = moving(member("a", 2, [0, 1], [0]), member("b", 3, [], [1]))
    assert group_view.heading(group, None, {"m-a": NOW_MS - 65_000}, NOW_MS).splitlines() == [
        "g  Reconciling, consumer (uniform), 2 members, epoch 3, coordinator 1",
        "  b (m-b) waits for t:1, which a (m-a) has not given up, for 1 min 5 s",
    ]
    shown = group_view.as_dict(group, {}, {}, NOW_MS, {"m-a": 7})
    (waits_for,) = shown["waits_for"]
    assert (waits_for["member_id"], waits_for["awaited_by"], waits_for["since_ms"]) == ("m-a", ["m-b"], 7)
    assert (shown["epoch"], shown["members"][1]["target"]) == (3, [{"topic": "t", "partition": 1}])
    assert "PROTOCOL" in group_view.members_text(group)


def test_a_group_says_what_else_it_waits_for() -> None:
    due = moving(member("a", 3, [0], [0]), member("b", 2, [], [1]))
    behind = moving(member("a", 2, [0], [0]), member("b", 3, [1], [1]))
    away = moving(member("a", 3, [0], [0]), member("b", -2, [1], [1], instance="i"))
    new = moving(member("a", 3, [0], [0]), epoch=4, state="Assigning")
    lines = [group_view.heading(group).splitlines()[1:] for group in (due, behind, away, new)]
    assert lines == [
        ["  b (m-b) has not asked for t:1 yet"],
        ["  a (m-a) is at epoch 2; its next heartbeat brings 3"],
        ["  i (m-b) is away and keeps t:1 until it returns"],
        ["  epoch 4 has no assignment yet; a heartbeat of a member computes it"],
    ]
    assert group_view.heading(moving(member("a", 3, [0], [0]), state="Stable")).count("\n") == 0


def test_a_classic_group_that_rebalances_says_what_it_waits_for() -> None:
    heading, why = group_view.heading(GROUP._replace(state="PreparingRebalance")).splitlines()
    assert heading == "g  PreparingRebalance, classic (range), 1 member, coordinator 1"
    assert why.startswith("  it waits until its members have joined again")
    assert "its leader" in group_view.heading(GROUP._replace(state="CompletingRebalance"))


def test_an_empty_group_is_shown_as_empty() -> None:
    empty = GroupDescription("e", "classic", "Empty", "", "", 1, ())
    assert group_view.heading(empty) == "e  Empty, classic, 0 members, coordinator 1"
    assert group_view.offsets_text(empty, {}, NOW_MS).startswith("Nothing is committed")
    assert group_view.members_text(empty) == "No members."


def test_programs_can_rely_on_these_keys() -> None:
    found = group_view.as_dict(GROUP, LAGS, {Spot("t", 0): "note"}, NOW_MS)
    assert {
        key: found[key] for key in ("group", "type", "state", "protocol_type", "protocol", "coordinator", "lag")
    } == {
        "group": "g",
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "protocol": "range",
        "coordinator": 1,
        "lag": 15,
    }
    assert found["members"] == [
        {
            "member_id": "m-1",
            "instance_id": "static",
            "client_id": "app",
            "host": "/10.0.0.1",
            "protocol": "classic",
            "epoch": None,
            "assignment": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 2}],
            "target": None,
        }
    ]
    assert found["partitions"][0] == {
        "topic": "t",
        "partition": 0,
        "committed": 10,
        "metadata": "note",
        "log_end": 25,
        "lag": 15,
        "behind_ms": 65_000,
        "member_id": "m-1",
    }


def test_resets_are_shown_with_what_had_to_be_changed() -> None:
    resets = {"g": [Reset(Spot("t", 0), 6, 10, "300 is behind the end 10"), Reset(Spot("t", 1), None, 0)]}
    first, second = group_view.resets_text(resets).splitlines()[1:]
    assert first.split(maxsplit=5) == ["g", "t", "0", "6", "10", "300 is behind the end 10"]
    assert second.split() == ["g", "t", "1", "-", "0"]
    assert group_view.resets_list(resets)[1] == {
        "group": "g",
        "topic": "t",
        "partition": 1,
        "committed": None,
        "offset": 0,
    }
