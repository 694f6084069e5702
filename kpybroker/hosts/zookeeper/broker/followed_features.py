"""``/feature``, the finalised features, which each broker follows (Kafka's ``FinalizedFeatureChangeListener``).

Clients see its data version as the epoch of the features. No feature is supported in ZooKeeper mode. If one is
finalised nevertheless, another program wrote it, and the broker ends, as with Kafka.
"""

import logging
from collections.abc import Callable
from typing import Final

from kpybroker.hosts.zookeeper.broker.followed_znode import FollowedZnode
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.machines.zookeeper.client.operations import Znode
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.cluster import FEATURES_ENABLED, FinalizedFeatures
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode

log = logging.getLogger("kpybroker.zookeeper")

NO_EPOCH: Final = -1
"""The epoch while the znode is missing, cannot be understood, or says that features are disabled."""


class FollowedFeatures:
    """Follows the znode. ``changed`` gets the epoch, ``failed`` one line if the broker cannot go on."""

    def __init__(
        self, client: ZooKeeperClient, changed: Callable[[int], object], failed: Callable[[str], object]
    ) -> None:
        self._znode = FollowedZnode(client, paths.FEATURES, self._read)
        self._changed = changed
        self._failed = failed

    def look(self) -> None:
        """Read and watch the znode, after a new connection and after each event."""
        self._znode.look()

    def _read(self, znode: Znode | None) -> None:
        epoch = NO_EPOCH
        if znode is not None:
            try:
                features = FinalizedFeatures.decode(znode.data)
            except InvalidZnode as error:
                log.error("%s; no feature is finalised", error)
            else:
                if features.status == FEATURES_ENABLED:
                    if features.levels:
                        names = ", ".join(sorted(features.levels))
                        self._failed(f"{paths.FEATURES} finalises features that this broker does not support: {names}")
                        return
                    epoch = znode.stat.version
        self._changed(epoch)
