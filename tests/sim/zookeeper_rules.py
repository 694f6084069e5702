"""Rules for the znodes of a cluster, checked after each write that counts.

The epoch of the controller grows by one with each election, and nobody writes what is the controller's but the session
that was elected last. The state of a partition changes only at the version that was read; its epochs never go back,
and who is elected was in sync. A topic is deleted only if somebody asked for it, and the marker goes last. Blocks of
producer ids do not overlap.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kpybroker.machines.metadata.topic import NO_LEADER, RECOVERING
from kpybroker.machines.zookeeper.client.operations import ANY_VERSION, Check, Create, Delete, Set, Write
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.cluster import ProducerIdBlock
from kpybroker.machines.zookeeper.tree.controller import decode_epoch
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment

from .ensemble_tree import Outcome, Transaction, writes_of
from .invariants import Invariants, Known, Place
from .zookeeper_machine import CHROOT, ZooKeeperMachine

if TYPE_CHECKING:
    from .ensemble import Ensemble

OPERATOR = 0
"""The session of people who change znodes by hand."""


class Tree:
    """The znodes of the cluster, as they count."""

    def __init__(self, ensemble: "Ensemble") -> None:
        self._nodes = ensemble.truth

    def node(self, path: str) -> Any:
        """A znode; None if there is none."""
        return self._nodes.nodes.get(CHROOT + path)

    def children(self, path: str) -> list[str]:
        """The names of its children."""
        node = self.node(path)
        return [] if node is None else list(node.children)

    def topic(self, name: str) -> TopicAssignment | None:
        """The assignment of a topic."""
        node = self.node(paths.topic(name))
        return None if node is None else TopicAssignment.decode(name, node.data)

    def state(self, topic: str, index: int) -> LeaderIsrAndControllerEpoch | None:
        """The state of a partition."""
        path = paths.partition_state(topic, index)
        node = self.node(path)
        return None if node is None else LeaderIsrAndControllerEpoch.decode(path, node.data)


class ZooKeeperRules(Invariants):
    """The rules of znodes, and of brokers and controllers in ZooKeeper mode, and those of all replicas."""

    def watch(self, ensemble: "Ensemble") -> None:
        """Look at every write from now on."""
        self.tree = Tree(ensemble)
        self.epoch = 0
        self._reigning = OPERATOR
        """The session that was elected last."""
        self._states: dict[str, LeaderIsrAndControllerEpoch] = {}
        self._topics: dict[str, TopicAssignment] = {}
        self._reigns: dict[int, tuple[int, int]] = {}
        self._seen: dict[tuple[int, int], int] = {}
        """By node and life: the newest epoch of a controller that its broker knows."""
        self._led: dict[Any, int] = {}
        """By replica: the newest leader epoch that it was ordered."""
        self._next_producer_id = 0
        self._doomed: set[bytes] = set()
        """The ids of topics that are to be deleted: their logs are, while their states stay as they were."""
        ensemble.on_commit = self._committed

    # Writes

    def _committed(self, entry: Transaction, outcome: Outcome) -> None:
        if not outcome.is_done or entry.session_id == OPERATOR:
            return
        operations = list(writes_of(entry))
        for each in operations:
            if isinstance(each, Check) or not each.path.startswith(f"{CHROOT}/"):
                continue
            self._wrote(entry.session_id, each._replace(path=each.path.removeprefix(CHROOT)), operations)

    def _wrote(self, session_id: int, write: Write, together: Sequence[Write]) -> None:
        path, violated = write.path, self.world.violated
        parts = path.split("/")
        if path == paths.CONTROLLER_EPOCH and isinstance(write, Set):
            self._elected(session_id, write, together)
        elif path == paths.CONTROLLER and isinstance(write, Create) and not write.is_ephemeral:
            violated("/controller does not end with its session")
        elif path == paths.PRODUCER_IDS and isinstance(write, Set):
            self._took_producer_ids(write)
        elif path.startswith(f"{paths.BROKER_IDS}/") and isinstance(write, Create) and not write.is_ephemeral:
            violated(f"{path} does not end with its session")
        elif path.startswith(f"{paths.TOPICS}/"):
            if len(parts) > 4 or isinstance(write, Delete):
                self._is_controllers(session_id, write)
            if path.endswith("/state"):
                self._changed_state(parts[3], int(parts[5]), write)
            elif len(parts) == 4:
                self._changed_topic(parts[3], write)
        elif path.startswith(f"{paths.DELETE_TOPICS}/") and isinstance(write, Create):
            topic = self.tree.topic(parts[3])
            self._doomed |= {topic.topic_id} if topic is not None and topic.topic_id is not None else set()
        elif path.startswith(f"{paths.DELETE_TOPICS}/") and isinstance(write, Delete):
            self._is_controllers(session_id, write)
            if self.tree.node(paths.topic(parts[3])) is not None:
                violated(f"the marker of {parts[3]} is gone, and the topic is there")

    def _is_controllers(self, session_id: int, write: Write) -> None:
        if session_id != self._reigning:
            self.world.violated(
                f"{write} was written by session 0x{session_id:x}, and the controller of epoch {self.epoch} is of "
                f"session 0x{self._reigning:x}"
            )

    def _elected(self, session_id: int, write: Set, together: Sequence[Write]) -> None:
        epoch = decode_epoch(write.data)
        if epoch != self.epoch + 1:
            self.world.violated(f"the epoch of the controller was {self.epoch}, and is {epoch}")
        if not any(isinstance(each, Create) and each.path == CHROOT + paths.CONTROLLER for each in together):
            self.world.violated(f"epoch {epoch} begins, and nobody is elected")
        self.epoch, self._reigning = epoch, session_id

    def _took_producer_ids(self, write: Set) -> None:
        block = ProducerIdBlock.decode(write.data)
        assert block is not None
        if block.start < self._next_producer_id:
            self.world.violated(f"{block} begins below {self._next_producer_id}, which was given away")
        self._next_producer_id = block.end

    def _changed_topic(self, name: str, write: Write) -> None:
        if isinstance(write, Delete):
            self._topics.pop(name, None)
            if self.tree.node(paths.delete_topic(name)) is None:
                self.world.violated(f"{name} is deleted, and nobody asked for it")
            return
        before, topic = self._topics.get(name), self.tree.topic(name)
        assert topic is not None
        if before is not None and before.topic_id != topic.topic_id:
            self.world.violated(f"{name} has another id")
        if before is not None and before.replicas.keys() - topic.replicas.keys():
            self.world.violated(f"{name} had partitions {list(before.replicas)}, and has {list(topic.replicas)}")
        for index in () if before is None else before.adding.keys() - topic.adding.keys():
            self._came_to_its_end(topic, index, set(before.adding[index]))
        self._topics[name] = topic

    def _came_to_its_end(self, topic: TopicAssignment, index: int, added: set[int]) -> None:
        """A reassignment is over, with or without the replicas that it added."""
        state, replicas = self.tree.state(topic.name, index), set(topic.replicas[index])
        if added <= replicas and (state is None or not replicas <= set(state.isr)):
            self.world.violated(f"{topic.name}-{index} has moved to {replicas}, and its state is {state}")

    def _changed_state(self, name: str, index: int, write: Write) -> None:
        path = write.path
        before = self._states.get(path)
        if isinstance(write, Delete):
            del self._states[path]
            return
        node, topic = self.tree.node(path), self.tree.topic(name)
        state = self._states[path] = LeaderIsrAndControllerEpoch.decode(path, node.data)
        if isinstance(write, Set) and write.version == ANY_VERSION:
            self.world.violated(f"{path} is written at any version")
        if topic is None or topic.topic_id is None:
            self.world.violated(f"{path} is of no topic")
            return
        self._look_at_state(f"{name}-{index}", topic.replicas.get(index, ()), before, state)
        place = (name, topic.topic_id, index)
        granted = frozenset(state.isr)
        if self._granted.setdefault((place, node.version), granted) != granted:
            self.world.violated(f"{name}-{index} has two in-sync sets in its epoch {node.version}")
        if name not in self.reckless:
            self._note_members(place, node.version, {*state.isr})

    def _look_at_state(
        self,
        name: str,
        replicas: Sequence[int],
        before: LeaderIsrAndControllerEpoch | None,
        state: LeaderIsrAndControllerEpoch,
    ) -> None:
        violated = self.world.violated
        if state.controller_epoch != self.epoch:
            violated(f"{name} is written with controller epoch {state.controller_epoch}, and it is {self.epoch}")
        if not state.isr or len(set(state.isr)) < len(state.isr) or not set(state.isr) <= set(replicas):
            violated(f"{name} of {list(replicas)} has {list(state.isr)} in sync")
        if state.leader not in (NO_LEADER, *state.isr):
            violated(f"n{state.leader} leads {name} and is not in sync: {list(state.isr)}")
        if before is None:
            return
        if state.leader_epoch < before.leader_epoch:
            violated(f"the leader epoch of {name} was {before.leader_epoch}, and is {state.leader_epoch}")
        if state.leader != before.leader:
            if state.leader_epoch == before.leader_epoch:
                violated(f"n{before.leader} and n{state.leader} lead {name} in epoch {state.leader_epoch}")
            if state.leader not in (NO_LEADER, *before.isr) and state.recovery != RECOVERING:
                violated(f"n{state.leader} is elected for {name}, and in sync were {list(before.isr)}")
        if state.leader_epoch == before.leader_epoch:
            self._look_at_joining(name, set(state.isr) - set(before.isr))
        elif not set(state.isr) <= set(before.isr) and state.recovery != RECOVERING:
            violated(f"{list(state.isr)} are in sync of {name} by an election, {list(before.isr)} were")

    def _look_at_joining(self, name: str, joining: set[int]) -> None:
        """A broker that joins an in-sync set is registered, as far as the controller knows."""
        for machine in self.machines:
            controller: Any = machine.controller  # type: ignore[attr-defined]
            reign = None if controller is None else controller.reign
            if reign is not None and reign.context.epoch == self.epoch and joining - set(reign.context.live_ids):
                self.world.violated(f"{machine} lets {joining} join {name}, and there are {reign.context.live_ids}")

    # Nodes

    def may_lose(self, _machine: Any) -> bool:
        """In ZooKeeper mode nobody notices that a broker has lost what was not synced."""
        return False

    def _look_at_member(self, machine: Any, role: Any, place: Place, end_offset: int) -> None:
        if place[1] not in self._doomed:
            super()._look_at_member(machine, role, place, end_offset)

    def _look_at_replica(self, machine: Any, replica: Any, role: Any, known: Known) -> None:
        if replica.topic.id not in self._doomed:
            super()._look_at_replica(machine, replica, role, known)

    def _look_at(self, machine: Any) -> None:
        node = machine.node
        if node is None or node.broker is None:
            return
        self._look_at_controllers(machine, node)
        if hasattr(node.broker, "replicas"):
            self._look_at_orders(node.broker.replicas)
            self._look_at_replicas(machine, node.broker.replicas)

    def _look_at_controllers(self, machine: ZooKeeperMachine, node: Any) -> None:
        life = (machine.node_id, machine.lives)
        controller = machine.controller
        reign = None if controller is None else controller.reign
        if reign is not None:
            epoch = reign.context.epoch
            known = self._reigns.setdefault(epoch, life)
            if known != life:
                self.world.violated(f"n{known[0]} and {machine} are the controller of epoch {epoch}")
        orders = node.broker.orders
        seen = 0 if orders is None else orders._requests.controller_epoch
        if seen < self._seen.get(life, 0):
            self.world.violated(f"{machine} obeyed a controller of epoch {self._seen[life]}, and now one of {seen}")
        self._seen[life] = seen

    def _look_at_orders(self, replicas: Any) -> None:
        """The leader epoch of a replica never goes back."""
        for topic in replicas.topics.values():
            for replica in topic.replicas.values():
                epoch = replica.partition.leader_epoch
                known = self._led.get(replica, epoch)
                if epoch < known:
                    self.world.violated(f"{replica} was in leader epoch {known}, and is in {epoch}")
                self._led[replica] = epoch
