"""How the nodes of a simulated cluster are configured and formatted: alone, or as a quorum of fixed voters or not.

The formatting is the production's. Nothing here is about what happens later.
"""

from random import Random
from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.formatter import Formatting, format_directories, parse_initial_controllers
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpystorage.disk import Disk

from .beating import SESSION_MS
from .client import PORT
from .compacted_tier import SETTINGS as COMPACTED_TIER
from .deliveries import LOCK_MS
from .identities import SUPER_USERS
from .kind import BOTH, BROKER, CONSUMER, CONTROLLER, STREAMS, Kind

if TYPE_CHECKING:
    from .world import World

DIRECTORY = "/data"
SECOND_DIRECTORY = "/more"
DIRECTORIES = (DIRECTORY, SECOND_DIRECTORY)
"""Only slow disks have the second one."""
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"
CONTROLLER_PORT = 9093
START_MS = 1_790_000_000_000
COORDINATOR_PARTITIONS = 2
"""The partitions of the topic of each kind of coordinator."""
COPY_DEADLINE_MS = 1_500
"""The longest time that a copy to the store may take."""
QUOTA_WINDOWS = 3
"""Few, so that a client is soon above its quota."""
COMMON = {
    "kpybroker.http.listener": "",
    "kpybroker.loop.lag.warn.ms": "0",
    "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "controller.listener.names": "CONTROLLER",
    "initial.broker.registration.timeout.ms": "3600000",  # nobody starts again who gave up
    "log.dirs": DIRECTORY,
}


QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "500",
    "controller.quorum.request.timeout.ms": "500",
    "replica.lag.time.max.ms": "800",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "replica.socket.timeout.ms": "1000",
    "request.timeout.ms": "2000",
}
"""So that much happens in little time; patience is not what is tested here."""


SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "6000",
}
"""So that who was away for a while finds that the log begins behind where its own ends."""


CHANGING = {
    "group.min.session.timeout.ms": "100",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
}
"""The settings of a world where more happens than nodes that come and go."""


GUARDED = {
    **SNAPSHOTS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": SUPER_USERS,
    "quota.window.num": str(QUOTA_WINDOWS),
    "controller.quota.window.num": str(QUOTA_WINDOWS),
}
"""The settings of a world with an authorizer and client quotas."""


LENDING = {"log.cleaner.backoff.ms": "200"}
"""The settings of a world whose topics are compacted while they are read."""


SLOW = {"log.dirs": ",".join(DIRECTORIES), "metadata.log.dir": DIRECTORY}
"""The settings of a world whose disks are slow."""


BEATING = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.assignment.interval.ms": "100",
}
"""The settings of a world with a group of the consumer protocol."""


STREAMING = {
    "group.streams.min.heartbeat.interval.ms": "50",
    "group.streams.heartbeat.interval.ms": "100",
    "group.streams.min.session.timeout.ms": str(SESSION_MS),
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.assignment.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "200",
    "group.streams.num.standby.replicas": "1",
}
"""The settings of a world with a streams group."""


SHARING = {
    "group.share.min.heartbeat.interval.ms": "50",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.assignment.interval.ms": "100",
    "group.share.initialize.retry.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "share.coordinator.write.timeout.ms": "1000",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.prune.interval.ms": "500",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1500",
}
"""The settings of a world with a share group. Its states have snapshots, and their logs are cut, every little while."""


TIERING = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "kpybroker.remote.store": "memory:",
    "kpybroker.remote.copy.deadline.ms": str(COPY_DEADLINE_MS),
    "kpybroker.remote.sweep.interval.ms": "700",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
}
"""The settings of a world with tiered topics."""


class Layout:
    """The configuration of every node, by its id."""

    def __init__(self, world: "World", kind: Kind) -> None:
        self.kind = kind
        ids = self.ids = list(kind.roles)
        self.voters = list(kind.voters)
        self.rng: Random = world.stream("layout")
        self.is_alone = len(ids) == 1
        self.has_fixed_voters = self.rng.random() < 0.5 and not kind.changes_voters
        self.flushes_every_message = self.rng.random() < 0.5
        self._directories = {node_id: f"AAAAAAAAQACAAAAAAA{node_id:03d}A" for node_id in ids}
        own = self._quorum()
        if not kind.is_plain or kind.lends or kind.tiers:
            own |= CHANGING
        if kind.lends:
            own |= LENDING
        if kind.is_slow:
            own |= SLOW
        if kind.tiers:
            own = {**TIERING, **COMPACTED_TIER, "follower.fetch.last.tiered.offset.enable": _maybe(world), **own}
        own |= {CONSUMER: BEATING, STREAMS: STREAMING}.get(kind.protocol, {})
        if kind.shares:
            own |= SHARING
        self.is_quick = not self.is_alone and self.rng.random() < 0.8
        if self.is_quick:
            election_ms = self.rng.choice((20, 300))  # nodes that stand at the same time
            own |= {
                **QUICK,
                "controller.quorum.election.timeout.ms": str(election_ms),
                "controller.quorum.election.backoff.max.ms": str(election_ms),
                "replica.lag.time.max.ms": world.stream("lag").choice(("300", QUICK["replica.lag.time.max.ms"])),
            }
        if world.stream("snapshots").random() < 0.5:
            own |= SNAPSHOTS
        if kind.is_guarded:
            own |= GUARDED
        if self.flushes_every_message:
            own["log.flush.interval.messages"] = "1"
        self.settings = {node_id: {**COMMON, **own, **self._of(node_id)} for node_id in ids}

    def _quorum(self) -> dict[str, str]:
        if self.is_alone:
            return {}
        replicas = str(min(len(set(self.kind.brokers) - set(self.kind.late)), 3))
        topics = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        factors = {f"{topic}.replication.factor": replicas for topic in topics}
        factors["transaction.state.log.min.isr"] = "2"
        if self.kind.tiers:
            factors["rlmm.config.remote.log.metadata.topic.replication.factor"] = replicas
            factors["rlmm.config.remote.log.metadata.topic.min.isr"] = str(min(2, int(replicas)))
        if self.has_fixed_voters:
            voters = ",".join(f"{node_id}@n{node_id}:{CONTROLLER_PORT}" for node_id in self.voters)
            return {**factors, "controller.quorum.voters": voters}
        servers = ",".join(f"n{node_id}:{CONTROLLER_PORT}" for node_id in self.voters)
        return {**factors, "controller.quorum.bootstrap.servers": servers}

    def _of(self, node_id: int) -> dict[str, str]:
        own = f"PLAINTEXT://n{node_id}:{PORT}"
        if self.is_alone:
            return {"node.id": str(node_id), "listeners": own, "advertised.listeners": own}
        controller = f"CONTROLLER://n{node_id}:{CONTROLLER_PORT}"
        role = self.kind.roles[node_id]
        listeners = {BROKER: own, CONTROLLER: controller, BOTH: f"{own},{controller}"}[role]
        return {
            "node.id": str(node_id),
            "process.roles": role,
            "listeners": listeners,
            "advertised.listeners": listeners,
        }

    def format(self, node_id: int, disk: Disk) -> None:
        """Prepare an empty disk, as ``kpybroker format`` does; a node that is alone does so itself."""
        if self.is_alone:
            return
        config = BrokerConfig.load(None, dict(self.settings[node_id]))
        voters = None
        if not self.has_fixed_voters and node_id in self.voters:
            each = ",".join(f"{i}@n{i}:{CONTROLLER_PORT}:{self._directories[i]}" for i in self.voters)
            voters = parse_initial_controllers(each, "CONTROLLER")
        levels = choose_levels(self.kind.release or None, {}, dynamic_quorum=not self.has_fixed_voters)
        paths = list(DIRECTORIES if self.kind.is_slow else DIRECTORIES[:1])
        formatting = Formatting(CLUSTER_ID, config.node_id, paths, DIRECTORY, levels, voters)
        for _line in format_directories(disk, formatting, self.rng, START_MS):
            pass


def _maybe(world: "World") -> str:
    return world.stream("last tiered").choice(("true", "false"))
