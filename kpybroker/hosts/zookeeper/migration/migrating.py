"""A migration at work on one controller: it carries out the steps of the driver, one after the other.

ZooKeeper may be away, at the start or later: the controller goes on, and the driver continues when it is back. A
write whose connection is lost is sent again. If the session ends, the driver compares everything again.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient, ZooKeeperError, ZooKeeperNotConnected
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Get
from kpybroker.machines.zookeeper.migration.driver import Append, DriverSteps, MigrationDriver
from kpybroker.machines.zookeeper.tree import cluster, paths
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.runtime.io.scheduler import Scheduler

log = logging.getLogger("kpybroker.zookeeper")

FIRST_PAUSE_MS: Final = 50.0
LONGEST_PAUSE_MS: Final = 1_000.0
CONNECT_MS: Final = 10_000.0
Commit = Callable[[list[Any], Callable[[int | None], object]], object]


def note(line: str) -> None:
    """Log one line of the driver."""
    log.info("%s", line)


class Migrating:
    """The work of one controller."""

    def __init__(
        self,
        driver: MigrationDriver,
        client: ZooKeeperClient,
        scheduler: Scheduler,
        commit: Commit,
        cluster_id: str,
        failed: Callable[[str], object],
    ) -> None:
        """``commit`` commits records; see `QuorumHost.commit_copied`. ``failed`` is called with one line if this node
        must not go on."""
        self.driver = driver
        self._client = client
        self._scheduler = scheduler
        self._commit = commit
        self._cluster_id = cluster_id
        self._failed = failed
        self._epoch: int | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """End the work, and the session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._client.close()

    def active_epoch_is(self, epoch: int | None) -> None:
        """The epoch of this node's controller; None while it is not active."""
        if epoch == self._epoch:
            return
        self._epoch = epoch
        if epoch is None:
            self.driver.follow()
        else:
            self.driver.lead(epoch)
        self._woken.set()

    def published(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata have changed."""
        self.driver.published(image, delta)
        if not delta.is_empty:
            self._woken.set()

    # The work

    async def _work(self) -> None:
        try:
            await self._connected()
            if not await self._is_cluster():
                return
            pause_ms = FIRST_PAUSE_MS
            while True:
                before = self.driver.phase, len(self.driver.pending)
                self._woken.clear()
                if not self.driver.is_idle:
                    await self._step()
                is_going_on = (self.driver.phase, len(self.driver.pending)) != before and not self.driver.is_idle
                pause_ms = FIRST_PAUSE_MS if is_going_on else min(pause_ms * 2, LONGEST_PAUSE_MS)
                if not is_going_on:
                    await self._pause(None if self.driver.is_idle else pause_ms)
        except Exception as error:
            log.critical("The migration to KRaft cannot go on", exc_info=error)
            self._failed(f"the migration to KRaft cannot go on: {error!r}")

    async def _pause(self, most_ms: float | None) -> None:
        """Wait until something happens, at most for a time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), None if most_ms is None else most_ms / 1000)

    async def _step(self) -> None:
        await self._connected()
        try:
            await self._carry_out(self.driver.step(self._scheduler.now_ms()))
        except NoAnswer as lost:
            log.info("The session with ZooKeeper has ended in the middle of a step: %s", lost)
            self.driver.interrupted()

    async def _connected(self) -> None:
        """Wait for a session and its connection."""
        client, is_reported = self._client, False
        while True:
            if client.session.is_ended:
                client.open()
            try:
                await client.wait_until_connected(CONNECT_MS)
                return
            except ZooKeeperNotConnected as error:
                if not is_reported:
                    log.warning("The migration to KRaft waits for ZooKeeper: %s", error)
                is_reported = True
                await asyncio.sleep(LONGEST_PAUSE_MS / 1000)

    async def _is_cluster(self) -> bool:
        """Whether ZooKeeper has the cluster that this controller was formatted for."""
        while True:
            try:
                found = await self._client.ask_until_answered(Get(paths.CLUSTER_ID))
                cluster_id = cluster.decode_cluster_id(found.data)
                break
            except NoAnswer:
                await self._connected()
            except (ZooKeeperError, InvalidZnode) as error:
                is_missing = isinstance(error, ZooKeeperError) and error.code == error_codes.NO_NODE
                why = "there is no cluster; is the chroot right?" if is_missing else str(error)
                self._failed(f"zookeeper.connect: {why}")
                return False
        if cluster_id != self._cluster_id:
            self._failed(
                f"ZooKeeper has the cluster {cluster_id}, but this controller was formatted for {self._cluster_id}; "
                f"format it with --cluster-id {cluster_id}"
            )
            return False
        return True

    async def _carry_out(self, steps: DriverSteps[None]) -> None:
        answer: Any = None
        try:
            while True:
                asked = steps.send(answer)
                answer = await (
                    self._append(asked) if isinstance(asked, Append) else self._client.ask_all_until_answered(asked)
                )
        except StopIteration:
            return
        finally:
            steps.close()

    async def _append(self, append: Append) -> int | None:
        answered: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._commit(append.records, lambda offset: None if answered.done() else answered.set_result(offset))
        return await answered
