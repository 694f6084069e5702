"""A controller that has no vote asks to be made a voter (``controller.quorum.auto.join.enable``, KIP-853).

If it comes back with an emptied disk, it first has the voter that it was before removed. Kafka does both from within
``KafkaRaftClient`` (``pollFollowerAsObserver``), equally often.

Invariant: at most one request is outstanding, and none while the log names this very node and directory as a voter.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kpybroker.machines.raft.voters import Voter, VoterHistory
from kpywire import error_codes
from kpywire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler, Timer

log = logging.getLogger("kpybroker.controller")

Ask = Callable[[Any, Callable[[Any], object]], bool]
"""(request, answered) -> whether a controller to ask is known."""


class AutoJoin:
    """The attempts of one node to become a voter, as long as it runs."""

    def __init__(
        self,
        scheduler: "Scheduler",
        cluster_id: str,
        local: Voter,
        history: VoterHistory,
        ask: Ask,
        fetch_timeout_ms: int,
    ) -> None:
        """``history`` holds the voters that the log names, now and later. It is checked at the interval within which a
        follower expects to hear from its leader (``controller.quorum.fetch.timeout.ms``)."""
        self._scheduler = scheduler
        self._cluster_id = cluster_id
        self._local = local
        self._history = history
        self._ask = ask
        self._fetch_timeout_ms = fetch_timeout_ms
        self._timer: Timer | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Check the voters from now on."""
        self._timer = self._scheduler.call_later(self._fetch_timeout_ms, self._look)

    def stop(self) -> None:
        """Send no more requests."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        request = self._wanted()
        if request is None or not self._ask(request, self._answered):
            self.start()

    def _wanted(self) -> AddRaftVoterRequest | RemoveRaftVoterRequest | None:
        """The request that brings this node nearer to being a voter."""
        if self._history.kraft_version < 1:
            return None
        local, voter = self._local, self._history.voters.get(self._local.id)
        if voter is None:
            return AddRaftVoterRequest(
                cluster_id=self._cluster_id,
                timeout_ms=self._fetch_timeout_ms,
                voter_id=local.id,
                voter_directory_id=local.directory_id,
                listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in local.endpoints],
                ack_when_committed=False,  # what commits it may be this node's own next fetch
            )
        if voter.directory_id != local.directory_id:
            return RemoveRaftVoterRequest(
                cluster_id=self._cluster_id, voter_id=voter.id, voter_directory_id=voter.directory_id
            )
        return None

    def _answered(self, response: Any) -> None:
        if self._is_stopped:
            return
        if response.error_code == error_codes.NONE:
            log.info("This node asked the quorum to make it a voter")
        else:
            why = response.error_message or error_codes.message(response.error_code)
            log.warning("This node is not a voter yet: %s", why)
        self.start()
