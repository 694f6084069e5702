"""The parts by which a broker in ZooKeeper mode also belongs to the KRaft quorum to which its cluster migrates."""

import logging
import os
from functools import partial
from typing import Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.lifecycle import Lifecycle
from kpybroker.hosts.quorum.metadata_log import metadata_log_path
from kpybroker.hosts.zookeeper.broker.known_controller import ZooKeeperController
from kpybroker.hosts.zookeeper.broker.sessions import ClusterParts
from kpybroker.hosts.zookeeper.broker.two_controllers import TwoControllers, TwoRegistrations
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.broker import FeatureRange
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.node.assembly.broker import build_lifecycle, registration
from kpybroker.node.assembly.metadata_source import Parts
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.quorum import QuorumParts, build_channel, build_quorum
from kpybroker.node.assembly.zookeeper_broker import Allegiance
from kpybroker.node.assembly.zookeeper_controller import LEVEL_OF_3_9
from kpystorage.disk import Disk, remove_tree

log = logging.getLogger("kpybroker.zookeeper")

REGISTER_AGAIN_MS: Final = 5_000.0


class MigratingBroker(NamedTuple):
    """A broker's part in the quorum."""

    quorum: QuorumParts
    lifecycle: Lifecycle
    allegiance: Allegiance

    def start(self) -> None:
        """Follow the metadata log, and register. The broker serves without waiting for it."""
        self.quorum.host.start()
        self.quorum.membership.start()
        self.lifecycle.start(lambda: log.info("This broker is registered with the KRaft quorum"))


def forget_metadata_log(disk: Disk, directory: str) -> None:
    """Remove the copy of the metadata log that an earlier start left. It may be of another quorum, from before the
    cluster went back to ZooKeeper. A directory that another process uses stays as it is: the start is refused later."""
    directory = os.path.abspath(directory)
    path = metadata_log_path(directory)
    if disk.status(path) is None:
        return
    lock = disk.lock(f"{directory}/.lock")
    if lock is not None:
        for _ in remove_tree(disk, path):
            pass
        lock.release()


def build_migrating(
    config: BrokerConfig, platform: Platform, parts: Parts, joined: ClusterParts, way: ZooKeeperController
) -> MigratingBroker:
    """The parts. ``way`` is the one to the controller in ZooKeeper."""
    (stored, kept, ports), security, ruler = parts.opened, parts.security, joined.ruler
    assert kept is not None, "there are no controllers alone"
    quorum = build_quorum(config, platform, stored)
    levels = {metadata_version.FEATURE_NAME: FeatureRange(LEVEL_OF_3_9, LEVEL_OF_3_9)}
    request = registration(config, stored, ports, platform.rng, levels)
    patient = platform._replace(failed=lambda line: _try_again(platform, lifecycle, line))
    lifecycle = build_lifecycle(config, patient, request, quorum, kept.directories)
    platform.ends.callback(lifecycle.close)
    quorum.host.subscribe(partial(_look, config.node_id, lifecycle))
    treatment = security.forwarding(config, quorum.host.image)
    clients = build_channel(config, platform, quorum.host, "forwarding", config.request_timeout_ms, treatment)
    controller = TwoControllers(way, quorum.channel, clients, lambda: ruler.is_of_kraft)
    registered = TwoRegistrations(
        joined.registration,
        lifecycle,
        lambda: ruler.is_of_kraft,
        lambda: kept.directories.failed_paths,
        platform.failed,
    )
    return MigratingBroker(quorum, lifecycle, Allegiance(controller, registered, lifecycle.epoch, controller.look))


def _try_again(platform: Platform, lifecycle: Lifecycle, line: str) -> None:
    """A refusal does not end a broker in ZooKeeper mode: it still serves, and somebody may mend the controllers."""
    log.error("%s. It is tried again in %d s", line, REGISTER_AGAIN_MS / 1000)
    platform.scheduler.call_later(REGISTER_AGAIN_MS, lifecycle.start, lambda: None)


def _look(node_id: int, lifecycle: Lifecycle, image: MetadataImage, delta: MetadataDelta) -> None:
    if node_id in delta.brokers and node_id not in image.brokers:
        lifecycle.register_again()
