"""The shell that runs this node's part of the quorum: files, other nodes, time.

It does what `Ready` asks for, in its order: save `quorum-state`, cut the log or begin it again, append batches, and
then send messages. Meanwhile the log is flushed, and the quorum is informed how far it is durable. The contents of
records are not interpreted here.

Everything runs on the caller's scheduler; threads run fsync, `quorum-state` and snapshot files only.

Invariant: no message is sent before the `quorum-state` it depends on is durable, and records are read for other nodes
from the file only.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.peers import QuorumPeers
from kpybroker.hosts.quorum.snapshot_install import SnapshotInstaller
from kpybroker.machines.raft.events import (
    Answer,
    Answered,
    Asked,
    ElectionPersisted,
    LogSynced,
    LogTruncated,
    Message,
    Ready,
    Send,
    Tick,
    Unanswered,
)
from kpybroker.machines.raft.messages import FetchResponse, FetchSnapshot, FetchSnapshotResponse, Request, Response
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import NEVER, ElectionState
from kpybroker.machines.raft.voters import VoterEndpoint
from kpybroker.machines.raft.wire_form import RefusedRequest, from_wire, refusal, response_to_wire
from kpystorage.errors import CorruptLog, DiskFailure, OffsetOutOfRange
from kpystorage.flush import Flush
from kpystorage.snapshot import SnapshotId
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler, Timer

log = logging.getLogger("kpybroker.controller")

Reply = Callable[[Any], object]
MOST_FETCH_BYTES = 8 << 20
"""The limit of every fetch: a batch of the metadata log is no larger (``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``)."""


class Outcomes(NamedTuple):
    """The callbacks for what may come of the quorum's work."""

    changed: Callable[[], object]
    """The quorum took a step."""
    disk_failed: Callable[[BaseException], object]
    broken: Callable[[Exception], object]
    """An invariant is broken."""


class QuorumShell:
    """One node's quorum while it runs."""

    def __init__(
        self,
        scheduler: "Scheduler",
        metadata_log: MetadataLog,
        quorum: Quorum,
        peers: QuorumPeers | None,
        cluster_id: str,
        outcomes: Outcomes,
        linger_ms: float = 0,
    ) -> None:
        """``peers`` is None for a node that is its whole quorum.

        ``linger_ms`` is how long an append waits for others to be written with it; 0 for one turn of the loop.
        """
        self.quorum = quorum
        self.peers = peers
        self._scheduler = scheduler
        self._log = metadata_log
        self._cluster_id = cluster_id
        self._changed, self._disk_failed, self._broken = outcomes
        self._linger_ms = linger_ms
        self._installer = SnapshotInstaller(scheduler, metadata_log, self.step, outcomes.disk_failed)
        self._is_stopping = self._is_stopped = self._is_saving = self._is_flushing = False
        self._pump_wanted = self._prune_wanted = False
        self._linger: Timer | None = None
        self._tick: Timer | None = None
        self._tick_ms = NEVER

    def start(self) -> None:
        """Take part."""
        self.quorum.start(self._scheduler.monotonic_ms())
        self._wake()
        if not self.quorum.is_only_voter and self._log.synced_offset < self._log.next_offset:
            self._flush()

    def step(self, message: Message) -> None:
        """Pass a message to the quorum, and report the outcome."""
        if self._is_stopped:
            return
        role = self.quorum.role
        try:
            self.quorum.step(message, self._scheduler.monotonic_ms(), self._scheduler.now_ms())
            if self.quorum.role is not role:
                election = self.quorum.role.election
                name = type(self.quorum.role).__name__.lower()
                log.debug("This node is %s in epoch %d, led by %d", name, election.epoch, election.leader_id)
            self._changed()
        except Exception as error:
            self._end(error)
            return
        self._wake()
        if self.peers is not None and not self._prune_wanted and self.peers.is_stale(self.quorum.leader_id):
            self._prune_wanted = True
            self._scheduler.call_soon(self._prune)  # what is not answered any more is another step

    def asked(self, message: Any, reply: Reply, listener_name: str) -> None:
        """Handle a request of another node, which came by a listener. It is answered now or later, or not at all once
        this node has stopped."""
        request = from_wire(message, self._cluster_id)
        if isinstance(request, RefusedRequest):
            reply(refusal(message, request))
            return
        if self.peers is not None:
            self.peers.learn(message)
        self.ask(message, request, reply, listener_name)

    def ask(self, message: Any, request: Request, reply: Reply, listener_name: str = "") -> None:
        """Like `asked`, for a request in the quorum's form. Without a listener the answer names no endpoint."""
        self.step(Asked((message, reply, listener_name), request))

    @property
    def troubles(self) -> Mapping[str, str]:
        """The known problems at the addresses where other nodes of the quorum should listen."""
        return {} if self.peers is None else self.peers.troubles

    def endpoint(self, node_id: int, listener_name: str) -> VoterEndpoint | None:
        """The endpoint of a listener of a node of the quorum, as far as is known."""
        return None if self.peers is None else self.peers.endpoint_of(node_id, listener_name)

    def monotonic_ms(self) -> float:
        """The clock of the quorum."""
        return self._scheduler.monotonic_ms()

    def append(self, records: Sequence[bytes], timestamp_ms: int) -> tuple[int, int]:
        """Append one batch as the leader; return its offsets. Raises NotLeader, RecordsTooLarge."""
        offsets = self.quorum.append(records, timestamp_ms)
        self._wake_after_append()
        return offsets

    def append_section(self, section: bytes, count: int, timestamp_ms: int) -> tuple[int, int]:
        """Like `append`, for the section of a batch."""
        offsets = self.quorum.append_section(section, count, timestamp_ms)
        self._wake_after_append()
        return offsets

    def stop(self) -> None:
        """Give up leadership, and do nothing any more.

        Records that were appended but not synced may or may not survive, as after a crash.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        self.quorum.resign()
        self._pump()  # the others learn of it at once
        self._is_stopped = True
        for timer in (self._tick, self._linger):
            if timer is not None:
                timer.cancel()
        if self.peers is not None:
            self._scheduler.call_soon(self.peers.close)

    # What is to be done.

    def _wake(self) -> None:
        if not self._pump_wanted and not self._is_saving:
            self._pump_wanted = True
            self._scheduler.call_soon(self._pump)

    def _wake_after_append(self) -> None:
        if self._linger_ms <= 0:
            self._wake()
        elif self._linger is None:
            self._linger = self._scheduler.call_later(self._linger_ms, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._wake()

    def _pump(self) -> None:
        self._pump_wanted = False
        if self._is_saving or self._is_stopped:
            return
        try:
            ready = self.quorum.ready()
            if ready is None:
                self._arm()
            elif ready.election is None:
                self._carry_out(ready)
            else:
                self._save(ready.election, ready)
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        """End the shell because the quorum cannot go on: no node is better than a silent one."""
        if isinstance(error, DiskFailure | OSError) and not isinstance(error, CorruptLog):
            self._disk_failed(error)
        else:
            self._broken(error)

    def _save(self, election: ElectionState, ready: Ready) -> None:
        self._is_saving = True
        history = self.quorum.history
        kraft_version, voters = history.kraft_version, sorted(history.voters)

        def save() -> None:
            self._log.write_election(election, kraft_version, voters)

        def saved(_result: None, error: BaseException | None) -> None:
            self._is_saving = False
            if error is not None:
                self._disk_failed(error)
                return
            try:
                if not self._is_stopped and self._carry_out(ready):
                    self.step(ElectionPersisted(election))
            except Exception as failure:
                self._end(failure)

        self._scheduler.submit_urgent(save, saved)

    def _carry_out(self, ready: Ready) -> bool:
        """Carry out everything but the saving of the election. Return False if this node has stopped. Raises the log's
        errors."""
        now_ms = self._scheduler.now_ms()
        if ready.truncate_to is not None:
            self._log.truncate_to(ready.truncate_to, now_ms)
        if ready.start_at is not None:
            self._log.start_at(ready.start_at, now_ms)
        if ready.batches:
            self._log.append(ready.batches, now_ms)
        was_cut = ready.truncate_to is not None or ready.start_at is not None
        if was_cut:
            self.step(LogTruncated())
        if was_cut or ready.batches:
            self._flush()
        for part in ready.snapshot_parts:
            self._installer.take(part)
        for outgoing in ready.outgoing:
            if self._is_stopped:
                return False
            if isinstance(outgoing, Send):
                self._send(outgoing)
            else:
                self._answer(outgoing)
        if ready.batches:
            self._file_grew()
        self._wake()
        return not self._is_stopped

    def _file_grew(self) -> None:
        """Records that were just written may be known to be committed: tell the host of a follower."""
        if not self.quorum.is_leader and not self._is_stopped:
            try:
                self._changed()
            except Exception as error:
                self._end(error)

    # What is said.

    def _prune(self) -> None:
        self._prune_wanted = False
        if self.peers is not None and not self._is_stopped:
            self.peers.prune(self.quorum.leader_id)

    def _send(self, outgoing: Send) -> None:
        def answered(response: Response | None, *, is_gone: bool = False) -> None:
            if response is None:
                self.step(Unanswered(outgoing.node_id, outgoing.request, is_gone))
            else:
                self.step(Answered(outgoing.node_id, outgoing.request, response))

        if self.peers is None or not self.peers.send(outgoing.node_id, outgoing.request, answered):
            self._scheduler.call_soon(answered, None)

    def _answer(self, outgoing: Answer) -> None:
        message, reply, listener_name = outgoing.ticket
        response, records = outgoing.response, None
        if isinstance(outgoing.read_from, FetchSnapshot):
            assert isinstance(response, FetchSnapshotResponse)
            response = self._read_snapshot(response, outgoing.read_from)
        elif outgoing.read_from is not None:
            assert isinstance(response, FetchResponse)
            try:
                records = self._log.read(outgoing.read_from, max(min(message.max_bytes, MOST_FETCH_BYTES), 0))
            except OffsetOutOfRange:
                response = self._not_there(response, outgoing.read_from)
        leader_id = response.known.leader_id
        endpoint = self.endpoint(leader_id, listener_name)
        endpoints: dict[int, VoterEndpoint] = {} if endpoint is None else {leader_id: endpoint}
        try:
            reply(response_to_wire(message, response, endpoints, records))
        except Exception:
            log.exception(
                "A %s could not be answered because of a defect; the node that sent it will ask again",
                type(message).__name__,
            )

    def _not_there(self, response: FetchResponse, offset: int) -> FetchResponse:
        """A snapshot replaced the records between the decision to send them and the read."""
        snapshot = self.quorum.log.snapshot
        if snapshot is not None and offset < self._log.start_offset:
            return response._replace(snapshot=snapshot)
        return response._replace(known=response.known._replace(error_code=error_codes.OFFSET_OUT_OF_RANGE))

    def _read_snapshot(self, response: FetchSnapshotResponse, asked: FetchSnapshot) -> FetchSnapshotResponse:
        try:
            found = self._log.read_snapshot_part(SnapshotId(*asked.snapshot), asked.position, asked.max_bytes)
        except OSError as error:
            self._disk_failed(error)
            found = None
        if found is None:
            return response._replace(known=response.known._replace(error_code=error_codes.SNAPSHOT_NOT_FOUND))
        size_bytes, data = found
        if not 0 <= asked.position < size_bytes:
            return response._replace(known=response.known._replace(error_code=error_codes.POSITION_OUT_OF_RANGE))
        return response._replace(size_bytes=size_bytes, data=data)

    # Durability.

    def _flush(self) -> None:
        if self._is_flushing or self._is_stopped:
            return
        try:
            flush = self._log.begin_flush()
        except DiskFailure as error:
            self._disk_failed(error)
            return
        if flush is not None:
            self._is_flushing = True
            self._scheduler.submit_urgent(flush.run, lambda _, error: self._flushed(flush, error))
        elif self._log.synced_offset < self._log.next_offset:
            self._scheduler.call_later(1, self._flush)  # somebody else is at it, with less
        else:
            self.step(LogSynced(self._log.synced_offset))

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        self._is_flushing = False
        if isinstance(error, OSError):
            self._log.fail(error)  # after the end of the shell as well: the stop is not a clean one then
        if self._is_stopped:
            return
        try:
            if error is not None:
                raise error
            self._log.finish_flush(flush)
        except Exception as failure:
            self._disk_failed(failure)
            return
        self.step(LogSynced(self._log.synced_offset))
        if self._log.synced_offset < self._log.next_offset:
            self._flush()

    # Time.

    def _arm(self) -> None:
        """Set a timer for the quorum's next deadline."""
        due_ms = self.quorum.deadline_ms
        if due_ms >= self._tick_ms:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._tick_ms = due_ms
        delay_ms = ceil(max(due_ms - self._scheduler.monotonic_ms(), 0))
        self._tick = self._scheduler.call_later(delay_ms, self._ticked)

    def _ticked(self) -> None:
        self._tick, self._tick_ms = None, NEVER
        self.step(Tick())
