"""The two znodes by which a KRaft controller takes over: ``/migration``, which says how much of the metadata log
ZooKeeper has, and ``/controller``, which it holds for good instead of for a session.
"""

from typing import Any, NamedTuple

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Get, Multi, OperationFailed, Set, Sync, Write
from kpybroker.machines.zookeeper.controller.steps import AclOf, Steps, UnexpectedAnswer, expected, failed_with, read
from kpybroker.machines.zookeeper.tree import controller, paths
from kpybroker.machines.zookeeper.tree.controller import ElectedController, MigrationState

NOTHING_COPIED = MigrationState(-1, -1, -1, -1)


class MigrationProgress(NamedTuple):
    """The content of ``/migration`` with its data version."""

    state: MigrationState
    version: int

    @property
    def is_copied(self) -> bool:
        """Whether everything in ZooKeeper was copied into the metadata log."""
        return self.state.kraft_metadata_offset >= 0


class Claim(NamedTuple):
    """``/controller_epoch`` since this controller took over: its number, and its data version."""

    epoch: int
    version: int


class MigrationZnodes(NamedTuple):
    """The znodes as they are."""

    controller: ElectedController | None
    progress: MigrationProgress | None

    @property
    def is_of_kraft(self) -> bool:
        """Whether a KRaft controller took over, and no broker since."""
        return self.controller is not None and self.controller.is_kraft


def present() -> Steps[MigrationZnodes]:
    """Read both znodes from the leader of the ensemble: an old state must not decide (KAFKA-16171)."""
    yield [Sync(paths.MIGRATION)]
    elected, migration = yield from read([Get(paths.CONTROLLER), Get(paths.MIGRATION)])
    progress = (
        None if migration is None else MigrationProgress(MigrationState.decode(migration.data), migration.stat.version)
    )
    return MigrationZnodes(None if elected is None else ElectedController.decode(elected.data), progress)


def begin(acl_of: AclOf) -> Steps[MigrationProgress]:
    """Make ``/migration``, or read it if it is there."""
    path = paths.MIGRATION
    while True:
        found = yield from present()
        if found.progress is not None:
            return found.progress
        (made,) = yield [Create(path, NOTHING_COPIED.encode(), acl_of(path))]
        if not failed_with(made, error_codes.NODE_EXISTS):
            expected(made, path)


def claim(
    node_id: int, kraft_epoch: int, progress: MigrationProgress, now_ms: int, acl_of: AclOf
) -> Steps[tuple[Claim, MigrationProgress] | None]:
    """Take ``/controller`` and the next epoch; None if a controller of a later epoch has it, or it changed meanwhile.

    The epoch is at least as large as any that a KRaft controller may have written into the states of partitions.
    """
    elected, epoch = yield from read([Get(paths.CONTROLLER), Get(paths.CONTROLLER_EPOCH)])
    holder = None if elected is None else ElectedController.decode(elected.data)
    number = 0 if epoch is None else controller.decode_epoch(epoch.data)
    if holder is not None and epoch is not None and holder.is_kraft:
        if holder.kraft_epoch > kraft_epoch:
            return None
        is_own = (holder.broker_id, holder.kraft_epoch) == (node_id, kraft_epoch)
        mark = progress.state
        if is_own and (mark.kraft_controller_id, mark.kraft_controller_epoch) == (node_id, kraft_epoch):
            return Claim(number, epoch.stat.version), progress  # the answer to an earlier attempt was lost
    number = max(number, kraft_epoch) + 1
    state = progress.state
    marked = MigrationState(state.kraft_metadata_offset, node_id, state.kraft_metadata_epoch, kraft_epoch)
    operations: list[Write] = [_next_epoch(number, epoch, acl_of)]
    if elected is not None:
        operations.append(Delete(paths.CONTROLLER, elected.stat.version))
    content = ElectedController(node_id, now_ms, kraft_epoch).encode()
    operations.append(Create(paths.CONTROLLER, content, acl_of(paths.CONTROLLER)))
    operations.append(Set(paths.MIGRATION, marked.encode(), progress.version))
    (answer,) = yield [Multi(operations)]
    if isinstance(answer, OperationFailed):
        if answer.code in (error_codes.BAD_VERSION, error_codes.NODE_EXISTS, error_codes.NO_NODE):
            return None
        raise UnexpectedAnswer(answer, paths.CONTROLLER)
    version = 0 if epoch is None else answer[0].version
    return Claim(number, version), MigrationProgress(marked, answer[-1].version)


def _next_epoch(number: int, epoch: Any, acl_of: AclOf) -> Write:
    path, content = paths.CONTROLLER_EPOCH, controller.encode_epoch(number)
    return Create(path, content, acl_of(path)) if epoch is None else Set(path, content, epoch.stat.version)
