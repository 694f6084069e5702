"""The state of rest of a cluster in ZooKeeper mode: the znodes, the controller and all brokers say the same.

Every broker is registered by the session it has. One controller reigns, and knows of nothing left to do. Every
partition is led and followed in the epoch that its state has, by replicas that are all in sync. Brokers have the
configs that are in ZooKeeper. No marker is left.
"""

from collections.abc import Iterator
from typing import Any

from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.machines.zookeeper.controller.context import PartitionState, ReplicaState
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.controller import ElectedController

from .zookeeper_machine import ZooKeeperMachine
from .zookeeper_rules import ZooKeeperRules


def unsettled_znodes(machines: list[ZooKeeperMachine], rules: ZooKeeperRules) -> str:
    """The first thing that is not yet at rest; nothing once all is."""
    return next(_unsettled(machines, rules), "")


def _unsettled(machines: list[ZooKeeperMachine], rules: ZooKeeperRules) -> Iterator[str]:
    tree = rules.tree
    for machine in machines:
        if not machine.is_up:
            yield f"{machine} is not up"
            return
        registered = tree.node(paths.broker(machine.node_id))
        epoch = machine.node.source.joined.registration.broker_epoch
        if registered is None or registered.czxid != epoch:
            yield f"{machine} has epoch {epoch}, and its registration {getattr(registered, 'czxid', 'is missing')}"
    for parent in (paths.DELETE_TOPICS, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
        if tree.children(parent):
            yield f"{parent} has {tree.children(parent)}"
    for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION):
        if tree.node(path) is not None:
            yield f"{path} is there"
    yield from _controller(machines, rules)
    yield from _partitions(machines, rules)
    yield from _configs(machines, rules)


def _controller(machines: list[ZooKeeperMachine], rules: ZooKeeperRules) -> Iterator[str]:
    znode = rules.tree.node(paths.CONTROLLER)
    reigning = [each for each in machines if each.is_controller]
    if znode is None or len(reigning) != 1:
        yield f"{[str(each) for each in reigning]} reign"
        return
    (controller,) = reigning
    elected = ElectedController.decode(znode.data).broker_id
    if elected != controller.node_id:
        yield f"{controller} reigns, and /controller names n{elected}"
    context = controller.controller.reign.context
    if context.epoch != rules.epoch:
        yield f"{controller} reigns in epoch {context.epoch}, and it is {rules.epoch}"
    ids = {each.node_id: each.node.source.joined.registration.broker_epoch for each in machines}
    if {each: live.epoch for each, live in context.brokers.items()} != ids:
        yield f"{controller} knows other brokers than {ids}"
    if context.to_be_deleted or context.reassigned:
        yield f"{controller} deletes {list(context.to_be_deleted)} and moves {list(context.reassigned)}"
    for partition, partition_state in context.partition_states.items():
        if partition_state is not PartitionState.ONLINE:
            yield f"{partition} is {partition_state.value}"
    for replica, replica_state in context.replica_states.items():
        if replica_state is not ReplicaState.ONLINE:
            yield f"{replica} is {replica_state.value}"
    for machine in machines:
        known = machine.node.source.joined.known.controller_id, machine.node.source.joined.ruler.controller_id
        seen = machine.node.broker.orders._requests.controller_epoch
        if seen != rules.epoch:
            yield f"{machine} obeys controllers from epoch {seen} on, and it is {rules.epoch}"
        if known != (controller.node_id, controller.node_id):
            yield f"{machine} takes n{known[0]} for the controller, and tells clients n{known[1]}"


def _partitions(machines: list[ZooKeeperMachine], rules: ZooKeeperRules) -> Iterator[str]:
    tree, by_id = rules.tree, {each.node_id: each for each in machines}
    names = tree.children(paths.TOPICS)
    for machine in machines:
        image = machine.node.broker.image
        if set(image.topics) != set(names):
            yield f"{machine} knows {sorted(image.topics)}, and there are {sorted(names)}"
        if set(image.brokers) != set(by_id):
            yield f"{machine} knows the brokers {sorted(image.brokers)}"
    for name in names:
        topic = tree.topic(name)
        assert topic is not None
        if topic.adding or topic.removing:
            yield f"{name} is being reassigned"
        for index, replicas in topic.replicas.items():
            yield from _partition(by_id, rules, topic, index, replicas)


def _configs(machines: list[ZooKeeperMachine], rules: ZooKeeperRules) -> Iterator[str]:
    for machine in machines:
        known = [ConfigEntity(configs.TOPICS, each) for each in rules.tree.children(paths.TOPICS)]
        known += [ConfigEntity(configs.BROKERS, each) for each in (configs.DEFAULT_NAME, str(machine.node_id))]
        for entity in known:
            node = rules.tree.node(entity.path)
            wanted = {} if node is None else configs.decode_configs(entity.path, node.data)
            resource_type = TOPIC_RESOURCE if entity.kind == configs.TOPICS else BROKER_RESOURCE
            name = "" if entity.name == configs.DEFAULT_NAME else entity.name
            found = dict(machine.node.broker.image.configs_of(resource_type, name))
            if found != wanted:
                yield f"{machine} has {found} for {entity.path}, and it is {wanted}"


def _partition(
    by_id: dict[int, ZooKeeperMachine], rules: ZooKeeperRules, topic: Any, index: int, replicas: tuple[int, ...]
) -> Iterator[str]:
    name, state = f"{topic.name}-{index}", rules.tree.state(topic.name, index)
    if state is None or set(state.isr) != set(replicas) or state.leader not in state.isr:
        yield f"{name} of {replicas} has the state {state}"
        return
    version = rules.tree.node(paths.partition_state(topic.name, index)).version
    wanted = (topic.topic_id, state.leader, state.leader_epoch, version, set(state.isr))
    for machine in by_id.values():
        known = machine.node.broker.image.topics.get(topic.name)
        partition = None if known is None else known.partitions.get(index)
        if known is None or partition is None:
            yield f"{machine} does not know {name}"
            continue
        found = (known.id, partition.leader, partition.leader_epoch, partition.partition_epoch, set(partition.isr))
        if found != wanted:
            yield f"{machine} knows {name} as {found[1:]}, and it is {wanted[1:]}"
    for node_id in replicas:
        held = by_id[node_id].node.broker.replicas.topics.get(topic.name)
        replica = None if held is None else held.replicas.get(index)
        leads = replica is not None and replica.is_led_here  # its role begins at the first need
        if replica is None or leads != (node_id == state.leader) or replica.partition.leader_epoch < state.leader_epoch:
            yield f"n{node_id} holds {replica} of {name}, and it is led by n{state.leader} in {state.leader_epoch}"
