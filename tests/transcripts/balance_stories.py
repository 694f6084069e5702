"""A cluster and its plans, as stories play them: brokers and partitions are named, and then a plan is asked for.

Sizes are megabytes, and rates megabytes a second.
"""

from collections.abc import Mapping

from rendering import Input, Play

from kpybroker.machines.balance.directories import DirectoryLoad, plan_directories
from kpybroker.machines.balance.explaining import explained, left_alone
from kpybroker.machines.balance.goals import BalanceGoals, MoveReason, Resource
from kpybroker.machines.balance.model import UNKNOWN, BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.ordering import PlannedMove
from kpybroker.machines.balance.planner import plan

MB = 1000 * 1000
GOALS = ("tolerance", "disk_limit", "idle_disk", "idle_rate", "least_gain")


class BalanceStory:
    """The brokers and partitions that a story has named so far."""

    def __init__(self) -> None:
        self._nodes: list[BalanceNode] = []
        self._partitions: dict[str, list[tuple[list[int], list[int] | None, PartitionLoad]]] = {}
        self._min_in_sync: dict[str, int] = {}
        self._directories: list[DirectoryLoad] = []

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "node": self.node,
            "topic": self.topic,
            "partition": self.partition,
            "directory": self.directory,
            "plan": self.plan,
            "plan-directories": self.plan_directories,
        }

    # Inputs.

    def node(self, given: Input) -> list[str]:
        """A broker. Without ``disk`` its disks are unknown."""
        disk, used = given.number("disk", UNKNOWN), given.number("used", 0)
        node = BalanceNode(
            int(given.word()),
            given.text("rack") or None,
            is_alive=not given.flag("gone"),
            is_cordoned=given.flag("cordoned"),
            disk_bytes=disk if disk < 0 else disk * MB,
            used_bytes=disk if disk < 0 else used * MB,
        )
        self._nodes.append(node)
        return []

    def topic(self, given: Input) -> list[str]:
        self._min_in_sync[given.word()] = given.number("min_in_sync", 1)
        return []

    def partition(self, given: Input) -> list[str]:
        """The next partition of a topic; ``in_sync`` are all replicas that live, if it is left out."""
        load = PartitionLoad(
            given.number("size", 0) * MB,
            float(given.text("in", "0")) * MB,
            float(given.text("out", "0")) * MB,
            is_held=given.flag("held"),
        )
        in_sync = given.numbers("in_sync") or None
        self._partitions.setdefault(given.word(), []).append((given.numbers("replicas"), in_sync, load))
        return []

    def directory(self, given: Input) -> list[str]:
        """A log directory of one broker: its ``replicas`` are the sizes of partitions 0, 1, ... of a topic."""
        path, topic = given.word(), given.text("topic")
        replicas = {(topic, number): size * MB for number, size in enumerate(given.numbers("replicas"))}
        total, free = given.number("disk", 0) * MB, given.number("free", 0) * MB
        self._directories.append(DirectoryLoad(path, total, free, given.flag("cordoned"), replicas))
        return []

    def plan(self, given: Input) -> list[str]:
        only = frozenset(MoveReason[each.upper()] for each in given.texts("only")) or frozenset(MoveReason)
        goals = BalanceGoals(
            **{name: float(given.text(name)) for name in GOALS if name in given.fields},
            leaving=frozenset(given.numbers("leaving")),
            joining=frozenset(given.numbers("joining")),
            only=only,
        )
        found = plan(self._model(), goals)
        lines = [f"+ {_in_words(each)}" for each in found.moves]
        lines += [f"* deferred: {_in_words(each)}" for each in found.deferred]
        lines += [
            f"* {each.name}: {each.before} -> {each.after}"
            for each in explained(found)
            if any(state.split()[0] != "0" for state in (each.before, each.after))
        ]
        lines += [f"* {hot.name} is hot: {hot.resource.name} of {hot.node}, {hot.of_node:.2f}" for hot in found.hot]
        for load in found.nodes:
            loads = zip(Resource, load.before, load.after, load.ceilings, strict=True)
            words = [
                f"{resource.name} {before:.6g} -> {after:.6g} of {ceiling:.6g}"
                for resource, before, after, ceiling in loads
                if before or after
            ]
            lines.append(f"* node {load.id}: {', '.join(words) or 'nothing'}")
        lines += [f"* {each} is left alone" for each in left_alone(found)]
        return lines

    def plan_directories(self, given: Input) -> list[str]:
        moves = plan_directories(
            self._directories,
            given.texts("emptied"),
            tolerance=float(given.text("tolerance", "0.1")),
            disk_limit=float(given.text("disk_limit", "0.85")),
        )
        return [f"+ {each.text}" for each in moves]

    def _model(self) -> BalanceModel:
        model = BalanceModel(self._nodes)
        for name, partitions in self._partitions.items():
            topic = model.add_topic(name, self._min_in_sync.get(name, 1))
            for number, (replicas, in_sync, load) in enumerate(partitions):
                model.add_partition(topic, number, replicas, in_sync=in_sync, load=load)
        return model


def _in_words(move: PlannedMove) -> str:
    return f"{move.text} [{', '.join(map(str, move.after))}]"
