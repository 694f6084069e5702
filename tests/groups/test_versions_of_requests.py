"""Requests of each version are answered in its form: what came later is not in earlier answers."""

import uuid
from random import Random
from typing import Any

import pytest
from group_world import GroupWorld

from kpybroker.machines.groups.classic.describe import DescribeGroup
from kpybroker.machines.groups.classic.responses import join_error
from kpybroker.machines.groups.commit_bytes import SHORT_METADATA_BYTES, decode_commit
from kpybroker.machines.groups.decision import AGES_MS, GroupDecision
from kpybroker.machines.groups.record import FORMAT
from kpywire import error_codes
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.uuid import ZERO_UUID


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_one_member_leaves_before_version_3_and_many_from_then_on(version: int) -> None:
    world = GroupWorld()
    first, second = world.stable_group(2)
    is_batched = version >= 3
    for member_id, error in ((second, error_codes.NONE), (second, error_codes.UNKNOWN_MEMBER_ID)):
        if is_batched:
            message = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
            response = world.send(message, version).response
            assert response.error_code == error_codes.NONE
            assert [(each.member_id, each.error_code) for each in response.members] == [(member_id, error)]
        else:
            response = world.send(LeaveGroupRequest(group_id="g", member_id=member_id), version).response
            assert (response.error_code, list(response.members)) == (error, [])
    assert [each.member_id for each in world.describe().members] == [first]


@pytest.mark.parametrize(("version", "error"), [(0, 0), (3, 0), (4, error_codes.MEMBER_ID_REQUIRED)])
def test_a_new_member_is_asked_to_come_again_with_its_id_from_version_4_on(version: int, error: int) -> None:
    world = GroupWorld(initial_rebalance_delay_ms=1)
    ticket = world.join(version=version)
    world.advance(1)
    response = ticket.response
    assert (response.error_code, bool(response.member_id)) == (error, True)


@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_an_error_names_no_protocol_in_the_form_of_its_version(version: int, name: str | None) -> None:
    response = join_error(version, error_codes.UNKNOWN_MEMBER_ID, "m")
    assert (response.protocol_name, response.error_code, response.member_id) == (
        name,
        error_codes.UNKNOWN_MEMBER_ID,
        "m",
    )
    assert (response.generation_id, response.leader, list(response.members)) == (-1, "", [])


@pytest.mark.parametrize(("version", "waited_ms"), [(0, 10_000), (1, 30_000)])
def test_before_version_1_a_member_has_the_time_of_its_session_for_a_rebalance(version: int, waited_ms: int) -> None:
    world = GroupWorld(initial_rebalance_delay_ms=1)
    ticket = world.join(version=version, session_ms=10_000, rebalance_ms=30_000)
    world.advance(1)
    member_id = ticket.response.member_id
    group: Any = world.coordinator.shard.groups["g"].membership
    (member,) = group.members.values()
    assert (member.member_id, member.rebalance_timeout_ms) == (member_id, waited_ms)


@pytest.mark.parametrize(("version", "error", "state"), [(5, 0, "Dead"), (6, error_codes.GROUP_ID_NOT_FOUND, "Dead")])
def test_a_group_that_is_not_there_is_dead_and_an_error_from_version_6_on(version: int, error: int, state: str) -> None:
    described = GroupWorld().send(DescribeGroup("nobody"), version).response
    assert (described.error_code, described.group_state, list(described.members)) == (error, state, [])


# Identifiers, times and commits to their last bit


def decision(**fields: Any) -> GroupDecision:
    """A decision of which only these fields are read."""
    made = GroupDecision.__new__(GroupDecision)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_a_made_id_is_a_random_uuid_of_version_4(seed: int) -> None:
    text = decision(rng=Random(seed)).new_uuid()
    found = uuid.UUID(text)
    assert (str(found), found.version, found.variant) == (text, 4, uuid.RFC_4122)
    bits = Random(seed).getrandbits(128)
    assert found.int | 0xF << 76 | 0x3 << 62 == bits | 0xF << 76 | 0x3 << 62, "all other bits are random"


@pytest.mark.parametrize(("moment_ms", "passed_ms"), [(900, 100), (1_000, 0), (1_001, AGES_MS)])
def test_a_moment_that_is_still_to_come_was_ages_ago(moment_ms: int, passed_ms: int) -> None:
    assert decision(timestamp_ms=1_000).ms_since(moment_ms) == passed_ms


KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def commit(**fields: Any) -> OffsetCommitValue:
    known = {"offset": 5, "leader_epoch": 2, "metadata": "m", "commit_timestamp": 7, "topic_id": ZERO_UUID}
    return OffsetCommitValue(**{**known, **fields})


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("length", [0, 1, SHORT_METADATA_BYTES - 1, SHORT_METADATA_BYTES])
def test_commits_as_brokers_write_them_are_read_in_short(version: int, length: int) -> None:
    value = commit(metadata="x" * length)
    encoded = FORMAT.encode_value(value, version)
    assert decode_commit(FORMAT.encode_key(KEY), encoded) == (KEY, value, version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_commits_of_earlier_versions_are_left_to_the_general_decoder(version: int) -> None:
    encoded = FORMAT.encode_value(commit(expire_timestamp=-1), version)
    assert decode_commit(FORMAT.encode_key(KEY), encoded) is None


def test_a_commit_may_have_the_id_of_its_topic_and_a_tombstone_nothing() -> None:
    value = commit(topic_id=b"i" * 16)
    encoded = FORMAT.encode_value(value, 4)
    assert decode_commit(FORMAT.encode_key(KEY), encoded) == (KEY, value, 4)
    assert decode_commit(FORMAT.encode_key(KEY), None) == (KEY, None, 0)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("change", ["cut", "longer", "later version"])
def test_a_damaged_commit_is_left_to_the_general_decoder(version: int, change: str) -> None:
    encoded = FORMAT.encode_value(commit(), version)
    damaged = {"cut": encoded[:-1], "longer": encoded + b"\0", "later version": b"\1" + encoded[1:]}[change]
    assert decode_commit(FORMAT.encode_key(KEY), damaged) is None


@pytest.mark.parametrize("change", ["cut", "longer", "other length"])
def test_a_damaged_key_is_left_to_the_general_decoder(change: str) -> None:
    encoded = FORMAT.encode_key(KEY)
    damaged = {"cut": encoded[:-1], "longer": encoded + b"\0", "other length": encoded[:3] + b"\2" + encoded[4:]}
    assert decode_commit(damaged[change], None) is None
