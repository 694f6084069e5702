"""The sessions of a broker with ZooKeeper, one after the other: it registers in each, and follows what others write.

A session that expires is followed by the next one. What may have changed between them is read again, since its events
went to nobody.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from kpybroker.hosts.zookeeper.broker.encrypted_configs import EncryptedConfigs
from kpybroker.hosts.zookeeper.broker.followed_clients import FollowedClients
from kpybroker.hosts.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.hosts.zookeeper.broker.followed_features import FollowedFeatures
from kpybroker.hosts.zookeeper.broker.known_controller import KnownController, RequestsToController
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls
from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.hosts.zookeeper.broker.protection import ZooKeeperProtection
from kpybroker.hosts.zookeeper.broker.registration import RegistrationRefused, ZooKeeperRegistration
from kpybroker.hosts.zookeeper.broker.tasks import Begin
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient, ZooKeeperError
from kpybroker.machines.zookeeper.broker.controller_requests import Ruler
from kpybroker.machines.zookeeper.client.frames import WatchedEvent
from kpybroker.machines.zookeeper.client.session import SessionState
from kpybroker.machines.zookeeper.tree import paths

log = logging.getLogger("kpybroker.zookeeper")


class ControllerCandidate(Protocol):
    """This broker in elections of the controller."""

    def look(self) -> None:
        """Learn who the controller is, in a new session and after each change."""

    def happened(self, path: str) -> None:
        """A watched znode has changed."""

    def session_ended(self) -> None:
        """The session has expired: another broker may be the controller by now."""


class ClusterParts(NamedTuple):
    """The parts by which a broker takes part in its cluster."""

    client: ZooKeeperClient
    metadata: ZooKeeperMetadata
    acls: DefaultAcls
    registration: ZooKeeperRegistration
    known: KnownController
    channel: RequestsToController
    """The way of this broker's own requests to the controller in ZooKeeper."""
    clients: FollowedClients
    configs: FollowedConfigs
    encrypted: EncryptedConfigs
    features: FollowedFeatures
    ruler: Ruler


class ZooKeeperSessions:
    """The sessions of one broker."""

    def __init__(
        self,
        joined: ClusterParts,
        candidate: ControllerCandidate,
        protection: ZooKeeperProtection,
        begin: Begin,
        failed: Callable[[str], object],
    ) -> None:
        """The client has its first session. ``failed`` is called with one line if the broker cannot go on."""
        self._client = joined.client
        self._joined = joined
        self._candidate = candidate
        self._protection = protection
        self._begin = begin
        self._failed = failed
        self._looking = asyncio.Lock()
        self._is_over = False

    async def start(self) -> None:
        """Register for the first time, and follow the session from now on. Raises RegistrationRefused, ZooKeeperError
        and NoAnswer."""
        await self._joined.registration.check_addresses()
        self._client.subscribe(self._happened, self._state_changed)
        self._joined.features.look()
        await self._joined.registration.register()
        self._joined.known.look()
        self._candidate.look()
        await self._joined.configs.look()
        await self._protection.look()

    def stop(self) -> None:
        """Begin no other session."""
        self._is_over = True

    def _happened(self, event: WatchedEvent) -> None:
        if event.path == paths.CONTROLLER:
            self._joined.known.look()
        elif event.path == paths.FEATURES:
            self._joined.features.look()
        elif event.path == paths.CONFIG_CHANGES:
            self._begin(self._look(self._joined.configs.look))
        elif self._protection.follows(event.path):
            self._begin(self._look(self._protection.look))
        self._candidate.happened(event.path)

    async def _look(self, look: Callable[[], Awaitable[None]]) -> None:
        """Handle new notices."""
        async with self._looking:
            try:
                await look()
            except NoAnswer:
                return  # the next session looks again
            except ZooKeeperError as error:
                log.error("Changes in ZooKeeper cannot be followed: %s", error)

    def _state_changed(self, state: SessionState) -> None:
        if self._is_over:
            return
        if state is SessionState.EXPIRED:
            self._joined.registration.lost()
            self._joined.known.forget()
            self._candidate.session_ended()
            self._client.open()
            self._begin(self._begin_next())
        elif state is SessionState.REFUSED:
            self._failed(f"ZooKeeper refuses the login: {self._client.why}")

    async def _begin_next(self) -> None:
        """Register again in a new session, and read what may have changed without an event."""
        configs = self._joined.configs
        try:
            await self._joined.registration.register()
            self._joined.features.look()
            self._joined.known.look()
            self._candidate.look()
            async with self._looking:
                await configs.read_brokers()
                await configs.read_topics(list(self._joined.metadata.image.topics))
                await configs.look()
                await self._protection.begin()
        except NoAnswer:
            return  # this session has ended too, and the next one begins
        except (RegistrationRefused, ZooKeeperError) as error:
            self._failed(str(error))
