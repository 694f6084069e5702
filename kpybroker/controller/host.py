"""The shell that runs quorum, controller and image over the metadata log of this node.

It does what the pure parts ask for: writes and syncs the log, feeds the journal, publishes what is committed.
Requests come in by :meth:`ControllerHost.send`, the way a broker of the same process has to its controller; they are
the same messages that remote brokers send. All requests of one loop turn share one write and one fsync.

Everything runs on the caller's scheduler; threads run fsync and snapshot files only.

Invariant: no reply leaves and no subscriber sees a record before the log that holds it is durable.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.controller.activation import bootstrap_level
from kpybroker.controller.config_rules import ConfigRules
from kpybroker.controller.controller import (
    Activate,
    Controller,
    ElectPreferredLeaders,
    ElectUncleanLeaders,
    FenceStaleBrokers,
    Idle,
)
from kpybroker.controller.decisions import Decisions
from kpybroker.controller.error_responses import plain_error_response
from kpybroker.controller.large_batch import LargeBatch
from kpybroker.controller.metadata_log import MetadataLog
from kpybroker.controller.recovery import StartRefused, recover
from kpybroker.controller.snapshot_writer import SnapshotWriter
from kpybroker.controller.snapshotting import DEFAULT_POLICY, SnapshotPolicy
from kpybroker.controller.state import ControllerRequest, ControllerState, Settings
from kpybroker.journal import AppendRefused, BatchTooLarge, DecisionFailed, Journal, ProducerEpoch
from kpybroker.metadata.features import SUPPORTED
from kpybroker.metadata.image import InvalidMetadata, MetadataImage
from kpybroker.metadata.image_records import record_version
from kpybroker.metadata.loader import Subscriber
from kpybroker.raft.description import describe_quorum
from kpybroker.raft.errors import NotLeader, RecordsTooLarge
from kpybroker.raft.events import ElectionPersisted, LogSynced, Ready
from kpybroker.raft.log_view import log_view
from kpybroker.raft.quorum import Quorum
from kpybroker.raft.voters import Voter, VoterEndpoint
from kpystorage.errors import DiskFailure
from kpystorage.flush import Flush
from kpywire import error_codes
from kpywire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from kpywire.messages.describe_quorum import DescribeQuorumRequest
from kpywire.metadata_records import encode_record
from kpywire.uuid import UUID_BYTES

if TYPE_CHECKING:
    from kpybroker.io.scheduler import Scheduler, Timer

log = logging.getLogger("kpybroker.controller")

Reply = Callable[[Any], object]


class Timings(NamedTuple):
    """How often the controller does what nobody asks it for; 0 is never."""

    max_idle_interval_ms: int = 500
    fence_interval_ms: int = 1_125
    preferred_election_interval_ms: int = 300_000
    unclean_election_interval_ms: int = 300_000


DEFAULT_TIMINGS = Timings()


class Identity(NamedTuple):
    """Who this node is in the quorum."""

    cluster_id: str
    voter: Voter
    static_voters: Sequence[Voter] = ()
    """The voters that ``controller.quorum.voters`` names; none if the log names them."""


class _Call:
    """A request with the way back."""

    __slots__ = ("_api_version", "_reply", "_request")

    def __init__(self, request: Any, api_version: int, reply: Reply) -> None:
        self._request = request
        self._api_version = api_version
        self._reply = reply

    def answer(self, message: Any) -> None:
        self._reply(message)

    def fail(self, error_code: int) -> None:
        self._reply(plain_error_response(self._request, self._api_version, error_code))


class ControllerHost:
    """Quorum, controller and published image of one node."""

    def __init__(
        self,
        scheduler: "Scheduler",
        metadata_log: MetadataLog,
        identity: Identity,
        settings: Settings,
        rules: ConfigRules,
        rng: Random,
        *,
        bootstrap_records: Sequence[Any] = (),
        timings: Timings = DEFAULT_TIMINGS,
        snapshot_policy: SnapshotPolicy = DEFAULT_POLICY,
        failed: Callable[[str], None],
    ) -> None:
        """Reads snapshot and log; blocks, and may raise DiskFailure, Malformed, InvalidMetadata or StartRefused.

        ``bootstrap_records`` are written to an empty log. ``failed`` is called once with one line if the node cannot
        go on: its disk failed or an invariant broke.
        """
        self._scheduler = scheduler
        self._log = metadata_log
        self._settings = settings
        self._rules = rules
        self._rng = rng
        self._timings = timings
        self._bootstrap_records = list(bootstrap_records)
        self._failed: Callable[[str], None] | None = failed
        recovered = recover(metadata_log, identity.cluster_id, identity.static_voters, bootstrap_records)
        self._loader = recovered.loader
        self._quorum = Quorum(
            identity.voter,
            recovered.history,
            recovered.election,
            log_view(metadata_log.next_offset, max(metadata_log.last_epoch, recovered.loader.image.epoch)),
        )
        if not self._quorum.is_only_voter:
            raise StartRefused(_why_not_alone(self._quorum))
        self._snapshots = SnapshotWriter(
            scheduler,
            metadata_log,
            recovered.history,
            snapshot_policy,
            recovered.bytes_since_snapshot,
            self._disk_failed,
        )
        self._state: ControllerState | None = None
        self._journal: Journal | None = None
        self._decisions: Decisions | None = None
        self._early: deque[ControllerRequest] = deque()
        self._appended: deque[tuple[int, Sequence[Any], int]] = deque()
        self._is_publishing = False
        self._unnoted_bytes = 0
        self._last_append_ms = recovered.last_timestamp_ms
        self._busy = False
        self._pump_wanted = False
        self._activated: Callable[[], None] | None = None
        self._timers: dict[type, Timer] = {}
        self._leader_watchers: list[Callable[[], object]] = []

    # The way in and the way out.

    @property
    def image(self) -> MetadataImage:
        """The committed metadata. The object stays the same; what is in it changes between callbacks."""
        return self._loader.image

    @property
    def is_active(self) -> bool:
        """Whether this node's controller takes requests."""
        return self._journal is not None and self._journal.is_open

    @property
    def controller_id(self) -> int:
        """The node whose controller is active, -1 when this node knows of none."""
        return self._quorum.role.election.leader_id

    @property
    def leader_endpoint(self) -> VoterEndpoint | None:
        """Where that controller listens for other nodes; None when this node knows of none, or it listens to nobody."""
        leader = self._quorum.history.voters.get(self.controller_id)
        return leader.endpoints[0] if leader is not None and leader.endpoints else None

    def when_leader_changes(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` whenever either of them is another."""
        self._leader_watchers.append(changed)

    @property
    def kraft_version(self) -> int:
        """The finalised level of ``kraft.version``."""
        return self._quorum.history.kraft_version

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber(image, delta)`` after each committed batch; first with all there is, on activation."""
        self._loader.subscribe(subscriber)

    def send(
        self, request: Any, reply: Reply, *, api_version: int | None = None, principal: str = "User:ANONYMOUS"
    ) -> None:
        """Have a request decided; ``reply`` gets the response once it is durable. Waits for a controller to start.

        What is asked of the quorum, not of its controller, is answered at once.
        """
        if api_version is None:
            api_version = request.VERSIONS[-1]
        if isinstance(request, DescribeQuorumRequest):
            reply(describe_quorum(self._quorum, request, api_version, self._scheduler.now_ms()))
            return
        call = _Call(request, api_version, reply)
        controller_request = ControllerRequest(call, request, api_version, principal)
        if self._journal is None and self._failed is not None:
            self._early.append(controller_request)
        else:
            self._submit(controller_request)

    def start(self, activated: Callable[[], None] | None = None) -> None:
        """Stand for election; ``activated`` is called when the controller takes requests."""
        self._activated = activated
        self._quorum.start(self._scheduler.now_ms())
        self._wake()

    def close(self) -> None:
        """Stop deciding. What was appended but not synced may or may not survive, as after a crash."""
        self._failed = None
        self._stop()

    # Deciding.

    def _submit(self, request: ControllerRequest) -> None:
        call: _Call = request.ticket
        if self._decisions is None:
            call.fail(error_codes.NOT_CONTROLLER)
        else:
            self._decisions.ask(request)

    def _decide(self, event: Any, now_ms: int, **options: Any) -> None:
        """Feed the journal. If what was decided cannot be applied, it is not written either: the node stops."""
        assert self._journal is not None
        try:
            self._journal.submit(event, now_ms, **options)
        except InvalidMetadata as error:
            self._broken(error)

    def _append(self, records: Sequence[Any], _producer: ProducerEpoch | None, _now_ms: int) -> tuple[int, int]:
        batch = records[0]
        now_ms = self._last_append_ms = self._scheduler.now_ms()
        try:
            if isinstance(batch, LargeBatch):
                size_bytes = len(batch.section)
                offsets = self._quorum.append_section(batch.section, batch.records, now_ms)
            else:
                level = self._level_for(records)
                encoded = [encode_record(record, record_version(record, level)) for record in records]
                size_bytes = sum(map(len, encoded))
                offsets = self._quorum.append(encoded, now_ms)
        except RecordsTooLarge:
            raise BatchTooLarge from None
        except NotLeader:
            raise AppendRefused(error_codes.NOT_CONTROLLER) from None
        self._appended.append((offsets[0], records, size_bytes))
        self._wake()
        return offsets

    def _level_for(self, records: Sequence[Any]) -> int:
        assert self._state is not None
        known = self._state.image.metadata_version
        return known if known is not None else bootstrap_level(records)

    # Making things durable, one write at a time.

    def _wake(self) -> None:
        if not self._pump_wanted and not self._busy:
            self._pump_wanted = True
            self._scheduler.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_wanted = False
        ready = self._quorum.ready()
        if ready is None or self._busy:
            return
        self._busy = True
        election = ready.election
        if election is None:
            self._write(ready)
            return
        kraft_version, voters = self.kraft_version, sorted(self._quorum.history.voters)

        def persist() -> None:
            self._log.write_election(election, kraft_version, voters)

        def persisted(_result: None, error: BaseException | None) -> None:
            if error is not None:
                self._disk_failed(error)
                return
            self._quorum.step(ElectionPersisted(election), self._scheduler.now_ms())
            self._write(ready)

        self._scheduler.submit_blocking(persist, persisted)

    def _write(self, ready: Ready) -> None:
        if not ready.batches:
            self._idle_again()
            return
        try:
            self._log.append(ready.batches, self._scheduler.now_ms())
        except DiskFailure as error:
            self._disk_failed(error)
            return
        self._flush()

    def _flush(self) -> None:
        if not self._quorum.is_leader:
            return
        try:
            flush = self._log.begin_flush()
        except DiskFailure as error:
            self._disk_failed(error)
            return
        if flush is not None:
            self._scheduler.submit_blocking(flush.run, lambda _, error: self._flushed(flush, error))
        elif self._log.synced_offset < self._log.next_offset:
            self._scheduler.call_later(1, self._flush)  # somebody else is at it, with less
        else:
            self._synced()

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        if not self._quorum.is_leader:
            return
        if isinstance(error, OSError):
            self._log.fail(error)
        try:
            if error is not None:
                raise error
            self._log.finish_flush(flush)
        except Exception as failure:
            self._disk_failed(failure)
            return
        self._synced()

    def _synced(self) -> None:
        """What was appended is durable; what follows from it follows now."""
        self._quorum.step(LogSynced(self._log.synced_offset), self._scheduler.now_ms())
        try:
            self._advance()
        except Exception as error:
            self._broken(error)
            return
        self._idle_again()

    def _idle_again(self) -> None:
        self._busy = False
        self._wake()

    # What follows from a higher high watermark.

    def _advance(self) -> None:
        high_watermark = self._quorum.high_watermark
        if high_watermark is None:
            return
        if self._journal is None:
            self._activate(high_watermark)
            return
        if self._is_publishing:
            return  # a large batch, behind which it goes on
        while self._appended and self._appended[0][0] < high_watermark:
            first_offset, records, size_bytes = self._appended.popleft()
            self._unnoted_bytes += size_bytes
            if isinstance(records[0], LargeBatch):
                self._is_publishing = True
                self._scheduler.in_pieces(self._publish(records[0], first_offset))
                return
            self._loader.load(records, first_offset, self._quorum.epoch)
        self._loader.publish(high_watermark)
        self._journal.committed(high_watermark, int(self._scheduler.monotonic_ms()))
        new_bytes, self._unnoted_bytes = self._unnoted_bytes, 0
        self._snapshots.note(self.image, new_bytes, self._last_append_ms)

    def _publish(self, batch: LargeBatch, first_offset: int) -> Iterator[None]:
        """Publish a large batch unit by unit, and then what was committed meanwhile."""
        try:
            yield from self._loader.publish_units(batch.units, first_offset, self._quorum.epoch)
            self._is_publishing = False
            if self._failed is not None:
                self._advance()
        except Exception as error:
            self._broken(error)

    def _activate(self, high_watermark: int) -> None:
        """This epoch has begun: the controller comes to be from what is committed."""
        self._loader.publish(high_watermark)
        self._state = ControllerState(
            self.image.copy(),
            self._settings,
            self._rules,
            self._rng,
            lambda: self._quorum.next_offset,
            self.kraft_version,
            int(self._scheduler.monotonic_ms()),
        )
        controller = Controller(self._state)
        self._journal = Journal(controller, self._append, closed_error=error_codes.NOT_CONTROLLER, report=_report)
        self._decisions = Decisions(self._scheduler, controller, self._decide, self._broken)
        self._journal.open(high_watermark, high_watermark)
        self._decide(Activate(self._bootstrap_records), int(self._scheduler.monotonic_ms()))
        self.send(self._registration(), lambda _response: None)
        log.info("This node's controller is active in epoch %d", self._quorum.epoch)
        for changed in self._leader_watchers:
            changed()
        for event, interval_ms in (
            (FenceStaleBrokers(), self._timings.fence_interval_ms),
            (Idle(), self._timings.max_idle_interval_ms),
            (ElectPreferredLeaders(), self._timings.preferred_election_interval_ms),
            (ElectUncleanLeaders(), self._timings.unclean_election_interval_ms),
        ):
            if interval_ms > 0:
                self._repeat(event, interval_ms, self._quorum.next_offset)
        while self._early:
            self._submit(self._early.popleft())
        if self._activated is not None:
            self._activated()

    def _registration(self) -> ControllerRegistrationRequest:
        """This controller's own registration, new with every start as Kafka's are."""
        local = self._quorum.local
        return ControllerRegistrationRequest(
            controller_id=local.id,
            incarnation_id=self._rng.randbytes(UUID_BYTES),
            zk_migration_ready=False,
            listeners=[
                Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port, security_protocol=0)
                for endpoint in local.endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
                for name, levels in SUPPORTED.items()
            ],
        )

    def _repeat(self, event: Any, interval_ms: int, next_offset: int) -> None:
        """Feed an event again and again; the idle one only if nothing was appended in between."""

        def due() -> None:
            if self._journal is None:
                return
            now_ms = int(self._scheduler.monotonic_ms())
            self._journal.expire(now_ms)
            if not isinstance(event, Idle) or self._quorum.next_offset == next_offset:
                self._decide(event, now_ms)
            if self._failed is not None:
                self._repeat(event, interval_ms, self._quorum.next_offset)

        self._timers[type(event)] = self._scheduler.call_later(interval_ms, due)

    # The end.

    def _broken(self, error: Exception) -> None:
        """An invariant does not hold: better no controller than one that lies."""
        log.critical("The metadata cannot be applied", exc_info=error)
        self._fail(f"The metadata cannot be applied: {error}")

    def _disk_failed(self, error: BaseException) -> None:
        self._fail(f"The metadata log cannot be written: {error}")

    def _fail(self, line: str) -> None:
        failed, self._failed = self._failed, None
        self._stop()
        if failed is not None:
            failed(line)

    def _stop(self) -> None:
        self._quorum.resign()
        self._snapshots.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._journal is not None:
            self._journal.drop(error_codes.NOT_CONTROLLER)
        if self._decisions is not None:
            self._decisions.close()
        while self._early:
            self._early.popleft().ticket.fail(error_codes.NOT_CONTROLLER)


def _why_not_alone(quorum: Quorum) -> str:
    voters = ", ".join(map(str, quorum.history.voters)) or "none"
    if quorum.local.id in quorum.history.voters and len(quorum.history.voters) == 1:
        return (
            f"The metadata log names another directory of node {quorum.local.id} as its voter: this one lost its vote."
        )
    return f"The voters of the metadata log are {voters}; a node can only be the one voter of its quorum."


def _report(failed: DecisionFailed) -> None:
    # Its name only: a request may hold secrets, and whatever else somebody wants to see in this log.
    event = getattr(failed.event, "message", failed.event)
    log.error("A defect kept the controller from deciding on a %s", type(event).__name__, exc_info=failed.error)
