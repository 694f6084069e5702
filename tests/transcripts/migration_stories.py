"""The migration from ZooKeeper to KRaft (KIP-866), as stories play it: three controllers, three brokers and a tree.

The brokers 1, 2 and 3 are in ZooKeeper mode, broker 1 is the controller, and topic-0 exists. Each input goes on until
the active controller of the quorum waits for something.
"""

from collections.abc import Mapping
from typing import Any

from migrations import VOTERS, Driven, World
from rendering import Changes, Input, Play, Rendering, StoryError
from zookeeper_lines import StoryCandidate, request_lines, tree_states, write_lines

from kpybroker.machines.metadata.topic import NO_LEADER_CHANGE
from kpybroker.machines.zookeeper.client.operations import Delete
from kpybroker.machines.zookeeper.controller.batch import BrokerRequest
from kpybroker.machines.zookeeper.migration.driver import MigrationDriverState
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord

LEFT_OUT = ("incarnation_id", "features", "end_points", "rack", "log_dirs", "cordoned_log_dirs", "directories")
TURNS = 300
TOPIC_RESOURCE = 2


class StoryController(Driven):
    """A controller of the quorum whose writes and requests are lines of the story."""

    def __init__(self, world: "StoryWorld", node_id: int) -> None:
        self._story_world = world
        super().__init__(world, node_id)

    def _send(self, brokers: Mapping[int, Any], requests: list[BrokerRequest]) -> None:
        self._story_world.lines += request_lines(requests)
        super()._send(brokers, requests)

    def _ask(self, operation: Any) -> Any:
        result = super()._ask(operation)
        self._story_world.lines += write_lines(str(self.node_id), operation, result, self._story_world.names)
        return result


class StoryWorld(World):
    """The cluster, whose committed records are lines of the story."""

    def __init__(self, rendering: Rendering) -> None:
        self.rendering = rendering
        self.names = rendering.names
        self.lines: list[str] = []
        super().__init__(1, topics=1)
        rendering.names.give(self.cluster.assignment("topic-0").topic_id, "id-of-topic-0")
        self.controllers = {node_id: StoryController(self, node_id) for node_id in VOTERS}

    def append(self, node_id: int, records: list[Any]) -> int | None:
        offset = self.offset
        outcome = super().append(node_id, records)
        if outcome is not None:
            for number, record in enumerate(records, offset):
                self.lines += self.rendering.lines(f"+ {number} {type(record).__name__}", record)
        return outcome


class MigrationStory:
    """Each controller is where its driver is. Lines with a path are writes in ZooKeeper, others the metadata log."""

    def __init__(self) -> None:
        self.rendering = Rendering(LEFT_OUT)
        self.changes = Changes()
        self.world = StoryWorld(self.rendering)
        self.changes.lines(self._states())

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "elect": self.elect,
            "register": self.register,
            "lose-session": self.lose_session,
            "create-topic": self.create_topic,
            "delete-topic": self.delete_topic,
            "change-partition": self.change_partition,
            "set-config": self.set_config,
            "delete-znode": self.delete_znode,
            "stand": self.stand,
            "kill": self.kill,
            "step-down": self.step_down,
        }

    # Inputs. ``turns`` cuts the work of the active controller short.

    def elect(self, given: Input) -> list[str]:
        """Another controller leads the quorum; the first one begins with an empty log."""
        self.world.elect(int(given.word()))
        return self._worked(given.number("turns", TURNS))

    def register(self, given: Input) -> list[str]:
        """Brokers register with the quorum: in ZooKeeper mode, or ``kraft=true`` after a restart in KRaft mode."""
        turns = given.number("turns", TURNS)
        is_migrating = not given.flag("kraft")
        for broker_id in map(int, given.all_words()):
            self.world.register(broker_id, is_migrating=is_migrating)
        return self._worked(turns)

    def lose_session(self, given: Input) -> list[str]:
        """The session of a controller with ZooKeeper ends, perhaps in the middle of its work."""
        self.world.controllers[int(given.word())].interrupt()
        return self._worked()

    def create_topic(self, given: Input) -> list[str]:
        name, replicas = given.word(), given.numbers("replicas")
        topic_id = name.encode().ljust(16, b"-")
        self.rendering.names.give(topic_id, f"id-of-{name}")
        partition = PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            adding_replicas=[],
            removing_replicas=[],
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )
        return self._changed(TopicRecord(name=name, topic_id=topic_id), partition)

    def delete_topic(self, given: Input) -> list[str]:
        return self._changed(RemoveTopicRecord(topic_id=self._topic_id(given.word())))

    def change_partition(self, given: Input) -> list[str]:
        name, _, number = given.word().rpartition("-")
        change = PartitionChangeRecord(
            partition_id=int(number),
            topic_id=self._topic_id(name),
            leader=given.number("leader", NO_LEADER_CHANGE),
            isr=given.numbers("isr"),
        )
        return self._changed(change)

    def set_config(self, given: Input) -> list[str]:
        topic = given.word()
        (name,) = given.fields
        record = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=given.text(name))
        return self._changed(record)

    def delete_znode(self, given: Input) -> list[str]:
        """An administrator deletes a znode."""
        path = given.word()
        self.world.cluster.admin.ask(Delete(path))
        return [f"+ admin delete {path}", *self._outcome()]

    def step_down(self, _: Input) -> list[str]:
        """The controllers of the quorum are stopped for good."""
        self.world.controllers[self.world.leader].driver.follow()
        self.world.leader = -1
        return self._outcome()

    def stand(self, given: Input) -> list[str]:
        """A broker in ZooKeeper mode wants to be the controller."""
        candidate = StoryCandidate(self.world, int(given.word()))
        self.world.cluster.candidates.append(candidate)
        candidate.stand()
        self.world.cluster.settle()
        return self._outcome()

    def kill(self, given: Input) -> list[str]:
        """A broker in ZooKeeper mode dies, and its controllers do what they may."""
        self.world.cluster.kill(int(given.word()))
        self.world.cluster.settle()
        return self._outcome()

    def _topic_id(self, name: str) -> bytes:
        found = self.world.image.topics.get(name)
        if found is None:
            raise StoryError(f"There is no topic {name!r}")
        return found.id

    def _changed(self, *records: Any) -> list[str]:
        if self.world.append(self.world.leader, list(records)) is None:
            raise StoryError("No controller is active")
        return self._worked()

    # What comes out.

    def _worked(self, turns: int = TURNS) -> list[str]:
        """Let the active controller work until nothing changes any more."""
        driven = self.world.controllers[self.world.leader]
        for _ in range(turns):
            driven.turn()
        return self._outcome()

    def _outcome(self) -> list[str]:
        lines, self.world.lines = self.world.lines, []
        return lines + self.changes.lines(self._states())

    def _states(self) -> dict[Any, str]:
        states = tree_states(self.world.cluster)
        for node_id, controller in self.world.controllers.items():
            phase = controller.driver.phase
            if phase is not MigrationDriverState.UNINITIALIZED:
                states[node_id] = f"{node_id}: {phase.name} {controller.driver.obstacle}".rstrip()
        return states
