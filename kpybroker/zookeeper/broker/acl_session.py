"""The session of the authorizer with its ZooKeeper. As in Kafka it is one of its own."""

import logging
from collections.abc import Awaitable, Callable

from kpybroker.zookeeper.broker.followed_acls import FollowedAcls
from kpybroker.zookeeper.broker.tasks import Begin
from kpybroker.zookeeper.client.client import Client, NoAnswer, ZooKeeperError
from kpybroker.zookeeper.client.frames import WatchedEvent
from kpybroker.zookeeper.client.session import State
from kpybroker.zookeeper.tree import paths
from kpybroker.zookeeper.tree.contents import InvalidZnode

log = logging.getLogger("kpybroker.zookeeper")


class AclSession:
    """One session after the other."""

    def __init__(
        self,
        client: Client,
        acls: FollowedAcls,
        connect: Callable[[], Awaitable[None]],
        begin: Begin,
        failed: Callable[[str], None],
    ) -> None:
        """``connect`` begins the first session of the client."""
        self.acls = acls
        self._client = client
        self._connect = connect
        self._begin = begin
        self._failed = failed
        self._is_closed = False

    async def open(self) -> None:
        """Connect, and read all ACLs. Raises StartRefused, InvalidZnode, ZooKeeperError and NoAnswer."""
        await self._connect()
        self._client.subscribe(self._happened, self._state_changed)
        await self.acls.begin()

    async def close(self, *, leave: bool) -> None:
        """End it. Without ``leave`` the connection is dropped as if the process had died."""
        self._is_closed = True
        if leave:
            await self._client.close()

    def _happened(self, event: WatchedEvent) -> None:
        if event.path in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES):
            self._begin(self._tried(self.acls.look))

    def _state_changed(self, state: State) -> None:
        if self._is_closed:
            return
        if state is State.EXPIRED:
            self._client.open()
            self._begin(self._tried(self.acls.begin))
        elif state is State.REFUSED:
            self._failed(f"ZooKeeper refuses the login of the authorizer: {self._client.why}")

    @staticmethod
    async def _tried(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except NoAnswer:
            return  # the next session reads all of them
        except (ZooKeeperError, InvalidZnode) as error:
            log.error("Changes of ACLs cannot be followed: %s", error)
