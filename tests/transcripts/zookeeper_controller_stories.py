"""The controller in ZooKeeper, as stories play it: brokers that only register and answer, and a tree of znodes.

Each input goes on until nothing happens any more: watches have fired, and brokers have answered.
"""

from collections.abc import Mapping

from reigning import Cluster
from rendering import Changes, Input, Names, Play, StoryError
from zookeeper_lines import StoryCandidate, tree_states

from kpybroker.machines.zookeeper.controller.context import Leadership
from kpybroker.machines.zookeeper.controller.leader_elections import ElectionType
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch
from kpywire import error_codes


class ZooKeeperControllerStory:
    """A cluster without brokers, until a story starts some."""

    def __init__(self) -> None:
        self.names = Names()
        self.changes = Changes()
        self.lines: list[str] = []
        self.cluster = Cluster(())
        self.candidates: dict[int, StoryCandidate] = {}

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "start": self.start,
            "kill": self.kill,
            "stand": self.stand,
            "kill-controller": self.kill_controller,
            "depose": self.depose,
            "create-topic": self.create_topic,
            "delete-topic": self.delete_topic,
            "reassign": self.reassign,
            "alter-partition": self.alter_partition,
            "elect-leaders": self.elect_leaders,
            "shut-down": self.shut_down,
        }

    # Inputs.

    def start(self, given: Input) -> list[str]:
        """These brokers register."""
        for broker_id in map(int, given.all_words()):
            self.cluster.start(broker_id)
        return self._settled()

    def kill(self, given: Input) -> list[str]:
        """The sessions of these brokers end."""
        for broker_id in map(int, given.all_words()):
            self.cluster.kill(broker_id)
        return self._settled()

    def stand(self, given: Input) -> list[str]:
        """These brokers want to be the controller, one after the other."""
        for broker_id in map(int, given.all_words()):
            candidate = StoryCandidate(self, broker_id)
            self.candidates[broker_id] = candidate
            self.cluster.candidates.append(candidate)
            candidate.stand()
        return self._settled()

    def kill_controller(self, _: Input) -> list[str]:
        """The session of the controller ends, with that of its broker if it has one."""
        active = self._active()
        broker_id = next(each for each, candidate in self.candidates.items() if candidate is active)
        self.cluster.candidates.remove(self.candidates.pop(broker_id))
        self.cluster.server.expire(active.session.session_id)
        if broker_id in self.cluster.brokers:
            self.cluster.kill(broker_id)
        return self._settled()

    def depose(self, _: Input) -> list[str]:
        """An administrator deletes ``/controller``: all stand again."""
        self.cluster.remove(paths.CONTROLLER)
        return self._settled()

    def create_topic(self, given: Input) -> list[str]:
        """An administrator writes the topic. ``replicas=1,2/2,3`` gives each partition its brokers."""
        name = given.word()
        replicas = [[int(each) for each in word.split(",")] for word in given.text("replicas", "1").split("/")]
        self.cluster.create_topic(name, replicas, **{each: given.text(each) for each in list(given.fields)})
        topic_id = self.cluster.assignment(name).topic_id
        self.names.give(topic_id, f"id-of-{name}")
        return self._settled()

    def delete_topic(self, given: Input) -> list[str]:
        self.cluster.delete_topic(given.word())
        return self._settled()

    def reassign(self, given: Input) -> list[str]:
        """Without ``replicas``, a reassignment is called off."""
        partition = self._partition(given)
        replicas = tuple(given.numbers("replicas")) or None
        active = self._active()
        errors = active.run(active.controller.alter_reassignments({partition: replicas}))
        self.lines += [f"= AlterPartitionReassignments: error_code={error_codes.name(errors[partition])}"]
        return self._settled()

    def alter_partition(self, given: Input) -> list[str]:
        """The leader says who is in sync, at the partition epoch that it knows unless the story gives another one."""
        partition = self._partition(given)
        state = self.cluster.state(*partition)
        leader, isr = given.number("from", state.leader), tuple(given.numbers("isr"))
        epoch = given.number("partition_epoch", self.cluster.state_epoch(*partition))
        wanted = LeaderIsrAndControllerEpoch(leader, state.leader_epoch, isr, state.controller_epoch)
        active = self._active()
        change = active.controller.alter_partition(
            leader, self.cluster.brokers[leader].epoch, {partition: Leadership(wanted, epoch)}
        )
        outcome = active.run(change)
        found = outcome[partition] if isinstance(outcome, dict) else outcome
        code = error_codes.NONE if isinstance(found, Leadership) else found
        self.lines += [f"= AlterPartition from {leader}: error_code={error_codes.name(code)}"]
        if isinstance(outcome, dict):
            active.run(active.controller.complete_reassignments(outcome))
        return self._settled()

    def elect_leaders(self, given: Input) -> list[str]:
        """``preferred`` or ``unclean``."""
        kind = ElectionType[given.word().upper()]
        partition = self._partition(given)
        active = self._active()
        errors = active.run(active.controller.elect_leaders([partition], kind))
        self.lines += [f"= ElectLeaders: error_code={error_codes.name(errors[partition])}"]
        return self._settled()

    def shut_down(self, given: Input) -> list[str]:
        """A broker asks to hand over what it leads before it stops."""
        broker_id = int(given.word())
        active = self._active()
        steps = active.controller.controlled_shutdown(broker_id, self.cluster.brokers[broker_id].epoch)
        remaining = [f"{topic}-{number}" for topic, number in active.run(steps)]
        self.lines += [f"= ControlledShutdown to {broker_id}: remaining_partitions=[{', '.join(remaining)}]"]
        return self._settled()

    def _partition(self, given: Input) -> TopicPartition:
        name, _, number = given.word().rpartition("-")
        return TopicPartition(name, int(number))

    def _active(self) -> StoryCandidate:
        for each in self.candidates.values():
            if each.controller.is_active:
                return each
        raise StoryError("There is no controller")

    # What comes out.

    def _settled(self) -> list[str]:
        self.cluster.settle()
        lines, self.lines = self.lines, []
        return lines + self.changes.lines(tree_states(self.cluster))
