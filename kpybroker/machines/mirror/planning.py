"""The difference between the source's topics and their mirrors here, as the changes that remove it.

Nothing is ever deleted: a topic that is gone at the source, or was made again there, stays here as it was, and the
reason why it is not fed is noted. Records that have no other copy are not deleted by a rule.

Configs that say where and how safely records lie belong to each cluster: replicas in sync, throttles, tiered storage.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.mirror.ids import may_be_mirror
from kpybroker.machines.mirror.mirror import Mirror

EPOCH_MARGIN: Final = 1_000
"""How far the leader epochs of a mirror are raised above those of the source."""
EPOCH_ROOM: Final = 100
"""They are raised again when less than this is left."""
OWN_CONFIGS: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
OWN_PREFIXES: Final = ("kpybroker.", "local.retention.", "remote.", "confluent.")


class TopicThere(NamedTuple):
    """A topic of the source."""

    name: str
    id: bytes
    """Zero if it has none."""
    partitions: int
    leader_epoch: int
    """The latest one of all its partitions; -1 if none is known."""
    configs: Mapping[str, str] | None
    """The configs that are set on the topic; None if the source does not show them."""


class TopicHere(NamedTuple):
    """A topic of this cluster."""

    id: bytes
    partitions: int
    leader_epoch: int
    """The earliest one of all its partitions."""
    mirror: str
    """The name of its mirror; empty for an ordinary topic."""
    configs: Mapping[str, str]


class TopicPlan(NamedTuple):
    """The changes, and the topics that are not fed, each with the reason."""

    create: list[tuple[TopicThere, int]]
    """Topics to create, with their first leader epochs."""
    grow: list[tuple[str, int]]
    """Topics that get partitions, up to this number."""
    configure: list[tuple[str, dict[str, str | None]]]
    """Topics that get configs; None deletes one."""
    raise_epoch: list[tuple[str, int]]
    """Topics whose leader epochs are raised."""
    unfed: dict[str, str]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to change."""
        return not (self.create or self.grow or self.configure or self.raise_epoch)


def carried(configs: Mapping[str, str]) -> dict[str, str]:
    """The configs of a source's topic that its mirror gets, too."""
    return {
        name: value for name, value in configs.items() if name not in OWN_CONFIGS and not name.startswith(OWN_PREFIXES)
    }


def plan_topics(mirror: Mirror, source: Iterable[TopicThere], here: Mapping[str, TopicHere]) -> TopicPlan:
    """The changes by which the topics here become those of the source. ``source`` are its topics of this mirror."""
    plan = TopicPlan([], [], [], [], {})
    seen: set[str] = set()
    for topic in source:
        seen.add(topic.name)
        found = here.get(topic.name)
        if found is None and topic.configs is None:
            plan.unfed[topic.name] = "the source does not let its user describe its configs (DESCRIBE_CONFIGS)"
        elif found is None:
            plan.create.append((topic, max(topic.leader_epoch, 0) + EPOCH_MARGIN))
        elif found.mirror != mirror.name:
            owner = f"the mirror {found.mirror}" if found.mirror else "no mirror (create --adopt makes it one)"
            plan.unfed[topic.name] = f"a topic of this name exists here, and it is of {owner}"
        elif not may_be_mirror(found.id, topic.id):
            plan.unfed[topic.name] = "it was created again at the source: delete it here to mirror the new one"
        else:
            _compare(topic, found, plan)
    for name, found in here.items():
        if found.mirror == mirror.name and name not in seen:
            gone, left = "it does not exist at the source any more", "no pattern takes it any more"
            plan.unfed[name] = gone if mirror.takes(name) else left
    return plan


def _compare(topic: TopicThere, found: TopicHere, plan: TopicPlan) -> None:
    if topic.partitions > found.partitions:
        plan.grow.append((topic.name, topic.partitions))
    if found.leader_epoch < topic.leader_epoch + EPOCH_ROOM:
        plan.raise_epoch.append((topic.name, topic.leader_epoch + EPOCH_MARGIN))
    if topic.configs is None:
        return
    wanted, present = carried(topic.configs), carried(found.configs)
    changes: dict[str, str | None] = {name: value for name, value in wanted.items() if present.get(name) != value}
    changes |= dict.fromkeys(name for name in present if name not in wanted)
    if changes:
        plan.configure.append((topic.name, changes))
