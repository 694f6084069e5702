"""The leader's decision on a voter that is added, removed or moved: the refusals of Kafka, in their order."""

from typing import Any

import pytest

from kpybroker.machines.raft import leading, version_upgrade, voter_changes
from kpybroker.machines.raft.control_records import (
    kraft_version,
    kraft_voters,
    leader_change,
    snapshot_footer,
    snapshot_header,
)
from kpybroker.machines.raft.errors import CannotUpgrade
from kpybroker.machines.raft.messages import AddVoter, Fetch, Known, RemoveVoter, ReplicaKey, UpdateVoter, VoterResponse
from kpybroker.machines.raft.roles import ElectionState, Leader, PendingChange
from kpybroker.machines.raft.voter_changes import ANOTHER_IS_PENDING, NOTHING_IS_COMMITTED, VoterChange, VotersRefusal
from kpybroker.machines.raft.voter_wire import REMOVAL_TIMEOUT_MS, answer_to_wire, change_from_wire
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory, Voters, from_record, to_record, voter_set
from kpybroker.machines.raft.wire_form import endpoints_in, response_from_wire, to_wire
from kpywire import codec, error_codes
from kpywire.messages.add_raft_voter import AddRaftVoterRequest
from kpywire.messages.add_raft_voter import Listener as AddedListener
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest

NOW_MS = 10_000_000
TIMED_OUT = error_codes.REQUEST_TIMED_OUT


def voter(number: int, *levels: int) -> Voter:
    lowest, highest = levels or (0, 1)
    endpoints = (VoterEndpoint("CONTROLLER", "here", 9000 + number),)
    return Voter(number, bytes([number]) * 16, endpoints, (lowest, highest))


def add(of: Voter) -> AddVoter:
    return AddVoter(of, 1_000, ack_when_committed=True)


def remove(of: Voter) -> RemoveVoter:
    return RemoveVoter(ReplicaKey(of.id, of.directory_id), 1_000)


def update(of: Voter) -> UpdateVoter:
    return UpdateVoter(4, of)


def history(*ids: int, offset: int = 3, level: int = 1) -> VoterHistory:
    known = VoterHistory([Voter(each) for each in ids])
    if level:
        known.add_kraft_version(offset, level)
        known.add_voters(offset, voter_set(voter(each) for each in ids))
    return known


def leader_with(high_watermark: int | None = 10) -> Leader:
    """Node 1 leads epoch 4; node 5 has everything, node 6 does not."""
    leader = Leader(ElectionState(4, 1), 8, [1, 2])
    leader.high_watermark = high_watermark
    for number, offset in ((5, 10), (6, 9)):
        replica = ReplicaKey(number, bytes([number]) * 16)
        leading.note_fetch(leader, {}, Fetch(4, replica, offset, 4, -1), 10, NOW_MS, NOW_MS)
    return leader


def decided(change: VoterChange, known: VoterHistory, leader: Leader | None = None) -> Voters | VotersRefusal:
    leader = leader_with() if leader is None else leader
    decision = voter_changes.changed(leader, known, change, NOW_MS)
    early = voter_changes.refusal(leader, known, change)
    is_lagging = isinstance(change, AddVoter) and change.voter.id == 6
    assert early == (decision if isinstance(decision, VotersRefusal) and not is_lagging else None)
    return decision


def test_a_replica_that_has_caught_up_becomes_a_voter() -> None:
    assert decided(add(voter(5)), history(1, 2)) == {1: voter(1), 2: voter(2), 5: voter(5)}


def test_a_replica_that_lags_does_not() -> None:
    refused = decided(add(voter(6)), history(1, 2))
    assert isinstance(refused, VotersRefusal)
    assert refused.error_code == TIMED_OUT
    assert "ReplicaKey(id=6," in (refused.message or "")
    assert "lagging" in (refused.message or "")


@pytest.mark.parametrize("change", [add(voter(5)), remove(voter(2)), update(voter(2))])
def test_voter_changes_run_one_at_a_time_after_the_last_commit(change: VoterChange) -> None:
    leader = leader_with()
    leader.change = PendingChange("ticket", 12, NOW_MS)
    assert decided(change, history(1, 2), leader) == VotersRefusal(TIMED_OUT, ANOTHER_IS_PENDING)
    assert decided(change, history(1, 2), leader_with(None)) == VotersRefusal(TIMED_OUT, NOTHING_IS_COMMITTED)
    refused = decided(change, history(1, 2, offset=10))
    assert isinstance(refused, VotersRefusal)
    assert refused.error_code == TIMED_OUT
    assert "latest voter change at 10 with HWM 10" in (refused.message or "")
    assert not isinstance(decided(change, history(1, 2, offset=9)), VotersRefusal)


@pytest.mark.parametrize(("change", "doing"), [(add(voter(5)), "adding"), (remove(voter(2)), "removing")])
def test_configured_voters_are_not_changed(change: VoterChange, doing: str) -> None:
    message = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    assert decided(change, history(1, 2, level=0)) == VotersRefusal(error_codes.UNSUPPORTED_VERSION, message)


def test_configured_voters_may_report_themselves() -> None:
    configured = history(1, 2, level=0)
    assert decided(update(voter(2)), configured) is configured.voters
    assert decided(update(voter(3)), configured) == VotersRefusal(error_codes.VOTER_NOT_FOUND)


def test_an_id_that_votes_already_is_not_added_with_another_disk() -> None:
    other_disk = voter(2)._replace(directory_id=b"o" * 16)
    refused = decided(add(other_disk), history(1, 2))
    assert isinstance(refused, VotersRefusal)
    assert refused.error_code == error_codes.DUPLICATE_VOTER
    assert all(f"id={each}," in (refused.message or "") for each in (1, 2))


@pytest.mark.parametrize(
    ("levels", "fits"), [((0, 1), True), ((1, 1), True), ((1, 2), True), ((0, 0), False), ((2, 3), False)]
)
def test_a_voter_must_know_the_level_that_is_finalised(levels: tuple[int, int], fits: bool) -> None:
    for change in (add(voter(5, *levels)), update(voter(2, *levels))):
        answer = decided(change, history(1, 2))
        assert isinstance(answer, VotersRefusal) is not fits
        assert fits or answer.error_code == error_codes.INVALID_REQUEST  # type: ignore[union-attr]


def test_a_voter_is_removed_with_its_own_disk_and_never_the_last_one() -> None:
    assert decided(remove(voter(2)), history(1, 2)) == {1: voter(1)}
    assert decided(remove(voter(1)), history(1, 2)) == {2: voter(2)}
    for absent in (voter(3), voter(2)._replace(directory_id=b"o" * 16)):
        refused = decided(remove(absent), history(1, 2))
        assert isinstance(refused, VotersRefusal)
        assert refused.error_code == error_codes.VOTER_NOT_FOUND
    refused = decided(remove(voter(1)), history(1))
    assert isinstance(refused, VotersRefusal)
    assert refused.error_code == error_codes.VOTER_NOT_FOUND


def test_a_voter_that_moved_keeps_its_disk_and_news_alone_is_written() -> None:
    moved = voter(2)._replace(endpoints=(VoterEndpoint("CONTROLLER", "there", 1),))
    known = history(1, 2)
    assert decided(update(moved), known) == {1: voter(1), 2: moved}
    assert decided(update(voter(2)), known) is known.voters
    for absent in (voter(3), voter(2)._replace(directory_id=b"o" * 16)):
        assert decided(update(absent), known) == VotersRefusal(error_codes.VOTER_NOT_FOUND)


def test_voters_of_the_log_are_not_known_from_reports() -> None:
    assert version_upgrade.known_at_first(history(1, 2), voter(1)) == {}
    configured = version_upgrade.known_at_first(history(1, 2, level=0), voter(1))
    assert configured == {1: voter(1), 2: Voter(2, kraft_versions=(0, 0))}


@pytest.mark.parametrize(("levels", "fits"), [((0, 0), True), ((0, 1), True), ((1, 1), False), ((-2, -1), False)])
def test_a_report_is_of_a_voter_that_knows_the_present_level(levels: tuple[int, int], fits: bool) -> None:
    known = version_upgrade.known_at_first(history(1, 2, level=0), voter(1))
    answer = version_upgrade.with_update(known, voter(2, *levels))
    expected = {1: voter(1), 2: voter(2, *levels)} if fits else VotersRefusal(error_codes.INVALID_REQUEST)
    assert answer == expected


@pytest.mark.parametrize(
    ("levels", "fits"), [((0, 1), True), ((1, 1), True), ((1, 2), True), ((0, 0), False), ((2, 3), False)]
)
def test_the_level_rises_where_all_voters_know_it(levels: tuple[int, int], fits: bool) -> None:
    known = {1: voter(1), 2: voter(2, *levels)}
    if fits:
        assert version_upgrade.upgraded(history(1, 2, level=0), known, 1) == known
        return
    with pytest.raises(CannotUpgrade, match=r"kraft\.version to KRAFT_VERSION_1 because not all"):
        version_upgrade.upgraded(history(1, 2, level=0), known, 1)


def test_the_record_of_the_voters_holds_all_that_they_are() -> None:
    voters = voter_set([voter(1), voter(2, 0, 3), Voter(3)])
    assert from_record(to_record(voters)) == voters
    record = to_record(voters)
    assert [each.voter_id for each in record.voters] == [1, 2, 3]
    assert record.voters[1].kraft_version_feature.max_supported_version == 3
    assert to_record({}).version == 0


def test_control_records_have_the_version_that_kafka_writes() -> None:
    records = [kraft_version(1), kraft_voters({1: voter(1)}), leader_change(1, {1: voter(1)}, [1]), snapshot_header(5)]
    assert [each.message.version for each in [*records, snapshot_footer()]] == [0] * 5
    assert snapshot_header(5).message.last_contained_log_timestamp == 5


def test_the_last_voters_count_and_a_log_that_is_cut_has_the_earlier_ones() -> None:
    known = VoterHistory([Voter(9)])
    assert (known.kraft_version, known.voters_offset, list(known.voters)) == (0, None, [9])
    for offset, ids in ((3, (1,)), (7, (1, 2))):
        known.add_kraft_version(offset, 1)
        known.add_voters(offset, voter_set(voter(each) for each in ids))
    assert (known.kraft_version, known.voters_offset, list(known.voters)) == (1, 7, [1, 2])
    for end, offset, ids in ((8, 7, [1, 2]), (7, 3, [1]), (3, None, [9])):
        earlier = known.as_of(end)
        assert (earlier.voters_offset, list(earlier.voters)) == (offset, ids)
        assert earlier.kraft_version == (0 if offset is None else 1)
    other = VoterHistory([Voter(8)])
    other.replace_by(known)
    other.truncate_to(7)
    assert (other.voters_offset, list(other.voters), other.kraft_version) == (3, [1], 1)
    other.truncate_to(3)
    assert (other.voters_offset, list(other.voters), other.kraft_version) == (None, [8], 0)
    assert known.voters_offset == 7, "the history that was copied stays as it is"


# On the wire.


def over_the_wire(message: Any) -> Any:
    newest = type(message).VERSIONS[-1]
    return codec.decode(type(message), newest, bytes(codec.encode(message, newest)), 0)


def test_the_three_requests_say_which_voter_and_for_how_long() -> None:
    listeners = [AddedListener(name="CONTROLLER", host="here", port=9005)]
    added = AddRaftVoterRequest(
        cluster_id="c", timeout_ms=700, voter_id=5, voter_directory_id=b"\5" * 16, listeners=listeners,
        ack_when_committed=False,
    )  # fmt: skip
    change = change_from_wire(over_the_wire(added), (0, 1))
    assert change == AddVoter(voter(5), 700, ack_when_committed=False)
    removed = RemoveRaftVoterRequest(cluster_id="c", voter_id=5, voter_directory_id=b"\5" * 16)
    assert change_from_wire(over_the_wire(removed), (0, 1)) == RemoveVoter(
        ReplicaKey(5, b"\5" * 16), REMOVAL_TIMEOUT_MS
    )
    updated = over_the_wire(to_wire(update(voter(5, 0, 3)), "c", ()))
    assert (
        updated.kraft_version_feature.min_supported_version,
        updated.kraft_version_feature.max_supported_version,
    ) == (
        0,
        3,
    )
    assert change_from_wire(updated, (0, 3)) == update(voter(5, 0, 3))
    with pytest.raises(TypeError, match="RemoveVoter"):
        to_wire(remove(voter(5)), "c", ())


@pytest.mark.parametrize("request_", [AddRaftVoterRequest(), RemoveRaftVoterRequest()])
def test_a_refusal_has_a_text_and_a_success_has_none(request_: Any) -> None:
    for code, message, text in (
        (error_codes.NONE, "ignored", None),
        (error_codes.VOTER_NOT_FOUND, "who?", "who?"),
        (error_codes.VOTER_NOT_FOUND, None, error_codes.message(error_codes.VOTER_NOT_FOUND)),
    ):
        answer = answer_to_wire(request_, VoterResponse(Known(4, 1, code), message), None)
        assert (answer.error_code, answer.error_message, answer.throttle_time_ms) == (code, text, 0)


def test_a_voter_with_a_new_address_learns_the_leader_and_its_address() -> None:
    asked = to_wire(update(voter(5)), "c", ())
    refused = VoterResponse(Known(4, 1, error_codes.NOT_LEADER_OR_FOLLOWER))
    answer = over_the_wire(answer_to_wire(asked, refused, VoterEndpoint("CONTROLLER", "there", 9001)))
    assert response_from_wire(answer) == (refused, b"")
    assert endpoints_in(answer, "MINE") == {1: [VoterEndpoint("MINE", "there", 9001)]}
    silent = over_the_wire(answer_to_wire(asked, refused, None))
    assert (silent.current_leader.host, silent.current_leader.port, silent.throttle_time_ms) == ("", 0, 0)
    assert endpoints_in(silent, "MINE") == {}
