"""A controller that joins by itself asks for it as often as it takes, and only while it is no voter."""

from collections.abc import Callable
from typing import Any

from kpybroker.hosts.quorum.auto_join import AutoJoin
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory, voter_set
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

PERIOD_MS = 100
OLD, NEW = b"o" * 16, b"n" * 16
HERE = VoterEndpoint("CONTROLLER", "here", 9093)
ME = Voter(3, NEW, (HERE,))
FIRST = Voter(1, b"f" * 16)


class Played:
    """A node that joins, and the quorum as the test says."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.history = VoterHistory()
        self.asked: list[Any] = []
        self.answer: Callable[[Any], object] = lambda _: None
        self.has_leader = True
        self.joining = AutoJoin(self.scheduler, "c", ME, self.history, self.ask, PERIOD_MS)
        self.joining.start()

    def ask(self, request: Any, answered: Callable[[Any], object]) -> bool:
        if self.has_leader:
            self.asked.append(request)
            self.answer = answered
        return self.has_leader

    def write(self, *voters: Voter) -> None:
        """The log names these voters."""
        if self.history.kraft_version == 0:
            self.history.add_kraft_version(0, 1)
        self.history.add_voters(1, voter_set(voters))


def test_an_observer_requests_to_become_a_voter_until_the_log_has_it() -> None:
    played = Played()
    played.scheduler.advance(PERIOD_MS)
    assert not played.asked, "it has read nothing yet, or voters are configured"
    played.write(FIRST)
    played.has_leader = False
    played.scheduler.advance(PERIOD_MS)
    played.has_leader = True
    played.scheduler.advance(PERIOD_MS)
    (request,) = played.asked
    assert isinstance(request, AddRaftVoterRequest)
    assert (request.voter_id, request.voter_directory_id, request.ack_when_committed) == (3, NEW, False)
    assert [(each.name, each.host, each.port) for each in request.listeners] == [HERE]
    played.scheduler.advance(PERIOD_MS)
    assert len(played.asked) == 1, "one at a time"
    late = error_codes.REQUEST_TIMED_OUT
    played.answer(AddRaftVoterResponse(throttle_time_ms=0, error_code=late, error_message=None))
    played.scheduler.advance(PERIOD_MS)
    assert len(played.asked) == 2
    played.write(FIRST, ME)
    played.answer(AddRaftVoterResponse(throttle_time_ms=0, error_code=0, error_message=None))
    played.scheduler.advance(10 * PERIOD_MS)
    assert len(played.asked) == 2


def test_a_voter_with_a_new_disk_first_removes_its_old_voter_entry() -> None:
    played = Played()
    played.write(FIRST, Voter(3, OLD))
    played.scheduler.advance(PERIOD_MS)
    (request,) = played.asked
    assert isinstance(request, RemoveRaftVoterRequest)
    assert (request.voter_id, request.voter_directory_id) == (3, OLD)
    played.write(FIRST)
    played.answer(RemoveRaftVoterResponse(throttle_time_ms=0, error_code=0, error_message=None))
    played.scheduler.advance(PERIOD_MS)
    assert isinstance(played.asked[1], AddRaftVoterRequest)
    played.joining.stop()
    played.answer(AddRaftVoterResponse(throttle_time_ms=0, error_code=0, error_message=None))
    played.scheduler.advance(10 * PERIOD_MS)
    assert len(played.asked) == 2
