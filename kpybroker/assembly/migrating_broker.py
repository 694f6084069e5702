"""The parts by which a broker in ZooKeeper mode also belongs to the KRaft quorum to which its cluster migrates."""

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from kpybroker.assembly.broker import build_lifecycle, registration
from kpybroker.assembly.platform import Platform
from kpybroker.assembly.quorum import QuorumParts, build_channel, build_quorum
from kpybroker.assembly.replication import Kept
from kpybroker.assembly.security import Security
from kpybroker.assembly.storage import StoredNode
from kpybroker.assembly.zookeeper import Joined
from kpybroker.assembly.zookeeper_controller import LEVEL_OF_3_9
from kpybroker.config.broker import BrokerConfig
from kpybroker.lifecycle import Lifecycle
from kpybroker.metadata import metadata_version
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.quorum.metadata_log import metadata_log_path
from kpybroker.zookeeper.broker.two_controllers import TwoControllers, TwoRegistrations
from kpystorage.disk import Disk, remove_tree
from kpywire.messages.broker_registration import Feature

log = logging.getLogger("kpybroker.zookeeper")

REGISTER_AGAIN_MS: Final = 5_000.0


class MigratingBroker(NamedTuple):
    """A broker's part in the quorum."""

    quorum: QuorumParts
    lifecycle: Lifecycle
    controller: TwoControllers
    registration: TwoRegistrations

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


def build_migrating(  # noqa: PLR0913
    config: BrokerConfig,
    platform: Platform,
    stored: StoredNode,
    joined: Joined,
    security: Security,
    kept: Kept,
    ports: Mapping[str, int],
    is_ruled: Callable[[], bool],
) -> MigratingBroker:
    """The parts. ``is_ruled``: whether a KRaft controller rules this broker."""
    quorum = build_quorum(config, platform, stored)
    request = registration(config, stored, ports, platform.rng)
    request.is_migrating_zk_broker = True
    request.rack = config.rack
    request.features = [
        Feature(
            name=metadata_version.FEATURE_NAME, min_supported_version=LEVEL_OF_3_9, max_supported_version=LEVEL_OF_3_9
        )
    ]
    refused: list[Callable[[str], None]] = []
    quiet = platform._replace(failed=lambda line: refused[0](line))
    lifecycle = build_lifecycle(config, quiet, request, quorum, kept.directories)
    refused.append(partial(_try_again, platform, lifecycle))
    platform.ends.callback(lifecycle.close)
    quorum.host.subscribe(partial(_look, config.node_id, lifecycle))
    treatment = security.forwarding(config, quorum.host.image)
    clients = build_channel(config, platform, quorum.host, "forwarding", config.request_timeout_ms, treatment)
    controller = TwoControllers(joined.controller, quorum.channel, clients, is_ruled)
    both = TwoRegistrations(
        joined.registration, lifecycle, is_ruled, lambda: kept.directories.failed_paths, platform.failed
    )
    return MigratingBroker(quorum, lifecycle, controller, both)


def _try_again(platform: Platform, lifecycle: Lifecycle, line: str) -> None:
    """A refusal does not end a broker in ZooKeeper mode: it still serves, and somebody may mend the controllers."""
    log.error("%s. It is tried again in %d s", line, REGISTER_AGAIN_MS / 1000)
    platform.scheduler.call_later(REGISTER_AGAIN_MS, lifecycle.start, lambda: None)


def _look(node_id: int, lifecycle: Lifecycle, image: MetadataImage, delta: MetadataDelta) -> None:
    if node_id in delta.brokers and node_id not in image.brokers:
        lifecycle.register_again()
