"""The progress of a cluster from ZooKeeper to KRaft: the phase, what is left, and what may go wrong next. Pure."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from kpybroker.machines.zookeeper.snapshot import TreeSnapshot
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.controller import ElectedController, MigrationState
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch

FLAG = "zookeeper.metadata.migration.enable"


class MigrationPhase(Enum):
    """The phases, with their names for people."""

    IN_ZOOKEEPER = "not begun: the metadata are in ZooKeeper alone"
    PREPARED = "prepared: the controllers wait for the brokers, nothing is copied yet"
    COPYING = "copying: a KRaft controller has taken over and copies the metadata"
    DUAL_WRITE = "dual write: a KRaft controller rules, and writes each change into ZooKeeper too"
    FINALISED = "finalised: the controllers no longer use ZooKeeper"


class NodeAnswer(NamedTuple):
    """The answer of a node. ``is_ready``: whether it is configured for the migration; None if it did not answer."""

    name: str
    is_ready: bool | None


class MigrationOverview(NamedTuple):
    """The state of the migration."""

    phase: MigrationPhase
    facts: dict[str, object]
    left: list[str]
    """The next things that somebody has to do, in order."""
    risks: list[str]
    """The next things that may go wrong."""


def progress_of(
    tree: TreeSnapshot, brokers: Mapping[int, NodeAnswer], controllers: list[NodeAnswer]
) -> MigrationOverview:
    """The state of the migration. ``brokers`` in ZooKeeper mode and ``controllers`` are what they answered; none were
    asked where there are none."""
    elected = tree.values.get(paths.CONTROLLER)
    mark = tree.values.get(paths.MIGRATION)
    kraft = elected if isinstance(elected, ElectedController) and elected.is_kraft else None
    phase = _phase(kraft, mark if isinstance(mark, MigrationState) else None, controllers)
    facts: dict[str, object] = {
        "controller": None if not isinstance(elected, ElectedController) else elected.broker_id,
        "controller epoch in ZooKeeper": tree.controller_epoch,
        "brokers in ZooKeeper mode": sorted(tree.brokers),
        "topics": len(tree.topics),
    }
    if isinstance(mark, MigrationState) and mark.kraft_metadata_offset >= 0:
        facts["offset of the metadata log that ZooKeeper has"] = mark.kraft_metadata_offset
        facts["epoch of the quorum"] = mark.kraft_controller_epoch
    return MigrationOverview(
        phase, facts, list(_left(phase, tree, brokers, controllers)), list(_risks(phase, tree, controllers))
    )


def _phase(
    kraft: ElectedController | None, mark: MigrationState | None, controllers: list[NodeAnswer]
) -> MigrationPhase:
    if mark is None:
        return MigrationPhase.IN_ZOOKEEPER
    if kraft is None:
        return MigrationPhase.PREPARED if mark.kraft_metadata_offset < 0 else MigrationPhase.IN_ZOOKEEPER
    if mark.kraft_metadata_offset < 0:
        return MigrationPhase.COPYING
    answered = [each.is_ready for each in controllers if each.is_ready is not None]
    return MigrationPhase.FINALISED if answered and not any(answered) else MigrationPhase.DUAL_WRITE


def _left(
    phase: MigrationPhase, tree: TreeSnapshot, brokers: Mapping[int, NodeAnswer], controllers: list[NodeAnswer]
) -> Iterator[str]:
    unready = sorted(each.name for each in controllers if each.is_ready is False)
    without = sorted(broker_id for broker_id, each in brokers.items() if each.is_ready is False)
    if phase is MigrationPhase.IN_ZOOKEEPER:
        yield f"format and start controllers with {FLAG}=true, zookeeper.connect and the cluster id in /cluster/id"
    if phase in (MigrationPhase.IN_ZOOKEEPER, MigrationPhase.PREPARED):
        if phase is MigrationPhase.PREPARED and unready:
            yield f"set {FLAG}=true on the controllers {', '.join(unready)}"
        if without:
            yield (
                f"restart the brokers {_listed(without)} one by one with {FLAG}=true, controller.listener.names and "
                "controller.quorum.bootstrap.servers"
            )
        missing = sorted(_assigned(tree) - set(tree.brokers))
        if missing:
            yield f"start the brokers {_listed(missing)}: they hold replicas, so the copy waits for them"
        if phase is MigrationPhase.PREPARED and not (unready or without or missing):
            yield "nothing by hand: the copy begins when all brokers are registered with the quorum"
    if phase is MigrationPhase.COPYING:
        yield "nothing by hand: wait"
    if phase is MigrationPhase.DUAL_WRITE:
        if tree.brokers:
            yield (
                f"restart the brokers {_listed(sorted(tree.brokers))} one by one with process.roles=broker and without "
                f"zookeeper.connect and {FLAG}"
            )
        else:
            yield f"remove {FLAG} and zookeeper.connect from the controllers, and restart them: that is final"
    if phase is MigrationPhase.FINALISED:
        if tree.brokers:
            yield f"stop the brokers {_listed(sorted(tree.brokers))}: they are still in ZooKeeper mode"
        yield "ZooKeeper is not needed any more"


def _risks(phase: MigrationPhase, tree: TreeSnapshot, controllers: list[NodeAnswer]) -> Iterator[str]:
    yield from tree.faults
    epoch = tree.controller_epoch
    states = {path: value for path, value in tree.values.items() if isinstance(value, LeaderIsrAndControllerEpoch)}
    ahead = [path for path, value in states.items() if epoch is not None and value.controller_epoch > epoch]
    if ahead:
        yield (
            f"{len(ahead)} states of partitions have a controller_epoch above {epoch}, such as {ahead[0]}: on the way "
            f"back no controller of Apache Kafka would change them (KAFKA-20488). Raise {paths.CONTROLLER_EPOCH} first"
        )
    for each in controllers:
        if each.is_ready is None:
            yield f"the controller {each.name} does not answer"
    ready = {each.is_ready for each in controllers} - {None}
    if phase is MigrationPhase.DUAL_WRITE and len(ready) > 1:
        yield "some controllers are without the flag: when one of them becomes active, the migration is final"
        if tree.brokers:
            yield (
                f"the brokers {_listed(sorted(tree.brokers))} are in ZooKeeper mode: a controller of Apache Kafka "
                "would leave them behind, one of kpybroker would stop"
            )
    if phase in (MigrationPhase.IN_ZOOKEEPER, MigrationPhase.PREPARED):
        for topic in tree.topics:
            if topic.topic_id is None:
                yield f"topic {topic.name} has no id and cannot be copied"
        for path, node in tree.nodes.items():
            if path.startswith("/config/brokers/") and b"encryptedPassword:" in (node.data or b""):
                yield f"{path} has an encrypted password: the controllers need password.encoder.secret to copy it"
    doomed = [paths.last(path) for path in tree.nodes if path.startswith(f"{paths.DELETE_TOPICS}/")]
    if doomed:
        yield f"the topics {', '.join(sorted(doomed))} are being deleted; they are not copied"


def _assigned(tree: TreeSnapshot) -> set[int]:
    return {each for topic in tree.topics for replicas in topic.replicas.values() for each in replicas}


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
