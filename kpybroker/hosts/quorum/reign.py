"""One reign of this node's controller: from the commit of its epoch's first batch to the end of its leadership.

It holds the state, journal, decisions and timers of one active controller. None of them outlives it: the next reign, on
whatever node, begins from the committed image.

Invariant: an answer leaves once the log has committed the records it depends on; requests that still wait when the
reign ends are answered with NOT_CONTROLLER.
"""

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.quorum.committed import CommittedRecords
from kpybroker.hosts.quorum.decisions import Decisions
from kpybroker.hosts.quorum.ended_brokers import EndedBrokers, HeartbeatConnection
from kpybroker.hosts.quorum.kraft_version import QuorumsVersion
from kpybroker.hosts.quorum.shell import QuorumShell
from kpybroker.machines.controller.activation import bootstrap_level
from kpybroker.machines.controller.config_rules import ConfigRules
from kpybroker.machines.controller.controller import (
    Activate,
    Controller,
    ElectPreferredLeaders,
    ElectUncleanLeaders,
    FenceStaleBrokers,
    Idle,
    SweepExpiredTokens,
)
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpybroker.machines.controller.large_batch import LargeBatch
from kpybroker.machines.controller.state import ControllerRequest, ControllerState, StaticSettings
from kpybroker.machines.journal import AppendRefused, BatchTooLarge, DecisionFailed, Journal, ProducerEpoch
from kpybroker.machines.metadata.image import InvalidMetadata, MetadataImage
from kpybroker.machines.metadata.image_records import record_version
from kpybroker.machines.raft.errors import NotLeader, RecordsTooLarge
from kpybroker.machines.raft.roles import Leader
from kpywire import error_codes
from kpywire.metadata_records import encode_record

if TYPE_CHECKING:
    from kpybroker.hosts.network.peer import Connect
    from kpybroker.hosts.quorum.leader_watch import LostLeader
    from kpybroker.hosts.quorum.suspects import SuspectWatch
    from kpybroker.runtime.io.scheduler import Scheduler, Timer

log = logging.getLogger("kpybroker.controller")

Reply = Callable[[Any], object]
SEVERAL = 2
"""The number of brokers from which on one can be missed by another."""
ALONE_MS = 1_000
"""The time after which a controller counts its brokers again, while there are fewer."""


class Timings(NamedTuple):
    """The intervals at which the controller acts by itself; 0 is never."""

    max_idle_interval_ms: int = 500
    fence_interval_ms: int = 1_125
    preferred_election_interval_ms: int = 300_000
    unclean_election_interval_ms: int = 300_000
    token_sweep_interval_ms: int = 0


class QueuedCall:
    """A request and the function that takes its response."""

    __slots__ = ("_api_version", "_reply", "_request")

    def __init__(self, request: Any, api_version: int, reply: Reply) -> None:
        self._request = request
        self._api_version = api_version
        self._reply = reply

    def answer(self, message: Any) -> None:
        """Send the response."""
        self._reply(message)

    def fail(self, error_code: int) -> None:
        """Send a response that holds only this error."""
        from kpybroker.machines.controller.error_responses import (
            plain_error_response,  # knows the messages of all requests
        )

        self._reply(plain_error_response(self._request, self._api_version, error_code))


class CopiedTicket:
    """The ticket of records that were copied from ZooKeeper."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[int | None], object]) -> None:
        self._done = done

    def answer(self, message: int) -> None:
        """They are committed."""
        self._done(message)

    def fail(self, error_code: int) -> None:
        """They are not written."""
        log.warning("Records that were copied from ZooKeeper were not written: %s", error_codes.name(error_code))
        self._done(None)


class ControllerParts(NamedTuple):
    """The settings that every reign on this node begins with."""

    settings: StaticSettings
    rules: ConfigRules
    rng: Random
    bootstrap_records: Sequence[Any]
    """Written to an empty log."""
    timings: Timings
    connect: "Connect | None" = None
    """A way to find out whether a silent broker's process still exists; None to never check."""
    suspects: bool = False
    """The controller may fence silent brokers before their sessions end (``kpybroker.suspicion.enable``)."""

    def address_in(self, image: MetadataImage, broker_id: int) -> tuple[str, int] | None:
        """The address where a broker listens for other nodes; None if it is not known."""
        broker = image.brokers.get(broker_id)
        point = None if broker is None else broker.listeners.get(self.settings.inter_broker_listener_name)
        return None if point is None else (point.host, point.port)


class Reign:
    """The active controller."""

    def __init__(
        self,
        scheduler: "Scheduler",
        shell: QuorumShell,
        committed: CommittedRecords,
        image: MetadataImage,
        parts: ControllerParts,
        broken: Callable[[Exception], object],
    ) -> None:
        """``image`` is the committed one; it is copied. ``broken`` is called with an error that must end the node."""
        self._scheduler = scheduler
        self._shell = shell
        self._quorum = shell.quorum
        self._committed = committed
        self._controller_parts = parts
        self._broken = broken
        self.epoch = self._quorum.epoch
        self.state = ControllerState(
            image.copy(),
            parts.settings,
            parts.rules,
            parts.rng,
            lambda: self._quorum.next_offset,
            QuorumsVersion(shell, scheduler.now_ms),
            int(scheduler.monotonic_ms()),
        )
        controller = Controller(self.state)
        self._journal = Journal(controller, self._append, closed_error=error_codes.NOT_CONTROLLER, report=_report)
        self._decisions = Decisions(scheduler, controller, self._decide, self._failed)
        self._timers: dict[Callable[[], Any], Timer] = {}
        self._is_over = False
        connect = parts.connect
        self._ended_brokers = (
            None if connect is None else EndedBrokers(connect, self._address, self.state.heartbeats, self._gone)
        )
        self._suspects: SuspectWatch | None = None
        self.early_fencings = 0
        """The brokers that were fenced before their sessions ended."""

    def begin(self, committed_offset: int, lost: "LostLeader | None" = None) -> None:
        """Accept requests. The image holds everything below ``committed_offset`` and nothing above it. ``lost`` is the
        former leader, if this node gave it up."""
        self._journal.open(committed_offset, committed_offset)
        self._decide(Activate(list(self._controller_parts.bootstrap_records)), int(self._scheduler.monotonic_ms()))
        log.info("This node's controller is active in epoch %d", self.epoch)
        self._scheduler.in_pieces(self.state.index.steps())
        timings = self._controller_parts.timings
        repeated: tuple[tuple[Callable[[], Any], int], ...] = (
            (FenceStaleBrokers, timings.fence_interval_ms),
            (Idle, timings.max_idle_interval_ms),
            (ElectPreferredLeaders, timings.preferred_election_interval_ms),
            (ElectUncleanLeaders, timings.unclean_election_interval_ms),
            (self._token_sweep, timings.token_sweep_interval_ms),
        )
        for make_event, interval_ms in repeated:
            if interval_ms > 0:
                self._repeat(make_event, interval_ms, self._quorum.next_offset)
        if self._ended_brokers is not None:  # what ended the last reign may have ended a broker too
            for broker in list(self.state.image.brokers.values()):
                if not broker.fenced and broker.id != self._controller_parts.settings.node_id:
                    self._ended_brokers.look(BrokerSession(broker.id, broker.epoch))
        if self._controller_parts.suspects:
            self._watch(lost)

    def _watch(self, lost: "LostLeader | None" = None) -> None:
        """Watch for suspects, as soon as there are several brokers."""
        connect = self._controller_parts.connect
        if connect is None:
            return
        if len(self.state.image.brokers) < SEVERAL:
            self._timers[self._watch] = self._scheduler.call_later(ALONE_MS, self._watch)
            return
        from kpybroker.hosts.quorum.suspects import SuspectWatch  # not of a plain start

        self._suspects = SuspectWatch(
            self._scheduler, self.state, self._fetched_ms, connect, self._address, self._fence, self._gone
        )
        if lost is not None:
            self._suspects.suspect(lost)

    def _fetched_ms(self) -> dict[int, float]:
        """The times at which nodes last fetched the metadata log."""
        role = self._quorum.role
        fetched_ms: dict[int, float] = {}
        if isinstance(role, Leader):
            for (node_id, _), progress in role.replicas.items():
                fetched_ms[node_id] = max(progress.fetched_ms, fetched_ms.get(node_id, -1.0))
        return fetched_ms

    def heard(self, session: BrokerSession, connection: HeartbeatConnection) -> None:
        """A heartbeat came over this connection: if the connection closes, the broker may have ended."""
        if self._ended_brokers is not None:
            self._ended_brokers.heard(session, connection)

    def _address(self, broker_id: int) -> tuple[str, int] | None:
        return self._controller_parts.address_in(self.state.image, broker_id)

    def _gone(self, session: BrokerSession) -> None:
        log.info("Broker %d is fenced: its process has ended, since its port is closed", session.broker_id)
        self._end_session(session)

    def _fence(self, session: BrokerSession) -> None:
        self.early_fencings += 1
        self._end_session(session)

    def _end_session(self, session: BrokerSession) -> None:
        self.state.heartbeats.end(session)
        self._decide(FenceStaleBrokers(), int(self._scheduler.monotonic_ms()))

    def submit(self, request: ControllerRequest) -> None:
        """Have a request decided."""
        self._decisions.ask(request)

    def committed(self, next_offset: int) -> None:
        """The log is committed and published up to this offset: answer the requests that waited for it."""
        self._journal.committed(next_offset, int(self._scheduler.monotonic_ms()))

    def end(self) -> None:
        """End the reign: this node is no longer the leader."""
        self._is_over = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._ended_brokers is not None:
            self._ended_brokers.close()
        if self._suspects is not None:
            self._suspects.close()
        self._journal.drop(error_codes.NOT_CONTROLLER)
        self._decisions.close()

    def _failed(self, error: Exception) -> None:
        if not self._is_over:
            self._broken(error)

    def _decide(self, event: Any, now_ms: int, **options: Any) -> None:
        """Feed the journal. If the outcome of a decision cannot be applied, it is not written either: the node
        stops."""
        try:
            self._journal.submit(event, now_ms, **options)
        except InvalidMetadata as error:
            self._failed(error)

    def _append(self, records: Sequence[Any], _producer: ProducerEpoch | None, _now_ms: int) -> tuple[int, int]:
        batch = records[0]
        now_ms = self._scheduler.now_ms()
        if self._quorum.epoch != self.epoch:
            raise AppendRefused(error_codes.NOT_CONTROLLER)
        try:
            if isinstance(batch, LargeBatch):
                size_bytes = len(batch.section)
                offsets = self._shell.append_section(batch.section, batch.records, now_ms)
            else:
                level = self._level_for(records)
                encoded = [encode_record(record, record_version(record, level)) for record in records]
                size_bytes = sum(map(len, encoded))
                offsets = self._shell.append(encoded, now_ms)
        except RecordsTooLarge:
            raise BatchTooLarge from None
        except NotLeader:
            raise AppendRefused(error_codes.NOT_CONTROLLER) from None
        self._committed.note_appended(*offsets, records, size_bytes, self.epoch)
        self._committed.last_timestamp_ms = now_ms
        return offsets

    def _level_for(self, records: Sequence[Any]) -> int:
        known = self.state.image.metadata_version
        return known if known is not None else bootstrap_level(records)

    def _token_sweep(self) -> SweepExpiredTokens:
        return SweepExpiredTokens(self._scheduler.now_ms())

    def _repeat(self, make_event: Callable[[], Any], interval_ms: int, next_offset: int) -> None:
        """Feed an event repeatedly; the idle one only if nothing was appended in between. A node that stood still has
        heartbeats to read before it knows which brokers fell silent."""
        due_ms = int(self._scheduler.monotonic_ms()) + interval_ms

        def due() -> None:
            now_ms = int(self._scheduler.monotonic_ms())
            if make_event is FenceStaleBrokers and now_ms - due_ms > interval_ms:
                self.state.heartbeats.stood_still(now_ms - due_ms)
            self._journal.expire(now_ms)
            if make_event is not Idle or self._quorum.next_offset == next_offset:
                self._decide(make_event(), now_ms)
            if not self._is_over:
                self._repeat(make_event, interval_ms, self._quorum.next_offset)

        self._timers[make_event] = self._scheduler.call_later(interval_ms, due)


def _report(failed: DecisionFailed) -> None:
    # Its name only: a request may hold secrets, and whatever else somebody wants to see in this log.
    event = getattr(failed.event, "message", failed.event)
    log.error(
        "The controller could not decide on a %s because of a defect", type(event).__name__, exc_info=failed.error
    )
