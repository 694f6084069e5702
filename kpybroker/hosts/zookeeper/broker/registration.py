"""The registration of a broker in ZooKeeper: an ephemeral znode, whose creation is the broker's epoch.

It lasts as long as the session. After the session has expired a new one begins, with another registration: the broker
keeps its logs and its roles, and the controller sends orders for the new epoch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from kpybroker.hosts.lifecycle import BrokerState
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient, ZooKeeperError
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import (
    Create,
    Delete,
    Exists,
    Get,
    GetChildren,
    Multi,
    Set,
    Stat,
    ZnodeAcl,
)
from kpybroker.machines.zookeeper.client.session import ENDED, Lost
from kpybroker.machines.zookeeper.tree import paths, requests
from kpybroker.machines.zookeeper.tree.brokers import Registration
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import error_codes as kafka_errors
from kpywire.messages.controlled_shutdown import ControlledShutdownRequest

log = logging.getLogger("kpybroker.zookeeper")

LOOK_AGAIN_MS: Final = 100


class RegistrationRefused(Exception):
    """This broker cannot be registered, in one line."""


class ZooKeeperRegistration:
    """The registration of this broker."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: ZooKeeperClient,
        registration: Registration,
        acls: Sequence[ZnodeAcl],
        patience_ms: float,
        failed_directories: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``patience_ms`` is how long a registration of another session is waited for: it may be that of an earlier
        process of this broker. ``failed_directories`` are the log directories that are to be reported."""
        self.state = BrokerState.STARTING
        self.broker_epoch = -1
        self._scheduler = scheduler
        self._client = client
        self._registration = registration
        self._acls = acls
        self._patience_ms = patience_ms
        self._sessions: set[int] = set()
        """The earlier sessions of this process."""
        self._failed_directories = failed_directories
        self._reported: set[str] = set()
        """The failed log directories that were reported to the controller."""

    def epoch(self) -> int:
        """The epoch of the registration; -1 before there is one."""
        return self.broker_epoch

    def register_again(self) -> None:
        """Nothing: a session registers once."""

    def report(self) -> None:
        """Report to the controller that a log directory has failed, once for each."""
        failed = set(self._failed_directories())
        if self.state is BrokerState.RUNNING and not failed <= self._reported:
            self._reported = failed
            path = f"{paths.LOG_DIR_EVENTS}/{requests.LOG_DIR_EVENT_PREFIX}"
            event = requests.encode_log_dir_failure(self._registration.broker_id)
            self._client.submit(Create(path, event, self._acls, is_sequential=True), self._note_report)

    def _note_report(self, result: object) -> None:
        if isinstance(result, Lost) and result.state not in ENDED:
            self._reported = set()
            self.report()  # perhaps for the second time: a notice too many does no harm
        else:
            log.warning("A failed log directory was reported to the controller: %s", result)

    async def check_addresses(self) -> None:
        """Check that no other broker listens at the same address. Raises RegistrationRefused."""
        own = {(each.host, each.port): str(each) for each in self._registration.endpoints}
        names = (await self._client.ask_until_answered(GetChildren(paths.BROKER_IDS))).names
        for name in names:
            if not name.isdecimal() or int(name) == self._registration.broker_id:
                continue
            try:
                found = await self._client.ask_until_answered(Get(paths.broker(int(name))))
                other = Registration.decode(int(name), found.data)
            except ZooKeeperError:
                continue  # it has just gone
            except InvalidZnode as error:
                log.warning("%s", error)
                continue
            taken = [own[each.host, each.port] for each in other.endpoints if (each.host, each.port) in own]
            if taken:
                raise RegistrationRefused(
                    f"Configured end points {', '.join(taken)} in advertised listeners are already registered by "
                    f"broker {name}"
                )

    async def register(self) -> None:
        """Register in the present session. Raises RegistrationRefused, and NoAnswer if the session ends."""
        until_ms = self._scheduler.monotonic_ms() + self._patience_ms
        while True:
            try:
                self.broker_epoch = await self._try(until_ms)
                break
            except NoAnswer as lost:
                if lost.state in ENDED:
                    raise
            except _Again:
                await asyncio.sleep(LOOK_AGAIN_MS / 1000)
        self._sessions.add(self._client.session.session_id)
        self.state = BrokerState.RUNNING
        log.info("Registered broker %d in ZooKeeper with epoch %d", self._registration.broker_id, self.broker_epoch)

    async def _try(self, until_ms: float) -> int:
        path, content = self._registration.path, self._registration.encode()
        try:
            create = Create(path, None, self._acls, is_ephemeral=True)
            _, stat = await self._client.ask(Multi((create, Set(path, content, 0))))
        except ZooKeeperError as error:
            if error.code != error_codes.NODE_EXISTS:
                raise
            return await self._resolve(path, until_ms)
        return int(stat.czxid)

    async def _resolve(self, path: str, until_ms: float) -> int:
        """Resolve that there is a registration already: of this session, of an earlier one, or of a stranger."""
        try:
            stat: Stat = await self._client.ask(Exists(path))
        except ZooKeeperError:
            raise _Again from None
        session_id = self._client.session.session_id  # a new session has none before its first answer
        if stat.ephemeral_owner == session_id:
            return stat.czxid  # the answer to an earlier attempt was lost
        if stat.ephemeral_owner in self._sessions:
            await self._client.ask_until_answered(Delete(path, stat.version))
            raise _Again
        if self._scheduler.monotonic_ms() >= until_ms:
            raise RegistrationRefused(
                f"Error while creating ephemeral at {path}, node already exists and owner '{stat.ephemeral_owner}' "
                f"does not match current session '{session_id}': another broker has the id "
                f"{self._registration.broker_id}"
            )
        raise _Again

    def leaving(self) -> None:
        """The broker leaves the cluster: leaderships move away."""
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN

    async def let_leaderships_go(self, ask: Callable[[Any], Awaitable[Any]], attempts: int, backoff_ms: int) -> None:
        """Have the controller move leaderships away (ControlledShutdown), until none is here or all ``attempts`` were
        made. ``ask`` asks the controller. A broker that never registered does not ask."""
        if self.broker_epoch < 0:
            return
        self.leaving()
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(backoff_ms / 1000)
            broker_id = self._registration.broker_id
            answer = await ask(ControlledShutdownRequest(broker_id=broker_id, broker_epoch=self.broker_epoch))
            if answer.error_code == kafka_errors.NONE and not answer.remaining_partitions:
                log.info("Controlled shutdown request returned successfully after %d attempts", attempt + 1)
                return
            log.info(
                "The controlled shutdown is tried again: error %s, %d partitions are still led here",
                kafka_errors.name(answer.error_code),
                len(answer.remaining_partitions),
            )
        log.warning("Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed")

    def lost(self) -> None:
        """The session has ended, and the registration with it."""
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.STARTING


class _Again(Exception):
    """Another attempt is needed."""
