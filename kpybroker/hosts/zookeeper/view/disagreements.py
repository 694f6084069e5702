"""Contradictions in a cluster's znodes, and between them and the answers of its brokers. Pure.

Some are normal for a moment, while the controller works; one that stays is a problem.
"""

from collections.abc import Iterator

from kpybroker.machines.zookeeper.snapshot import TreeSnapshot
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.controller import ElectedController
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment
from kpywire.messages.metadata import MetadataResponse


def in_the_tree(tree: TreeSnapshot) -> list[str]:
    """The contradictions among the znodes."""
    found = list(tree.faults)
    found += _of_the_controller(tree)
    for topic in tree.topics:
        found += _of_a_topic(tree, topic)
    return found


def _of_the_controller(tree: TreeSnapshot) -> Iterator[str]:
    controller_id, epoch = tree.controller_id, tree.controller_epoch
    if paths.BROKER_IDS not in tree.nodes:
        yield f"{paths.BROKER_IDS} is missing: no broker of Kafka has ever used this path. Is the chroot right?"
        return
    if controller_id is None:
        yield f"{paths.CONTROLLER} is missing: the cluster has no controller, or it is being elected"
    elif controller_id not in tree.brokers and not _is_of_kraft(tree):
        yield f"{paths.CONTROLLER} names broker {controller_id}, which is not registered"
    ahead = [
        path
        for path, value in tree.values.items()
        if isinstance(value, LeaderIsrAndControllerEpoch) and _is_ahead(value, epoch)
    ]
    if ahead:
        yield (
            f"{len(ahead)} partition states have a controller_epoch above {paths.CONTROLLER_EPOCH} ({epoch}), such as "
            f"{ahead[0]}: no controller changes them (KAFKA-20488). Raise {paths.CONTROLLER_EPOCH}"
        )
    for path in tree.nodes:
        if path.startswith(f"{paths.DELETE_TOPICS}/"):
            yield f"topic {paths.last(path)} is to be deleted; the controller or a broker may be away"


def _is_of_kraft(tree: TreeSnapshot) -> bool:
    """Whether a KRaft controller has taken over: it is no broker."""
    elected = tree.values.get(paths.CONTROLLER)
    return isinstance(elected, ElectedController) and elected.is_kraft


def _is_ahead(state: LeaderIsrAndControllerEpoch, epoch: int | None) -> bool:
    return epoch is not None and state.controller_epoch > epoch


def _of_a_topic(tree: TreeSnapshot, topic: TopicAssignment) -> Iterator[str]:
    if topic.topic_id is None:
        yield f"topic {topic.name} has no id: the next controller of Kafka 2.8 or newer gives it one"
    if f"/config/topics/{topic.name}" not in tree.nodes:
        yield f"topic {topic.name} has no znode for its configs"
    for index, replicas in topic.replicas.items():
        yield from _of_a_partition(tree, f"{topic.name}-{index}", replicas, tree.state(topic.name, index))
        if index in topic.adding or index in topic.removing:
            yield f"{topic.name}-{index} is being reassigned: {list(replicas)}"


def _of_a_partition(
    tree: TreeSnapshot, name: str, replicas: tuple[int, ...], state: LeaderIsrAndControllerEpoch | None
) -> Iterator[str]:
    if state is None:
        yield f"{name} has no state: none of its replicas {list(replicas)} has been alive since it was created"
        return
    if state.leader < 0:
        yield f"{name} has no leader; in its ISR are {list(state.isr)}"
    elif state.leader not in tree.brokers:
        yield f"{name} is led by broker {state.leader}, which is not registered"
    elif state.leader not in state.isr:
        yield f"{name} is led by broker {state.leader}, which is not in its ISR {list(state.isr)}"
    strangers = [each for each in state.isr if each not in replicas]
    if strangers:
        yield f"{name} has {strangers} in its ISR, which are none of its replicas {list(replicas)}"
    behind = [each for each in replicas if each not in state.isr]
    if behind:
        yield f"{name}: the replicas on {behind} are not in sync"


def with_a_broker(tree: TreeSnapshot, broker_id: int, answer: MetadataResponse) -> list[str]:
    """The contradictions between the znodes and what a broker tells its clients."""
    found = []
    if tree.controller_id is not None and answer.controller_id != tree.controller_id:
        found.append(
            f"broker {broker_id} takes broker {answer.controller_id} for the controller; ZooKeeper names "
            f"{tree.controller_id}"
        )
    listed = {each.node_id for each in answer.brokers}
    if listed != tree.brokers.keys():
        found.append(
            f"broker {broker_id} lists the brokers {sorted(listed)}; registered are {sorted(tree.brokers.keys())}"
        )
    known = {each.name: each for each in answer.topics if each.name is not None}
    topics = {each.name: each for each in tree.topics}
    found += [f"broker {broker_id} does not know the topic {name}" for name in sorted(topics.keys() - known.keys())]
    found += [
        f"broker {broker_id} knows the topic {name}, which is not in ZooKeeper"
        for name in sorted(known.keys() - topics.keys())
    ]
    for name in sorted(topics.keys() & known.keys()):
        for partition in known[name].partitions:
            state = tree.state(name, partition.partition_index)
            seen = partition.leader_id, partition.leader_epoch
            if state is not None and seen != (state.leader, state.leader_epoch):
                found.append(
                    f"broker {broker_id} says that broker {seen[0]} leads {name}-{partition.partition_index} in epoch "
                    f"{seen[1]}; ZooKeeper has broker {state.leader} in epoch {state.leader_epoch}"
                )
    return found
