"""The sessions of a broker with ZooKeeper, one after the other: it registers in each, and follows what others write.

A session that expires is followed by the next one. What may have changed between them is read again, since its events
went to nobody.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from kpybroker.metadata.image import MetadataImage
from kpybroker.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.zookeeper.broker.followed_features import FollowedFeatures
from kpybroker.zookeeper.broker.known_controller import KnownController
from kpybroker.zookeeper.broker.protection import ZooKeeperProtection
from kpybroker.zookeeper.broker.registration import RegistrationRefused, ZooKeeperRegistration
from kpybroker.zookeeper.broker.tasks import Begin
from kpybroker.zookeeper.client.client import Client, NoAnswer, ZooKeeperError
from kpybroker.zookeeper.client.frames import WatchedEvent
from kpybroker.zookeeper.client.session import State
from kpybroker.zookeeper.tree import paths

log = logging.getLogger("kpybroker.zookeeper")


class Candidate(Protocol):
    """This broker in elections of the controller."""

    def look(self) -> None:
        """Learn who the controller is, in a new session and after each change."""

    def happened(self, path: str) -> None:
        """A watched znode has changed."""

    def session_ended(self) -> None:
        """The session has expired: another broker may be the controller by now."""


class Followed(Protocol):
    """The parts that follow znodes."""

    @property
    def registration(self) -> ZooKeeperRegistration: ...

    @property
    def known(self) -> KnownController: ...

    @property
    def features(self) -> FollowedFeatures: ...

    @property
    def configs(self) -> FollowedConfigs: ...


class Sessions:
    """The sessions of one broker."""

    def __init__(
        self,
        client: Client,
        image: MetadataImage,
        followed: Followed,
        candidate: Candidate,
        protection: ZooKeeperProtection,
        begin: Begin,
        failed: Callable[[str], object],
    ) -> None:
        """The client has its first session. ``failed`` is called with one line if the broker cannot go on."""
        self._client = client
        self._image = image
        self._followed = followed
        self._candidate = candidate
        self._protection = protection
        self._begin = begin
        self._failed = failed
        self._looking = asyncio.Lock()
        self._is_over = False

    async def start(self) -> None:
        """Register for the first time, and follow the session from now on. Raises RegistrationRefused, ZooKeeperError
        and NoAnswer."""
        await self._followed.registration.check_addresses()
        self._client.subscribe(self._happened, self._state_changed)
        self._followed.features.look()
        await self._followed.registration.register()
        self._followed.known.look()
        self._candidate.look()
        await self._followed.configs.look()
        await self._protection.look()

    def stop(self) -> None:
        """Begin no other session."""
        self._is_over = True

    def _happened(self, event: WatchedEvent) -> None:
        if event.path == paths.CONTROLLER:
            self._followed.known.look()
        elif event.path == paths.FEATURES:
            self._followed.features.look()
        elif event.path == paths.CONFIG_CHANGES:
            self._begin(self._look(self._followed.configs.look))
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

    def _state_changed(self, state: State) -> None:
        if self._is_over:
            return
        if state is State.EXPIRED:
            self._followed.registration.lost()
            self._followed.known.forget()
            self._candidate.session_ended()
            self._client.open()
            self._begin(self._begin_next())
        elif state is State.REFUSED:
            self._failed(f"ZooKeeper refuses the login: {self._client.why}")

    async def _begin_next(self) -> None:
        """Register again in a new session, and read what may have changed without an event."""
        configs = self._followed.configs
        try:
            await self._followed.registration.register()
            self._followed.features.look()
            self._followed.known.look()
            self._candidate.look()
            async with self._looking:
                await configs.read_brokers()
                await configs.read_topics(list(self._image.topics))
                await configs.look()
                await self._protection.begin()
        except NoAnswer:
            return  # this session has ended too, and the next one begins
        except (RegistrationRefused, ZooKeeperError) as error:
            self._failed(str(error))
