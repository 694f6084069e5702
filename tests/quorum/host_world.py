"""A node's controller on a disk in memory, with time that moves only when told to."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from controller_world import ControllerWorld, topic_request

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.quorum.first_start import NodeIdentity, identify, standalone_voters
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.hosts.quorum.host import QuorumConfig, QuorumHost, QuorumIdentity, Timings
from kpybroker.hosts.quorum.membership import QuorumMembership
from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.reign import ControllerParts
from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy
from kpybroker.machines.controller.state import StaticSettings
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.node.assembly.quorum import token_settings
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.directory import LogDirectory
from kpystorage.disk import Disk
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.messages.create_topics import CreateTopicsRequest

PATH = "/node/data"
QUIET = Timings(0, 0, 0, 0)


class SlowScheduler(ManualScheduler):
    """A scheduler whose work for a thread waits until :meth:`finish` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked: list[tuple[Callable[[], Any], Callable[..., object]]] = []

    def submit_blocking(self, work: Callable[[], Any], done: Callable[..., object]) -> None:
        self.blocked.append((work, done))

    def finish(self) -> None:
        """Let the oldest thread end."""
        work, done = self.blocked.pop(0)
        super().submit_blocking(work, done)
        self.run()


class HostWorld:
    """One start of a node; :meth:`again` is the next one on the same disk."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        path: str = PATH,
        scheduler: ManualScheduler | None = None,
        overrides: Mapping[str, str] | None = None,
        timings: Timings = QUIET,
        policy: SnapshotPolicy = SnapshotPolicy(),  # noqa: B008
        segment_bytes: int = 1 << 30,
        seed: int = 1,
        release: str | None = None,
    ) -> None:
        """``release``: the one whose levels a new disk is formatted with, if it is not the newest."""
        self.disk: Any = SimDisk(Random(seed)) if disk is None else disk
        self.path = path
        self.scheduler = ManualScheduler() if scheduler is None else scheduler
        self.options = {
            "path": path,
            "overrides": overrides,
            "timings": timings,
            "policy": policy,
            "segment_bytes": segment_bytes,
        }
        self.rng = Random(seed)
        self.config = BrokerConfig.load(None, {"log.dirs": path, **(overrides or {})})
        self.failures: list[str] = []
        self.news: list[MetadataDelta] = []
        self.answers: list[Any] = []
        now_ms = self.scheduler.now_ms()
        if release is not None:
            levels, voters = choose_levels(release, {}, dynamic_quorum=True), standalone_voters(self.config, self.rng)
            formatting = Formatting("c" * 22, self.config.node_id, [path], path, levels, voters)
            format_directories(self.disk, formatting, self.rng, now_ms)
        self.identity: NodeIdentity = identify(self.config, self.disk, [path], path, self.rng, now_ms)
        self.directory = LogDirectory(path, self.disk, self.rng, self.failures.append, LogConfig())
        self.directory.open(now_ms)
        list(self.directory.recover())
        self.metadata_log = MetadataLog(self.directory, LogConfig(segment_bytes=segment_bytes), now_ms)
        identity = QuorumIdentity(self.identity.cluster_id, self.identity.voter, self.identity.static_voters)
        self.host = QuorumHost(
            self.scheduler,
            self.metadata_log,
            identity,
            ControllerParts(
                StaticSettings(self.config.node_id, tokens=token_settings(self.config)),
                BrokerConfigRules(self.config),
                self.rng,
                self.identity.bootstrap_records,
                timings,
            ),
            QuorumConfig(snapshots=policy),
            None,
            self.failures.append,
        )
        self.membership = QuorumMembership(self.scheduler, self.host, identity, self.host.send, self.rng)
        self.host.subscribe(lambda _image, delta: self.news.append(delta))

    def start(self) -> "HostWorld":
        """Lead, and register and unfence broker 1."""
        self.host.start()
        self.scheduler.run()
        return self

    def with_broker(self) -> "HostWorld":
        epoch = self.ask(self.registration()).broker_epoch
        heartbeat = BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=epoch,
            current_metadata_offset=self.image.next_offset - 1,
            want_fence=False,
            want_shut_down=False,
        )
        assert not self.ask(heartbeat).is_fenced
        return self

    def registration(self) -> Any:
        return ControllerWorld().registration(
            1,
            cluster_id=self.identity.cluster_id,
            incarnation_id=self.rng.randbytes(16),
            log_dirs=[self.identity.directory_ids[self.path]],
        )

    def stop(self) -> None:
        """A clean stop."""
        self.membership.stop()
        self.host.close()
        self.directory.close()

    def again(self, disk: Disk | None = None, **options: Any) -> "HostWorld":
        """The next start, after a stop without a word."""
        self.membership.stop()
        self.host.close()
        self.directory.abandon()
        return HostWorld(disk or self.disk, **{**self.options, **options})

    @property
    def image(self) -> MetadataImage:
        return self.host.image

    def send(self, request: Any) -> list[Any]:
        """Send a request; the list gets its response."""
        answers: list[Any] = []
        self.host.send(request, answers.append)
        return answers

    def ask(self, request: Any) -> Any:
        """Send a request and wait for its response."""
        answers = self.send(request)
        self.scheduler.run()
        (answer,) = answers
        return answer

    def create(self, *names: str, configs: Mapping[str, str] | None = None) -> Any:
        return self.ask(create_request(*names, configs=configs))


def create_request(*names: str, configs: Mapping[str, str] | None = None, timeout_ms: int = 1_000) -> Any:
    topics = [topic_request(name, 1, 1, configs=dict(configs or {})) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=False)


def batches_of(world: HostWorld) -> Sequence[Any]:
    return [header for header, _ in world.metadata_log.batches(world.metadata_log.start_offset)]
