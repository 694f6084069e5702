"""The writes that make ZooKeeper hold what an image wants: the difference between two trees.

The data version of the state of a partition is its partition epoch. It is kept equal to that of the image, so that a
controller in ZooKeeper mode could go on with it.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kpybroker.machines.authorization.resources import PatternType
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Set, Write
from kpybroker.machines.zookeeper.controller.steps import AclOf
from kpybroker.machines.zookeeper.migration.reading import STRUCTURE, StoredZnode, Tree
from kpybroker.machines.zookeeper.migration.wanted import Changes, WantedZnode
from kpybroker.machines.zookeeper.tree import acls, configs, paths, tokens
from kpybroker.machines.zookeeper.tree.cluster import ProducerIdBlock
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch

MOST_REPEATED: Final = 100
"""A version that is further away is not caught up with: only that many writes of one state are made at once."""
_EMPTIED: Final = tuple(
    f"{paths.CONFIGS}/{kind}/" for kind in (configs.BROKERS, configs.USERS, configs.CLIENTS, configs.ADDRESSES)
)
"""Entities whose znode stays when they have no configs left."""


class ZnodeChange(NamedTuple):
    """The operations that change one znode, and what it holds after them; None if it is gone."""

    path: str
    operations: tuple[Write, ...]
    after: StoredZnode | None


def difference(held: Tree, wanted: Changes, acl_of: AclOf) -> list[ZnodeChange]:
    """The changes that lead from ``held`` to ``wanted``, in an order in which ZooKeeper can do them."""
    changes: list[ZnodeChange] = []
    known = set(held)
    for path in sorted(path for path, want in wanted.items() if want is not None):
        want = wanted[path]
        assert want is not None
        change = _changed(path, held.get(path), want, acl_of)
        if change is not None:
            changes += [*_parents(change, known, acl_of), change]
    for path in sorted((path for path, want in wanted.items() if want is None and path in held), reverse=True):
        for change in _removed(path, held[path], acl_of):
            changes += [*_parents(change, known, acl_of), change]
    return changes


def everything(held: Tree, wanted: Changes) -> Changes:
    """``wanted`` with None for each entity in ZooKeeper that an image does not have."""
    gone: Changes = {path: None for path in held if path not in wanted and _is_entity(path)}
    return {**gone, **wanted}


def _is_entity(path: str) -> bool:
    kept = path in STRUCTURE or path == paths.PRODUCER_IDS
    return not kept and not (path.startswith(_EMPTIED) and path.endswith(f"/{configs.CLIENTS}"))


def _parents(change: ZnodeChange, known: set[str], acl_of: AclOf) -> Iterator[ZnodeChange]:
    """Creates the parents that a change needs, if no broker has needed them before."""
    for operation in change.operations:
        parts = operation.path.split("/")
        for depth in range(2, len(parts)):
            parent = "/".join(parts[:depth])
            if parent in STRUCTURE and parent not in known:
                known.add(parent)
                yield ZnodeChange(parent, (Create(parent, None, acl_of(parent)),), StoredZnode(None, 0))


def _changed(path: str, held: StoredZnode | None, want: WantedZnode, acl_of: AclOf) -> ZnodeChange | None:
    if held is not None and _same(path, held, want):
        is_far = want.version is not None and abs(held.version - want.version) > MOST_REPEATED
        if want.version in (None, held.version) or is_far:
            return None
    operations, version = _content(path, held, want, acl_of)
    return ZnodeChange(path, (*operations, *_notices(path, held, want.data, acl_of)), StoredZnode(want.data, version))


def _content(path: str, held: StoredZnode | None, want: WantedZnode, acl_of: AclOf) -> tuple[list[Write], int]:
    """The operations that give a znode its content and its version, and the version after them."""
    operations: list[Write] = []
    version = -1 if held is None else held.version
    goal = want.version if want.version is not None and abs(want.version - version) <= MOST_REPEATED else version + 1
    if version >= goal:
        operations.append(Delete(path, version))
        version = -1
    if version < 0:
        operations.append(Create(path, want.data, acl_of(path)))
        version = 0
    operations += [Set(path, want.data, each) for each in range(version, goal)]
    return operations, max(version, goal)


def _removed(path: str, held: StoredZnode, acl_of: AclOf) -> list[ZnodeChange]:
    if path.startswith(_EMPTIED):
        nothing = configs.encode_configs({})
        change = _changed(path, held, WantedZnode(nothing), acl_of)
        return [] if change is None else [change]
    notices = tuple(_notices(path, held, None, acl_of)) if not path.startswith(f"{paths.CONFIGS}/") else ()
    return [ZnodeChange(path, (Delete(path, held.version), *notices), None)]


def _same(path: str, held: StoredZnode, want: WantedZnode) -> bool:
    """Whether the content means the same. The keys of a JSON object may stand in any order, and a state may have been
    written by an earlier controller."""
    if held.data == want.data:
        return True
    try:
        if want.version is not None:
            present, next_state = (
                LeaderIsrAndControllerEpoch.decode(path, held.data),
                LeaderIsrAndControllerEpoch.decode(path, want.data),
            )
            is_old = present.controller_epoch <= next_state.controller_epoch
            return is_old and _without_epoch(present) == _without_epoch(next_state)
        if path == paths.PRODUCER_IDS:
            block, wanted_block = ProducerIdBlock.decode(held.data), ProducerIdBlock.decode(want.data)
            return block is not None and wanted_block is not None and block.end == wanted_block.end
        if path.startswith(f"{paths.CONFIGS}/"):
            return configs.decode_configs(path, held.data) == configs.decode_configs(path, want.data)
        return bool(_meaning(held.data) == _meaning(want.data))
    except InvalidZnode:
        return False


def _without_epoch(state: LeaderIsrAndControllerEpoch) -> tuple[object, ...]:
    return state.leader, state.leader_epoch, state.isr, state.recovery


def _meaning(data: bytes | None) -> object:
    try:
        value = json.loads(data or b"null")
    except ValueError:
        return data
    if isinstance(value, dict) and isinstance(value.get("acls"), list):
        value["acls"] = sorted(value["acls"], key=json.dumps)
    return value


def _notices(path: str, held: StoredZnode | None, data: bytes | None, acl_of: AclOf) -> Iterable[Write]:
    """The notice by which brokers learn of the change of an entity."""
    parts = path.removeprefix("/").split("/")
    match parts:
        case ["config", "topics" | "brokers" | "users" | "clients" | "ips" as kind, name]:
            if held is not None or configs.decode_configs(path, data):
                yield _notice(paths.CONFIG_CHANGES, configs.CHANGE_PREFIX, _change(kind, name), acl_of)
        case ["config", "users", user, "clients", client]:
            yield _notice(paths.CONFIG_CHANGES, configs.CHANGE_PREFIX, _change("users", user, client), acl_of)
        case ["delegation_token", "tokens", token_id]:
            yield _notice(paths.TOKEN_CHANGES, tokens.CHANGE_PREFIX, token_id.encode(), acl_of)
        case ["kafka-acl", kind, *name]:
            resource = acls.ResourcePattern(acls.resource_type(path, kind), "/".join(name))
            yield _notice(paths.ACL_CHANGES, acls.CHANGE_PREFIX, resource.encode_change(), acl_of)
        case ["kafka-acl-extended", _, kind, *name]:
            pattern = PatternType.PREFIXED
            resource = acls.ResourcePattern(acls.resource_type(path, kind), "/".join(name), pattern)
            yield _notice(paths.EXTENDED_ACL_CHANGES, acls.CHANGE_PREFIX, resource.encode_change(), acl_of)


def _change(kind: str, name: str, client_id: str | None = None) -> bytes:
    return configs.encode_change(ConfigEntity(kind, name, client_id))


def _notice(parent: str, prefix: str, content: bytes, acl_of: AclOf) -> Create:
    return Create(f"{parent}/{prefix}", content, acl_of(parent), is_sequential=True)
