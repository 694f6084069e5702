"""The driver of a migration to KRaft on one controller (Kafka's ``KRaftMigrationDriver``).

It works while its controller is active. Its work comes in steps: operations for ZooKeeper and records for the metadata
log, each with the outcome of the ones before. What is still to be written into ZooKeeper is in ``pending``.

Invariants: nothing is written unless ``/controller_epoch`` and ``/migration`` are as this controller left them.
``/migration`` names an offset only when ZooKeeper has everything below it. Whenever the outcome of a write is not
known, both trees are compared again.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MIGRATION, POST_MIGRATION, PRE_MIGRATION, MetadataImage
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Check, Delete, Multi, Operation, OperationFailed, Set
from kpybroker.machines.zookeeper.controller.batch import BrokerRequest
from kpybroker.machines.zookeeper.controller.context import LiveBroker
from kpybroker.machines.zookeeper.controller.steps import AclOf, ControllerMoved, UnexpectedAnswer, ZnodeWriter
from kpybroker.machines.zookeeper.migration import differences, orders, reading, records, takeover, wanted
from kpybroker.machines.zookeeper.migration.differences import ZnodeChange
from kpybroker.machines.zookeeper.migration.entities import resource_of
from kpybroker.machines.zookeeper.migration.reading import Tree
from kpybroker.machines.zookeeper.migration.records import Copying
from kpybroker.machines.zookeeper.migration.takeover import Claim, MigrationProgress
from kpybroker.machines.zookeeper.migration.wanted import Changes
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.acls import ResourcePattern
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.controller import MigrationState
from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord

RECORDS_AT_ONCE: Final = 1_000
OPERATIONS_AT_ONCE: Final = 200
BYTES_AT_ONCE: Final = 400_000
"""A request to ZooKeeper may have 1 MiB."""


class MigrationDriverState(Enum):
    """Kafka's ``MigrationDriverState``."""

    UNINITIALIZED = "reads how far the migration is"
    INACTIVE = "another controller is active"
    WAIT_FOR_CONTROLLER_QUORUM = "waits for all controllers of the quorum"
    WAIT_FOR_BROKERS = "waits for brokers in ZooKeeper mode"
    BECOME_CONTROLLER = "takes over from the controller in ZooKeeper"
    ZK_MIGRATION = "copies the metadata of ZooKeeper"
    SYNC_KRAFT_TO_ZK = "compares ZooKeeper with the metadata"
    KRAFT_CONTROLLER_TO_BROKER_COMM = "sends all metadata to brokers in ZooKeeper mode"
    DUAL_WRITE = "writes each change into ZooKeeper too"


class Append(NamedTuple):
    """Records to commit as one batch. The outcome is the offset after them, or None if this controller is not active
    any more."""

    records: list[Any]


_T = TypeVar("_T")
DriverSteps = Generator[Sequence[Operation] | Append, Any, _T]


class Doubt(Exception):
    """A write was refused or lost: ZooKeeper may hold something else than was thought."""


class Deposed(Exception):
    """Another controller has taken over in ZooKeeper."""


class PendingDelta(NamedTuple):
    """A committed change of the metadata that is not in ZooKeeper yet, with the orders that follow from it."""

    next_offset: int
    epoch: int
    changes: Changes
    brokers: Mapping[int, LiveBroker]
    requests: list[BrokerRequest]


Send = Callable[[Mapping[int, LiveBroker], list[BrokerRequest]], object]
_TRACKING: Final = (
    MigrationDriverState.SYNC_KRAFT_TO_ZK,
    MigrationDriverState.KRAFT_CONTROLLER_TO_BROKER_COMM,
    MigrationDriverState.DUAL_WRITE,
)


class MigrationDriver:
    """The migration as one controller drives it."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        *,
        voters: Callable[[], Iterable[int]],
        send: Send,
        log: Callable[[str], object],
        acl_of: AclOf,
        copying: Copying,
    ) -> None:
        """``image`` is the committed one. ``voters`` are the controllers of the quorum. ``send`` takes the brokers in
        ZooKeeper mode with requests to them, ``log`` lines for people."""
        self.phase = MigrationDriverState.UNINITIALIZED
        self.obstacle = ""
        """The reason why the phase lasts, in words."""
        self.pending: list[PendingDelta] = []
        self._node_id = node_id
        self._image = image
        self._voters = voters
        self._send = send
        self._log = log
        self._acl_of = acl_of
        self._copying = copying
        self._epoch = -1
        """The epoch of this controller; -1 while it is not active."""
        self._term = 0
        """Counts the changes of leadership: a step of an earlier one is not continued."""
        self._progress = MigrationProgress(takeover.NOTHING_COPIED, 0)
        self._claim = Claim(0, 0)
        self._held: Tree = {}
        """The znodes as ZooKeeper has them, since the last comparison."""
        self._doomed: frozenset[str] = frozenset()
        self._is_tracking = False
        self._acl_resources: dict[bytes, ResourcePattern] = {}

    # What happens

    def lead(self, epoch: int) -> None:
        """This controller is active."""
        self._term += 1
        self._epoch = epoch
        self._stop_tracking()
        if self.phase is not MigrationDriverState.UNINITIALIZED:
            self._go(MigrationDriverState.WAIT_FOR_CONTROLLER_QUORUM)

    def follow(self) -> None:
        """Another controller is active, or none."""
        self._term += 1
        self._epoch = -1
        self._stop_tracking()
        if self.phase is not MigrationDriverState.UNINITIALIZED:
            self._go(MigrationDriverState.INACTIVE)

    def published(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata have changed."""
        concerned = self._follow_acls(image, delta)
        if not self._is_tracking or delta.is_empty:
            return
        if delta.from_snapshot:
            self._doubt()
            return
        changes = wanted.of_delta(image, delta, self._claim.epoch, self._encoded)
        changes |= wanted.of_acls(image, concerned)
        requests = orders.of_delta(image, delta, self._claim.epoch, self._epoch)
        brokers = orders.brokers_in_zookeeper_mode(image)
        self.pending.append(PendingDelta(delta.next_offset, image.epoch, changes, brokers, requests))

    def interrupted(self) -> None:
        """The session with ZooKeeper ended in the middle of a step."""
        if self._is_tracking or self.phase in _TRACKING:
            self._doubt()

    def _doubt(self) -> None:
        self._stop_tracking()
        self._go(MigrationDriverState.SYNC_KRAFT_TO_ZK)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done until something happens."""
        return self.phase is MigrationDriverState.INACTIVE or (
            self.phase is MigrationDriverState.DUAL_WRITE and not self.pending
        )

    def _follow_acls(self, image: MetadataImage, delta: MetadataDelta) -> list[ResourcePattern]:
        """The resources whose ACLs have changed."""
        found = []
        for acl_id in delta.kept.get("acls", ()):
            assert isinstance(acl_id, bytes)
            record = image.acls.get(acl_id)
            before = self._acl_resources.pop(acl_id, None)
            found += [] if before is None else [before]
            if record is not None:
                self._acl_resources[acl_id] = resource_of(record)
                found.append(self._acl_resources[acl_id])
        return found

    def _encoded(self, path: str, values: Mapping[str, str]) -> dict[str, str]:
        held = self._held.get(path)
        return self._copying.passwords.encoded(path, values, None if held is None else held.data)

    def _stop_tracking(self) -> None:
        self._is_tracking = False
        self.pending.clear()

    def _go(self, phase: MigrationDriverState, obstacle: str = "") -> None:
        if phase is not self.phase:
            self._log(f"The migration to KRaft: this controller {phase.value}")
        self.phase = phase
        self._wait(obstacle)

    def _wait(self, obstacle: str) -> None:
        if obstacle and obstacle != self.obstacle:
            self._log(f"The migration to KRaft waits: {obstacle}")
        self.obstacle = obstacle

    # What is done

    def step(self, now_ms: int) -> DriverSteps[None]:
        """Do what the phase asks for. It ends early if the leadership changes."""
        term = self._term
        work = self._work(now_ms)
        answer: Any = None
        try:
            while True:
                asked = work.send(answer)
                answer = yield asked
                if term != self._term:
                    return
        except StopIteration:
            return
        except Doubt as doubt:
            self._log(f"ZooKeeper is compared with the metadata again: {doubt}")
            self._doubt()
        except (Deposed, ControllerMoved) as deposed:
            self._stop_tracking()
            self._go(MigrationDriverState.WAIT_FOR_CONTROLLER_QUORUM, str(deposed))
        except (InvalidZnode, UnexpectedAnswer) as error:
            self._wait(str(error))
            if self.phase in _TRACKING:
                self._doubt()
                self.obstacle = str(error)
        finally:
            work.close()

    def _work(self, now_ms: int) -> DriverSteps[None]:
        match self.phase:
            case MigrationDriverState.UNINITIALIZED:
                yield from self._recover()
            case MigrationDriverState.WAIT_FOR_CONTROLLER_QUORUM:
                yield from self._wait_for_controllers()
            case MigrationDriverState.WAIT_FOR_BROKERS:
                yield from self._wait_for_brokers()
            case MigrationDriverState.BECOME_CONTROLLER:
                yield from self._take_over(now_ms)
            case MigrationDriverState.ZK_MIGRATION:
                yield from self._copy()
            case MigrationDriverState.SYNC_KRAFT_TO_ZK | MigrationDriverState.KRAFT_CONTROLLER_TO_BROKER_COMM:
                yield from self._synchronize()
            case MigrationDriverState.DUAL_WRITE:
                yield from self._write_pending()
            case MigrationDriverState.INACTIVE:
                return

    def _recover(self) -> DriverSteps[None]:
        self._progress = yield from takeover.begin(self._acl_of)
        self._go(MigrationDriverState.INACTIVE if self._epoch < 0 else MigrationDriverState.WAIT_FOR_CONTROLLER_QUORUM)

    def _wait_for_controllers(self) -> DriverSteps[None]:
        if self._image.metadata_version is None:
            self._wait("the metadata log is empty")
            return
        state = self._image.zk_migration_state
        found = yield from takeover.present()
        if state == PRE_MIGRATION:
            self._progress = yield from takeover.begin(self._acl_of)
            missing = [each for each in self._voters() if not self._is_ready(each)]
            if missing:
                listed = ", ".join(map(str, sorted(missing)))
                self._wait(f"the controllers {listed} have not registered with zookeeper.metadata.migration.enable")
            else:
                self._go(MigrationDriverState.WAIT_FOR_BROKERS)
        elif state == MIGRATION:
            progress = found.progress
            # A controller may have died between the commit of the copy and the note of it. Nobody but a KRaft
            # controller ruled since, so nothing in ZooKeeper is newer than the log.
            if progress is not None and (progress.is_copied or found.is_of_kraft):
                self._progress = progress
                self._go(MigrationDriverState.BECOME_CONTROLLER)
            else:
                self._wait(
                    f"the metadata log says that the metadata were copied, but {paths.MIGRATION} does not: somebody "
                    "went back to ZooKeeper. Stop the controllers; to migrate again, format them first"
                )
        elif state == POST_MIGRATION:
            self._go(
                MigrationDriverState.INACTIVE, "the migration was finalised; remove zookeeper.metadata.migration.enable"
            )
        else:
            self._go(
                MigrationDriverState.INACTIVE,
                "this cluster was made without ZooKeeper; remove zookeeper.metadata.migration.enable",
            )

    def _is_ready(self, controller_id: int) -> bool:
        known = self._image.controllers.get(controller_id)
        return known is not None and known.zk_migration_ready

    def _wait_for_brokers(self) -> DriverSteps[None]:
        ready = {each.id for each in self._image.brokers.values() if each.is_migrating_zk_broker}
        registered = yield from reading.registered_brokers()
        if not registered:
            self._wait("no broker is registered in ZooKeeper")
            return
        missing = sorted(set(registered) - ready)
        if not missing:
            metadata = yield from reading.read_metadata()
            missing = sorted(reading.brokers_of(metadata.topics) - ready)
        if missing:
            listed = ", ".join(map(str, missing))
            self._wait(f"the brokers {listed} have not registered with zookeeper.metadata.migration.enable")
        else:
            self._go(MigrationDriverState.BECOME_CONTROLLER)

    def _take_over(self, now_ms: int) -> DriverSteps[None]:
        found = yield from takeover.present()
        if found.progress is None:
            raise Deposed(f"{paths.MIGRATION} is gone")
        claimed = yield from takeover.claim(self._node_id, self._epoch, found.progress, now_ms, self._acl_of)
        if claimed is None:
            self._wait(f"{paths.CONTROLLER} changes, or belongs to a controller of a later epoch")
            return
        self._claim, self._progress = claimed
        self._log(f"This controller has taken over in ZooKeeper, with epoch {self._claim.epoch} there")
        is_copied = self._image.zk_migration_state == MIGRATION
        self._go(MigrationDriverState.SYNC_KRAFT_TO_ZK if is_copied else MigrationDriverState.ZK_MIGRATION)

    def _copy(self) -> DriverSteps[None]:
        if self._image.zk_migration_state == MIGRATION:  # the answer to the note of it was lost
            self._go(MigrationDriverState.SYNC_KRAFT_TO_ZK)
            return
        metadata = yield from reading.read_metadata()
        copied = records.records_of(metadata, self._copying)
        if self._image.transaction_offset >= 0:
            yield Append([AbortTransactionRecord(reason="The copy was interrupted")])
        batches: list[list[Any]] = [[BeginTransactionRecord(name="ZK Migration")]]
        batches += [copied[start : start + RECORDS_AT_ONCE] for start in range(0, len(copied), RECORDS_AT_ONCE)]
        batches.append([ZkMigrationStateRecord(zk_migration_state=MIGRATION), EndTransactionRecord()])
        next_offset: int | None = None
        for batch in batches:
            next_offset = yield Append(batch)
            if next_offset is None:
                self._wait("the records could not be written")
                yield Append([AbortTransactionRecord(reason="The copy was not completed")])
                return
        assert next_offset is not None
        self._log(f"{len(copied)} records were copied from ZooKeeper")
        yield from self._write([], next_offset - 1, self._epoch)
        self._go(MigrationDriverState.SYNC_KRAFT_TO_ZK)

    def _synchronize(self) -> DriverSteps[None]:
        metadata = yield from reading.read_metadata()
        image = self._image
        # From here on changes are collected, so this is one moment of the metadata.
        self._stop_tracking()
        self._is_tracking = True
        self._acl_resources = {acl_id: resource_of(record) for acl_id, record in image.acls.items()}
        self._held, self._doomed = metadata.tree, metadata.doomed
        goal = differences.everything(self._held, wanted.of_image(image, self._claim.epoch, self._encoded))
        changes = differences.difference(self._held, goal, self._acl_of)
        offset, epoch = image.next_offset - 1, image.epoch
        brokers = orders.brokers_in_zookeeper_mode(image)
        requests = orders.of_image(image, self._claim.epoch, self._epoch)
        markers = [
            ZnodeChange(paths.delete_topic(name), (Delete(paths.delete_topic(name)),), None)
            for name in sorted(self._doomed)
        ]
        yield from self._write(changes, offset, epoch)
        yield from self._forget_doomed(markers)
        if not self._is_tracking:
            return  # this node has got a snapshot meanwhile
        self._go(MigrationDriverState.KRAFT_CONTROLLER_TO_BROKER_COMM)
        self._send(brokers, requests)
        self._go(MigrationDriverState.DUAL_WRITE)

    def _forget_doomed(self, markers: list[ZnodeChange]) -> DriverSteps[None]:
        """Remove topics whose deletion was asked for before the copy: they were not copied (KAFKA-15605)."""
        writer = ZnodeWriter(self._claim.version, self._acl_of)
        for name in sorted(self._doomed):
            if name not in self._image.topics:  # it may have been created again
                yield from writer.delete_tree(paths.topic(name))
                yield from writer.delete_tree(f"{paths.CONFIGS}/topics/{name}")
        if markers:
            yield from self._write(markers, self._progress.state.kraft_metadata_offset, self._image.epoch)
        self._doomed = frozenset()

    def _write_pending(self) -> DriverSteps[None]:
        some = list(self.pending)
        merged: Changes = {}
        for each in some:
            merged |= each.changes
        changes = differences.difference(self._held, merged, self._acl_of)
        if changes:
            yield from self._write(changes, some[-1].next_offset - 1, some[-1].epoch)
        del self.pending[: len(some)]
        for each in some:
            self._send(each.brokers, each.requests)

    def _write(self, changes: list[ZnodeChange], offset: int, epoch: int) -> DriverSteps[None]:
        """Make changes. The last write notes that ZooKeeper has everything up to ``offset``."""
        done = MigrationState(offset, self._node_id, epoch, self._epoch)
        parts = [*_parts(changes)] or [[]]
        for number, part in enumerate(parts, 1):
            mark = (
                Set(paths.MIGRATION, done.encode(), self._progress.version)
                if number == len(parts)
                else Check(paths.MIGRATION, self._progress.version)
            )
            guards = (Check(paths.CONTROLLER_EPOCH, self._claim.version), mark)
            operations = [operation for change in part for operation in change.operations]
            (answer,) = yield [Multi((*guards, *operations))]
            if isinstance(answer, OperationFailed):
                yield from self._explain(answer)
            for change in part:
                if change.after is None:
                    self._held.pop(change.path, None)
                else:
                    self._held[change.path] = change.after
            if number == len(parts):
                self._progress = MigrationProgress(done, answer[1].version)

    def _explain(self, failed: OperationFailed) -> DriverSteps[None]:
        """Find out why a write was refused. Raises Deposed or Doubt."""
        if failed.errors and failed.errors[0] != error_codes.OK:
            raise Deposed(f"somebody else has taken over: {paths.CONTROLLER_EPOCH} is not this controller's any more")
        found = yield from takeover.present()
        mark = found.progress
        if mark is None:
            raise Deposed(f"{paths.MIGRATION} is gone")
        if (mark.state.kraft_controller_id, mark.state.kraft_controller_epoch) != (self._node_id, self._epoch):
            raise Deposed(f"{paths.MIGRATION} is controller {mark.state.kraft_controller_id}'s")
        self._progress = mark  # the answer to an earlier attempt was lost
        raise Doubt(f"a write was refused with {failed}")


def _parts(changes: list[ZnodeChange]) -> Iterable[list[ZnodeChange]]:
    """The changes in parts, each of which fits in one request."""
    part: list[ZnodeChange] = []
    operations = size_bytes = 0
    for change in changes:
        more_bytes = sum(len(each.path) + len(getattr(each, "data", None) or b"") + 64 for each in change.operations)
        is_full = operations + len(change.operations) > OPERATIONS_AT_ONCE or size_bytes + more_bytes > BYTES_AT_ONCE
        if part and is_full:
            yield part
            part, operations, size_bytes = [], 0, 0
        part.append(change)
        operations, size_bytes = operations + len(change.operations), size_bytes + more_bytes
    if part:
        yield part
