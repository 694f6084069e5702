"""Reads the znodes that a migration is about."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.authorization.resources import PatternType
from kpybroker.machines.zookeeper.client.operations import Get
from kpybroker.machines.zookeeper.controller.steps import Steps, children, read
from kpybroker.machines.zookeeper.tree import acls, configs, paths
from kpybroker.machines.zookeeper.tree.topics import TopicAssignment

AT_A_TIME: Final = 500
PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
STRUCTURE: Final = (
    paths.ACLS,
    paths.ACL_CHANGES,
    paths.EXTENDED_ACLS,
    paths.EXTENDED_ACL_CHANGES,
    *(acls.store(pattern) for pattern in PATTERNS[1:]),
    *(f"{acls.store(pattern)}/{kind.pascal_name}" for pattern in PATTERNS for kind in acls.RESOURCE_TYPES),
    "/delegation_token",
    paths.TOKENS,
    paths.TOKEN_CHANGES,
)
"""Parents that are there only if a broker has needed them."""


class StoredZnode(NamedTuple):
    """A znode as ZooKeeper has it."""

    data: bytes | None
    version: int


Tree = dict[str, StoredZnode]


class MigratedMetadata(NamedTuple):
    """The metadata of a cluster in ZooKeeper."""

    tree: Tree
    doomed: frozenset[str]
    """The topics that are to be deleted. They are not in the tree."""

    @property
    def topics(self) -> list[TopicAssignment]:
        """All topics. Raises InvalidZnode."""
        above = f"{paths.TOPICS}/"
        found = (path for path in self.tree if path.startswith(above) and "/" not in path[len(above) :])
        return [TopicAssignment.decode(paths.last(path), self.tree[path].data) for path in found]


def read_metadata() -> Steps[MigratedMetadata]:
    """Read everything that is copied. Raises InvalidZnode for a topic that cannot be understood."""
    tree: Tree = {}
    doomed = frozenset((yield from children(paths.DELETE_TOPICS)))
    topics = [each for each in (yield from children(paths.TOPICS)) if each not in doomed]
    yield from _add(tree, map(paths.topic, topics))
    for topic in topics:
        held = tree.get(paths.topic(topic))
        if held is not None:
            yield from _add_partitions(tree, TopicAssignment.decode(topic, held.data))
    for kind in (configs.TOPICS, configs.BROKERS, configs.USERS, configs.CLIENTS, configs.ADDRESSES):
        yield from _add_children(tree, f"{paths.CONFIGS}/{kind}", doomed if kind == configs.TOPICS else ())
    users = yield from children(f"{paths.CONFIGS}/{configs.USERS}")
    for user in users:
        below = f"{paths.CONFIGS}/{configs.USERS}/{user}/{configs.CLIENTS}"
        yield from _add(tree, [below])
        if below in tree:
            yield from _add_children(tree, below)
    yield from _add(tree, STRUCTURE)
    for pattern in PATTERNS:
        for resource_type in acls.RESOURCE_TYPES:
            path = f"{acls.store(pattern)}/{resource_type.pascal_name}"
            if path in tree:
                yield from _add_children(tree, path)
    if paths.TOKENS in tree:
        yield from _add_children(tree, paths.TOKENS)
    yield from _add(tree, [paths.PRODUCER_IDS])
    return MigratedMetadata(tree, doomed)


def registered_brokers() -> Steps[list[int]]:
    """The ids of the brokers that are registered in ZooKeeper."""
    names = yield from children(paths.BROKER_IDS)
    return sorted(int(each) for each in names if each.isdecimal())


def _add_children(tree: Tree, parent: str, without: Sequence[str] | frozenset[str] = ()) -> Steps[None]:
    names = yield from children(parent)
    yield from _add(tree, (paths.child(parent, each) for each in names if each not in without))


def _add_partitions(tree: Tree, topic: TopicAssignment) -> Steps[None]:
    """Read the states of a topic's partitions, and of those that a lost write has left."""
    parent = f"{paths.topic(topic.name)}/partitions"
    numbers = dict.fromkeys([*map(str, topic.replicas), *(yield from children(parent))])
    below = [path for number in numbers for path in (f"{parent}/{number}", f"{parent}/{number}/state")]
    yield from _add(tree, [parent, *below])


def _add(tree: Tree, wanted: Iterable[str]) -> Steps[None]:
    every = list(wanted)
    for start in range(0, len(every), AT_A_TIME):
        some = every[start : start + AT_A_TIME]
        found: list[Any] = yield from read([Get(path) for path in some])
        for path, znode in zip(some, found, strict=True):
            if znode is not None:
                tree[path] = StoredZnode(znode.data, znode.stat.version)


def brokers_of(topics: Iterable[TopicAssignment]) -> frozenset[int]:
    """The brokers that hold or get replicas of these topics."""
    return frozenset(
        broker_id
        for topic in topics
        for lists in (topic.replicas, topic.adding)
        for brokers in lists.values()
        for broker_id in brokers
    )
