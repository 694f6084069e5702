"""A node's metadata, and its controller if it has one: the quorum, the image, and the reigns.

Requests to the controller come in by :meth:`QuorumHost.send`, those of the quorum by :meth:`QuorumHost.asked`; they are
the same messages, whether this process or another node sends them. A node that is no voter, or has no controller at
all, follows the metadata log with the same code, as an observer.

Invariant: no subscriber sees a record before a majority has it on disk, and no reply leaves before that.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.quorum.committed import CommittedRecords
from kpybroker.hosts.quorum.ended_brokers import HeartbeatConnection
from kpybroker.hosts.quorum.leaderless import Leaderless
from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.peers import QuorumPeers, Whereabouts
from kpybroker.hosts.quorum.recovery import Recovered, StartRefused, recover
from kpybroker.hosts.quorum.reign import ControllerParts, CopiedTicket, QueuedCall, Reign, Timings
from kpybroker.hosts.quorum.shell import Outcomes, QuorumShell, Reply
from kpybroker.hosts.quorum.snapshot_writer import SnapshotWriter
from kpybroker.hosts.quorum.snapshotting import DEFAULT_POLICY, SnapshotPolicy
from kpybroker.hosts.quorum.voter_requests import VoterRequests
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpybroker.machines.controller.migration import Copied, left_behind
from kpybroker.machines.controller.state import ControllerRequest
from kpybroker.machines.metadata import features
from kpybroker.machines.metadata.image import KRAFT_VERSION, MetadataImage
from kpybroker.machines.metadata.loader import Subscriber
from kpybroker.machines.raft.description import describe_quorum
from kpybroker.machines.raft.events import SnapshotWritten
from kpybroker.machines.raft.local_state import LocalState, local_state
from kpybroker.machines.raft.log_view import LogView
from kpybroker.machines.raft.messages import OffsetAndEpoch
from kpybroker.machines.raft.quorum import Quorum
from kpybroker.machines.raft.roles import Leader
from kpybroker.machines.raft.timing import DEFAULT_TIMING, Timing
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, VoterHistory
from kpybroker.runtime.calls.call import Call as ClientCall
from kpybroker.runtime.calls.principal import ANONYMOUS, Principal
from kpystorage.errors import DiskFailure
from kpystorage.snapshot import SnapshotId
from kpywire import error_codes
from kpywire.messages.add_raft_voter import AddRaftVoterRequest
from kpywire.messages.describe_quorum import DescribeQuorumRequest
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kpywire.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from kpybroker.hosts.network.peers import Peers
    from kpybroker.hosts.quorum.leader_watch import LeaderWatch
    from kpybroker.runtime.io.scheduler import Scheduler

__all__ = ["QuorumConfig", "QuorumHost", "QuorumIdentity", "Timings"]

log = logging.getLogger("kpybroker.controller")


class QuorumIdentity(NamedTuple):
    """The identity of this node in the quorum."""

    cluster_id: str
    voter: Voter
    static_voters: Sequence[Voter] = ()
    """The voters that ``controller.quorum.voters`` names; none if the log names them."""
    bootstrap_servers: Sequence[tuple[str, int]] = ()
    """``controller.quorum.bootstrap.servers``."""
    listener_name: str = ""
    """The listener for requests to controllers: the first of ``controller.listener.names``."""
    is_controller: bool = True
    """Whether this node may lead; a broker alone only observes."""
    migrates: bool = False
    """Whether it is configured for the migration of a cluster from ZooKeeper (KIP-866)."""
    joins: bool = False
    """Whether it asks to be made a voter (``controller.quorum.auto.join.enable``)."""
    protocols: Mapping[str, int] = MappingProxyType({})
    """The security protocols of listeners, by their names; PLAINTEXT (0) if there is none."""


class QuorumConfig(NamedTuple):
    """The configuration of a node's quorum."""

    timing: Timing = DEFAULT_TIMING
    linger_ms: float = 0
    """``controller.quorum.append.linger.ms``."""
    snapshots: SnapshotPolicy = DEFAULT_POLICY


class QuorumHost:
    """Quorum, controller and published image of one node."""

    def __init__(
        self,
        scheduler: "Scheduler",
        metadata_log: MetadataLog,
        identity: QuorumIdentity,
        parts: ControllerParts,
        config: QuorumConfig,
        peers: "Peers | None",
        failed: Callable[[str], None],
    ) -> None:
        """Reads snapshot and log; blocks, and may raise DiskFailure, Malformed, InvalidMetadata or StartRefused.

        ``peers`` are the quorum's connections to other nodes; without them only a node that is its whole quorum starts.
        ``failed`` is called once with one line if the node cannot go on: its disk failed or an invariant broke.
        """
        self._scheduler = scheduler
        self._controller_parts = parts
        self._failed: Callable[[str], None] | None = failed
        recovered = recover(
            metadata_log,
            identity.cluster_id,
            identity.static_voters,
            parts.bootstrap_records,
            identity.voter if identity.is_controller else None,
            scheduler.now_ms(),
        )
        where = _whereabouts(identity)
        quorum = self._quorum = _quorum(identity, metadata_log, recovered, config.timing, parts.rng, where)
        if _is_lost(quorum) or (peers is None and not quorum.is_only_voter):
            raise StartRefused(_why_not_alone(quorum))
        self._loader = recovered.loader
        self._shell = QuorumShell(
            scheduler,
            metadata_log,
            quorum,
            None if peers is None else QuorumPeers(peers, where, identity.voter.id, recovered.history),
            identity.cluster_id,
            Outcomes(self._quorum_changed, self._disk_failed, self._broken),
            config.linger_ms,
        )
        self._voter_requests = VoterRequests(self._shell, identity.cluster_id, identity.listener_name, peers)
        self._metadata_log = metadata_log
        self._committed = CommittedRecords(
            scheduler, metadata_log, recovered.loader, recovered.loaded_offset, self._published, self._broken
        )
        self._committed.last_timestamp_ms = recovered.last_timestamp_ms
        self._snapshots = SnapshotWriter(
            scheduler,
            metadata_log,
            recovered.history,
            config.snapshots,
            recovered.bytes_since_snapshot,
            self._snapshot_written,
            self._disk_failed,
        )
        self._leaderless = Leaderless(scheduler, lambda: self.controller_id >= 0, lambda: self._shell.troubles)
        self._may_lead = identity.is_controller
        self._leader_watch: LeaderWatch | None = None
        self._reign: Reign | None = None
        self._early_fencings = 0
        """The brokers that earlier reigns fenced before their sessions ended."""
        self._caught_up: Callable[[], object] | None = None
        self._leader_watchers: list[Callable[[], object]] = []
        self._known_leader: tuple[int, VoterEndpoint | None] = (-1, None)

    # The way in and the way out.

    @property
    def image(self) -> MetadataImage:
        """The committed metadata. The object stays the same; its contents change between callbacks."""
        return self._loader.image

    @property
    def is_active(self) -> bool:
        """Whether this node's controller accepts requests."""
        return self._reign is not None

    @property
    def controller_id(self) -> int:
        """The leader of the newest epoch this node knows, -1 for none."""
        return self._quorum.leader_id

    @property
    def leader_endpoint(self) -> VoterEndpoint | None:
        """The endpoint where that leader listens for other nodes; None if unknown."""
        leader_id = self.controller_id
        if leader_id < 0:
            return None
        if self._shell.peers is not None:
            return self._shell.peers.endpoint(leader_id)
        leader = self._quorum.history.voters.get(leader_id)
        return leader.endpoints[0] if leader is not None and leader.endpoints else None

    def when_leader_changes(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` soon after the leader or its endpoint changes, and when this node's controller begins to
        accept requests."""
        self._leader_watchers.append(changed)

    @property
    def kraft_version(self) -> int:
        """The finalised level of ``kraft.version``."""
        return self._quorum.history.kraft_version

    @property
    def voters(self) -> VoterHistory:
        """The voters that the metadata log names, now and later."""
        return self._quorum.history

    @property
    def fetch_timeout_ms(self) -> int:
        """``controller.quorum.fetch.timeout.ms``: a follower hears from its leader within this time."""
        return self._quorum.timing.fetch_timeout_ms

    @property
    def local_state(self) -> LocalState:
        """This node's place in the quorum now."""
        now = 0 if self._reign is None else self._reign.early_fencings
        return local_state(self._quorum)._replace(early_fencings=self._early_fencings + now)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber(image, delta)`` after each committed batch; the first delta covers the whole image."""
        self._loader.subscribe(subscriber)

    def send(
        self,
        request: Any,
        reply: Reply,
        *,
        api_version: int | None = None,
        principal: Principal = ANONYMOUS,
        client_id: str = "",
    ) -> None:
        """Have a request decided; ``reply`` gets the response once it is committed.

        If this node's controller is not active, the response is NOT_CONTROLLER, at once. Requests for the quorum rather
        than for its controller are answered at once.
        """
        if api_version is None:
            api_version = request.VERSIONS[-1]
        if isinstance(request, DescribeQuorumRequest):
            clocks = self._scheduler.monotonic_ms(), self._scheduler.now_ms()
            reply(describe_quorum(self._quorum, request, api_version, *clocks))
            return
        if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest):
            self._voter_requests.asked(request, reply)
            return
        call = QueuedCall(request, api_version, reply)
        if self._reign is None:
            call.fail(error_codes.NOT_CONTROLLER)
        else:
            self._reign.submit(ControllerRequest(call, request, api_version, principal, client_id=client_id))

    def forward(self, request: Any, call: ClientCall, reply: Reply) -> None:
        """Have the request of a client decided, which is authorised already."""
        self.send(
            request, reply, api_version=call.api_version, principal=call.principal, client_id=call.client_id or ""
        )

    def commit_copied(self, records: list[Any], done: Callable[[int | None], object]) -> None:
        """Commit records that were copied from ZooKeeper. ``done`` gets the offset after them, or None if they were not
        written: this node's controller is not active."""
        if self._reign is None:
            done(None)
        else:
            self._reign.submit(ControllerRequest(CopiedTicket(done), Copied(records), 0))

    @property
    def active_epoch(self) -> int | None:
        """The epoch of this node's controller; None while it accepts no requests."""
        return None if self._reign is None else self._reign.epoch

    def heard(self, broker_id: int, broker_epoch: int, connection: HeartbeatConnection) -> None:
        """A heartbeat came over this connection: if the connection closes, the broker may have ended."""
        if self._reign is not None:
            self._reign.heard(BrokerSession(broker_id, broker_epoch), connection)

    def asked(self, message: Any, reply: Reply, listener_name: str) -> None:
        """Handle a request of another node to the quorum, which came by a listener. ``reply`` gets the response,
        possibly later."""
        if isinstance(message, UpdateRaftVoterRequest):
            self._voter_requests.asked(message, reply, listener_name)
        else:
            self._shell.asked(message, reply, listener_name)

    def start(self, caught_up: Callable[[], object] | None = None) -> None:
        """Take part in the quorum.

        ``caught_up`` is called once, when everything that was committed when this node started has been published. If
        the node leads by then, its controller accepts requests.
        """
        self._caught_up = caught_up
        self._shell.start()
        if not self._quorum.is_only_voter:
            self._leaderless.start()
            self._watch_leader()

    def _watch_leader(self) -> None:
        """Watch the leader, as a node that may become the controller."""
        parts = self._controller_parts
        if parts.suspects and parts.connect is not None and self._may_lead:
            from kpybroker.hosts.quorum.leader_watch import LeaderWatch  # not of a plain start

            address = partial(parts.address_in, self.image)
            self._leader_watch = LeaderWatch(self._scheduler, self._quorum, self.image, parts.connect, address)

    def close(self) -> None:
        """Stop; a leader resigns first. Records that were appended but not synced may or may not survive, as after a
        crash."""
        self._failed = None
        self._stop()

    def write_due_snapshot(self) -> None:
        """Called after ``close`` on a clean stop, so that the next start replays little. Blocks; the disk may
        refuse."""
        if self._committed.is_at_rest:
            try:
                self._snapshots.finish(self.image, self._committed.last_timestamp_ms)
            except (DiskFailure, OSError) as error:
                log.warning("No snapshot of the metadata could be written at the stop: %s", error)

    # What follows from what the quorum does.

    def _quorum_changed(self) -> None:
        """The quorum took a step: the leader and the committed offset may have changed."""
        quorum, reign = self._quorum, self._reign
        if reign is not None and (reign.epoch != quorum.epoch or not quorum.is_leader):
            self._end_reign()
        high_watermark = quorum.high_watermark
        if high_watermark is not None and not quorum.log.is_truncating:
            self._committed.advance(min(high_watermark, self._metadata_log.next_offset))
            if self._reign is None and quorum.is_leader:
                self._begin_reign()  # published before this node led
        known = self.controller_id, self.leader_endpoint
        if known != self._known_leader:
            self._known_leader = known
            self._leader_changed()

    def _leader_changed(self) -> None:
        for changed in self._leader_watchers:
            self._scheduler.call_soon(changed)  # what they do is no part of applying the metadata

    def _published(self, next_offset: int, new_bytes: int) -> None:
        """Subscribers have received everything that is committed below an offset."""
        refusal = self._refusal()
        if refusal is not None:
            self._fail(refusal)
            return
        if self._reign is not None:
            self._reign.committed(next_offset)
        elif self._quorum.is_leader:
            self._begin_reign()
        leaders = self._quorum.leaders_high_watermark
        if self._caught_up is not None and leaders is not None and next_offset >= leaders:
            caught_up, self._caught_up = self._caught_up, None
            caught_up()
        self._snapshots.note(self.image, new_bytes, self._committed.last_timestamp_ms)

    def _refusal(self) -> str | None:
        """Explain which feature that this node lacks has been finalised; None if there is none."""
        finalized = self.image.finalized_features
        levels = {**finalized, KRAFT_VERSION: self.kraft_version} if finalized else {}
        refusal = features.refusal(levels)
        return None if refusal is None else f"{refusal} {features.remedy(levels)}"

    def _begin_reign(self) -> None:
        """Begin a reign in this epoch: make the controller from the committed image."""
        leader = self._quorum.role
        committed_offset = self._committed.published_offset
        if not isinstance(leader, Leader) or committed_offset <= leader.epoch_start_offset:
            return
        left = [] if self._controller_parts.settings.migrates_from_zookeeper else left_behind(self.image)
        if left:
            self._fail(
                f"The migration from ZooKeeper cannot be finalised: the brokers {', '.join(map(str, left))} are still "
                "in ZooKeeper mode. Set zookeeper.metadata.migration.enable and zookeeper.connect again, or restart "
                "these brokers as KRaft brokers first"
            )
            return
        self._reign = Reign(
            self._scheduler, self._shell, self._committed, self.image, self._controller_parts, self._broken
        )
        watch = self._leader_watch
        self._reign.begin(committed_offset, None if watch is None else watch.take())
        self._leader_changed()

    def _end_reign(self) -> None:
        reign, self._reign = self._reign, None
        if reign is not None:
            self._committed.forget_appended()
            self._early_fencings += reign.early_fencings
            log.info("This node's controller is no longer active, since epoch %d", self._quorum.epoch)
            reign.end()

    def _snapshot_written(self, snapshot: SnapshotId, start_offset: int) -> None:
        self._shell.step(SnapshotWritten(OffsetAndEpoch(*snapshot), start_offset))

    # The end.

    def _broken(self, error: Exception) -> None:
        """An invariant is broken: it is better to have no controller than a wrong one."""
        if isinstance(error, DiskFailure):
            self._fail(f"The metadata log cannot be read: {error}")
            return
        log.critical("The metadata cannot be applied; this node stops", exc_info=error)
        self._fail(f"The metadata cannot be applied: {error}")

    def _disk_failed(self, error: BaseException) -> None:
        self._fail(f"The metadata log cannot be written: {error}")

    def _fail(self, line: str) -> None:
        failed, self._failed = self._failed, None
        self._stop()
        if failed is not None:
            failed(line)

    def _stop(self) -> None:
        self._shell.stop()
        self._committed.stop()
        self._snapshots.stop()
        self._leaderless.stop()
        if self._leader_watch is not None:
            self._leader_watch.close()
        self._end_reign()


def _quorum(
    identity: QuorumIdentity,
    metadata_log: MetadataLog,
    recovered: Recovered,
    timing: Timing,
    rng: Random,
    where: Whereabouts,
) -> Quorum:
    snapshots = metadata_log.snapshots()
    log_view = LogView(
        metadata_log.next_offset,
        metadata_log.epochs(),
        synced_offset=metadata_log.synced_offset,
        start_offset=metadata_log.start_offset,
        start_epoch=next((each.epoch for each in snapshots if each.end_offset >= metadata_log.start_offset > 0), -1),
        snapshot=OffsetAndEpoch(*snapshots[-1]) if snapshots else None,
        promised=_promised(metadata_log),
    )
    return Quorum(
        identity.voter,
        recovered.history,
        recovered.election,
        log_view,
        timing=timing,
        draw=lambda below: rng.randrange(max(below, 1)),
        bootstrap=where.bootstrap_ids,
        may_vote=identity.is_controller,
    )


def _promised(metadata_log: MetadataLog) -> OffsetAndEpoch | None:
    loss = metadata_log.loss
    return None if loss is None else OffsetAndEpoch(loss.end_offset, max(loss.last_epoch, 0))


def _is_lost(quorum: Quorum) -> bool:
    """Whether the only voter is this node with a disk that it no longer has, so that it can never elect a leader."""
    return list(quorum.history.voters) == [quorum.local.id] and not quorum.is_voter


def _whereabouts(identity: QuorumIdentity) -> Whereabouts:
    return Whereabouts(
        identity.cluster_id, identity.listener_name, identity.voter.endpoints, identity.bootstrap_servers
    )


def _why_not_alone(quorum: Quorum) -> str:
    voters = ", ".join(map(str, quorum.history.voters)) or "none"
    if _is_lost(quorum):
        return (
            f"The metadata log names another directory of node {quorum.local.id} as its voter: this one lost its vote."
        )
    return f"The voters of the metadata log are {voters}; a node can only be the one voter of its quorum."
