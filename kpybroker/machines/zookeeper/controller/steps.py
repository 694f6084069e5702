"""The steps of an event: operations for ZooKeeper, and what became of them.

Invariant: whatever a controller writes or deletes carries the check that its epoch is still the newest
(``ZookeeperClient`` of Kafka calls this ``expectedControllerEpochZkVersion``). One that was replaced writes nothing.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, TypeVar

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import (
    Check,
    Create,
    Delete,
    GetChildren,
    Multi,
    Operation,
    OperationFailed,
    Write,
    ZnodeAcl,
)
from kpybroker.machines.zookeeper.tree import paths

T = TypeVar("T")
AclOf = Callable[[str], Sequence[ZnodeAcl]]
"""The ACLs of a znode, by its path."""
Steps = Generator[Sequence[Operation], Sequence[Any], T]
"""Yields operations that may be sent together; gets a result for each: a value, or ``OperationFailed``."""

_CREATED_ON_DEMAND: Final = None
"""The content of parents that are made because a child is to be created."""


class ControllerMoved(Exception):
    """Another controller was elected (``ControllerMovedException``). The reign ends; nothing more is written."""


class UnexpectedAnswer(Exception):
    """ZooKeeper refused an operation that the controller cannot do without. It resigns."""

    def __init__(self, failed: OperationFailed, path: str) -> None:
        super().__init__(f"ZooKeeper answers {failed} for {path}")


class ZnodeWriter:
    """Writes for one reign. ``epoch_version`` is the data version of ``/controller_epoch`` since its election.
    ``acl_of`` gives the ACLs of the znodes that are created."""

    __slots__ = ("acl_of", "epoch_version")

    def __init__(self, epoch_version: int, acl_of: AclOf) -> None:
        self.epoch_version = epoch_version
        self.acl_of = acl_of

    def write(self, operations: Sequence[Write]) -> Steps[list[Any]]:
        """Do each operation by itself, if the reign has not ended. The results are values or ``OperationFailed``."""
        check = Check(paths.CONTROLLER_EPOCH, self.epoch_version)
        answers = yield [Multi((check, each)) for each in operations]
        results: list[Any] = []
        for answer in answers:
            if not isinstance(answer, OperationFailed):
                results.append(answer[1])
            elif answer.errors and answer.errors[0] != error_codes.OK:
                raise ControllerMoved(f"the version of {paths.CONTROLLER_EPOCH} is not {self.epoch_version} any more")
            else:
                results.append(answer)
        return results

    def write_all(self, operations: Sequence[Write]) -> Steps[None]:
        """Do operations that may not fail."""
        results = yield from self.write(operations)
        for operation, result in zip(operations, results, strict=True):
            expected(result, operation.path)

    def delete_if_there(self, znodes: Iterable[str]) -> Steps[None]:
        """Delete znodes without children. Absent ones are no error."""
        operations = [Delete(each) for each in znodes]
        results = yield from self.write(operations)
        for operation, result in zip(operations, results, strict=True):
            if not failed_with(result, error_codes.NO_NODE):
                expected(result, operation.path)

    def create_if_absent(self, znodes: Iterable[str]) -> Steps[None]:
        """Create parents. Those that are there stay."""
        operations = [Create(each, _CREATED_ON_DEMAND, self.acl_of(each)) for each in znodes]
        results = yield from self.write(operations)
        for operation, result in zip(operations, results, strict=True):
            if not failed_with(result, error_codes.NODE_EXISTS):
                expected(result, operation.path)

    def delete_tree(self, path: str) -> Steps[None]:
        """Delete a znode and everything below it, children first."""
        names = yield from children(path)
        for name in names:
            yield from self.delete_tree(paths.child(path, name))
        yield from self.delete_if_there([path])


def read(operations: Sequence[Operation]) -> Steps[list[Any]]:
    """Read. An absent znode is None; any other failure ends the reign."""
    answers = yield operations
    results: list[Any] = []
    for operation, answer in zip(operations, answers, strict=True):
        absent = failed_with(answer, error_codes.NO_NODE)
        results.append(None if absent else expected(answer, getattr(operation, "path", "")))
    return results


def children(path: str, *, is_watched: bool = False) -> Steps[list[str]]:
    """The names of a znode's children. None are there if it is absent."""
    (found,) = yield from read([GetChildren(path, is_watched)])
    return [] if found is None else found.names


def failed_with(result: object, code: int) -> bool:
    """Whether an operation failed with this error."""
    return isinstance(result, OperationFailed) and result.code == code


def expected(result: Any, path: str) -> Any:
    """The result of an operation that may not fail."""
    if isinstance(result, OperationFailed):
        raise UnexpectedAnswer(result, path)
    return result
