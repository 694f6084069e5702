"""The looks of an active controller at the brokers of its cluster, and what follows from them.

`kpybroker.machines.controller.suspicion` decides. Here are the signs of life that the node has anyway (the fetches of
the metadata log and the heartbeats), the time, the connections to suspects, and the walk over their partitions, which
is made in steps.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING

from kpybroker.hosts.network.peer import Connect
from kpybroker.hosts.quorum.life_probes import LifeProbes
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpybroker.machines.controller.state import STEP, ControllerState
from kpybroker.machines.controller.suspicion import LOOK_MS, BrokerPeers, EarlyFencing, Suspicions

if TYPE_CHECKING:
    from kpybroker.hosts.quorum.leader_watch import LostLeader
    from kpybroker.runtime.io.scheduler import Scheduler, Timer

log = logging.getLogger("kpybroker.controller")


class SuspectWatch:
    """The looks of one reign."""

    def __init__(
        self,
        scheduler: "Scheduler",
        state: ControllerState,
        fetched_ms: Callable[[], Mapping[int, float]],
        connect: Connect,
        address: Callable[[int], tuple[str, int] | None],
        fence: Callable[[BrokerSession], object],
        gone: Callable[[BrokerSession], object],
    ) -> None:
        """``fetched_ms`` returns the times at which nodes last fetched the metadata log. ``fence`` is called with a
        broker to fence, ``gone`` with one whose port is closed."""
        self._scheduler = scheduler
        self._state = state
        self._fetched_ms = fetched_ms
        self._fence = fence
        self._gone = gone
        self._began_ms = scheduler.monotonic_ms()
        self._node_id = state.settings.node_id
        self._suspicions = Suspicions(self._node_id, self._began_ms)
        self._probes = LifeProbes(connect, address, self._answered, gone)
        self._searched: set[BrokerSession] = set()
        """The brokers whose peers are being found out."""
        self._timer: Timer = scheduler.call_later(LOOK_MS, self._look)
        self._is_closed = False

    def suspect(self, lost: "LostLeader") -> None:
        """Suspect the quorum's former leader, which this node asked before it was the controller."""
        self._probes.close()
        self._probes = lost.probes
        self._probes.report_to(self._answered, self._gone)
        self._suspicions.lost(lost.session, lost.heard_ms, lost.asked_ms, lost.lag_ms)
        self._timer.cancel()
        self._timer = self._scheduler.call_later(0, self._look)

    def close(self) -> None:
        """Look no more."""
        self._is_closed = True
        self._timer.cancel()
        self._probes.close()

    def _look(self) -> None:
        now_ms = self._scheduler.monotonic_ms()
        self._timer = self._scheduler.call_later(LOOK_MS, self._look)
        found = self._suspicions.look(now_ms, self._signs(), self._state.heartbeats.silent)
        self._probes.keep(found.probed)
        for session in found.unknown:
            if session not in self._searched:
                self._searched.add(session)
                self._scheduler.in_pieces(self._find_peers(session))
        for fencing in found.fenced:
            _report(fencing)
            self._fence(fencing.session)

    def _signs(self) -> dict[BrokerSession, float | None]:
        """The last sign of life of each broker that may be suspected; None if there was none in this reign."""
        fetched_ms, heartbeats = self._fetched_ms(), self._state.heartbeats
        signs: dict[BrokerSession, float | None] = {}
        for broker in self._state.image.brokers.values():
            if broker.is_active and broker.id != self._node_id and broker.reports_silence:
                session = BrokerSession(broker.id, broker.epoch)
                contact_ms = heartbeats.last_contact_ms(session)
                last_ms = max(fetched_ms.get(broker.id, -1.0), -1.0 if contact_ms is None else contact_ms)
                signs[session] = last_ms if last_ms > self._began_ms else None
        return signs

    def _answered(self, session: BrokerSession) -> None:
        self._suspicions.answered(session, self._scheduler.monotonic_ms())

    def _find_peers(self, session: BrokerSession) -> Generator[None, None, None]:
        """Find the peers of a broker, some partitions at a time. A change meanwhile hardly matters: they are found out
        again soon."""
        broker_id, image = session.broker_id, self._state.image
        witnesses: set[int] = set()
        in_sync: set[int] = set()
        try:
            for number, (_, _, partition) in enumerate(self._state.index.held_by(broker_id)):
                if partition.leader == broker_id:
                    witnesses.update(partition.replicas)
                    in_sync.update(partition.isr)
                elif broker_id in partition.replicas:
                    witnesses.add(partition.leader)
                if number % STEP == 0:
                    yield
                    if self._is_closed:
                        return
        finally:
            self._searched.discard(session)
        reporting = [each for each in witnesses if each in image.brokers and image.brokers[each].reports_silence]
        peers = BrokerPeers(frozenset(reporting) - {broker_id}, frozenset(in_sync) - {broker_id})
        self._suspicions.found(session, peers, self._scheduler.monotonic_ms())


def _report(fencing: EarlyFencing) -> None:
    reporters = ", ".join(map(str, fencing.reporters))
    lost = "no follower in sync gets answers" if fencing.is_heard else "neither this controller nor its peers hear it"
    log.warning(
        "Broker %d is fenced before its session ends: for %.1f s %s (reported by %s)",
        fencing.session.broker_id, fencing.silent_ms / 1000, lost, reporters,
    )  # fmt: skip
