"""The looks of a voter at its leader, and the question to a silent one, before there is another controller.

`kpybroker.machines.controller.leader_silence` decides. The connection by which the leader was asked goes to the next
controller of this node, with the time since when it has not answered.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kpybroker.hosts.network.peer import Connect
from kpybroker.hosts.quorum.life_probes import LifeProbes
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpybroker.machines.controller.leader_silence import LeaderSilence
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.raft.quorum import Quorum

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler, Timer


class LostLeader(NamedTuple):
    """The broker of the former leader, which this node lost."""

    session: BrokerSession
    heard_ms: float
    asked_ms: float
    """The time since when it has been asked for a sign of life."""
    lag_ms: float
    probes: LifeProbes


class LeaderWatch:
    """The looks of one voter."""

    def __init__(
        self,
        scheduler: "Scheduler",
        quorum: Quorum,
        image: MetadataImage,
        connect: Connect,
        address: Callable[[int], tuple[str, int] | None],
    ) -> None:
        """``address`` returns the address where a broker listens for other nodes."""
        self._scheduler = scheduler
        self._quorum = quorum
        self._image = image
        self._connect = connect
        self._address = address
        self._silence = LeaderSilence(quorum.timing.fetch_timeout_ms, scheduler.monotonic_ms())
        self._probes = self._new_probes()
        self._asked: BrokerSession | None = None
        self._timer: Timer = scheduler.call_later(0, self._look)

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()
        self._probes.close()

    def take(self) -> LostLeader | None:
        """The former leader, if it has not answered since it was asked, for the controller that begins here."""
        heard, asked_ms, session = self._quorum.heard_leader, self._silence.asked_ms, self._asked
        if heard is None or asked_ms is None or session is None or session.broker_id != heard.node_id:
            return None
        probes, self._probes, self._asked = self._probes, self._new_probes(), None
        return LostLeader(session, heard.heard_ms, asked_ms, self._silence.lag_ms, probes)

    def _new_probes(self) -> LifeProbes:
        return LifeProbes(self._connect, self._address, self._answered, self._answered)

    def _look(self) -> None:
        now_ms = self._scheduler.monotonic_ms()
        quorum = self._quorum
        is_needless = not quorum.is_voter or (quorum.is_leader and self._asked is None)
        heard = None if is_needless else quorum.heard_leader
        due_ms = self._silence.look(now_ms, heard)
        self._timer = self._scheduler.call_later(due_ms - now_ms, self._look)
        self._asked = None
        if heard is not None and self._silence.asked_ms is not None:
            broker = self._image.brokers.get(heard.node_id)
            if broker is not None and broker.reports_silence:
                self._asked = BrokerSession(broker.id, broker.epoch)
        self._probes.keep(() if self._asked is None else (self._asked,))

    def _answered(self, _session: BrokerSession) -> None:
        self._silence.answered(self._scheduler.monotonic_ms())
        self._asked = None
