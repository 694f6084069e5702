"""The election of the controller: who creates ``/controller`` together with the next epoch (Kafka's ``elect``)."""

from typing import NamedTuple

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Create, Exists, Get, Multi, OperationFailed, Set, Znode
from kpybroker.machines.zookeeper.controller.steps import (
    AclOf,
    ControllerMoved,
    Steps,
    UnexpectedAnswer,
    expected,
    failed_with,
    read,
)
from kpybroker.machines.zookeeper.tree import controller, paths


class Won(NamedTuple):
    """An election that this broker won: its epoch, and the data version of ``/controller_epoch``."""

    epoch: int
    epoch_version: int


def current_controller() -> Steps[controller.ElectedController | None]:
    """The controller of now. Its change is watched, and its election where there is none."""
    # reading an absent znode leaves no watch, asking for its existence does
    _, znode = yield from read([Exists(paths.CONTROLLER, is_watched=True), Get(paths.CONTROLLER)])
    return None if znode is None else controller.ElectedController.decode(znode.data)


def elect(broker_id: int, now_ms: int, acl_of: AclOf) -> Steps[Won]:
    """Become the controller, or raise ``ControllerMoved``.

    An answer may have been lost after ZooKeeper did it all: then both znodes say that this broker won.
    """
    before = yield from _epoch(acl_of)
    epoch = controller.decode_epoch(before.data) + 1
    znode = controller.ElectedController(broker_id, now_ms)
    operations = (
        Create(paths.CONTROLLER, znode.encode(), acl_of(paths.CONTROLLER), is_ephemeral=True),
        Set(paths.CONTROLLER_EPOCH, controller.encode_epoch(epoch), before.stat.version),
    )
    (answer,) = yield [Multi(operations)]
    if not isinstance(answer, OperationFailed):
        return Won(epoch, answer[1].version)
    if answer.code not in (error_codes.NODE_EXISTS, error_codes.BAD_VERSION):
        raise UnexpectedAnswer(answer, paths.CONTROLLER)
    elected, after = yield from read([Get(paths.CONTROLLER), Get(paths.CONTROLLER_EPOCH)])
    if elected is not None and after is not None:
        winner = controller.ElectedController.decode(elected.data)
        if (winner.broker_id, controller.decode_epoch(after.data)) == (broker_id, epoch):
            return Won(epoch, after.stat.version)
    raise ControllerMoved("another broker was elected as the controller")


def _epoch(acl_of: AclOf) -> Steps[Znode]:
    """The epoch znode. It is created with epoch 0 before the first election of a cluster."""
    while True:
        (znode,) = yield from read([Get(paths.CONTROLLER_EPOCH)])
        if znode is not None:
            found: Znode = znode
            return found
        (result,) = yield [Create(paths.CONTROLLER_EPOCH, controller.encode_epoch(0), acl_of(paths.CONTROLLER_EPOCH))]
        if not failed_with(result, error_codes.NODE_EXISTS):
            expected(result, paths.CONTROLLER_EPOCH)
