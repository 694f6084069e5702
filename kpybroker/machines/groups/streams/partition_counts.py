"""The partition counts of the internal topics of a topology.

(Kafka: ``RepartitionTopics``, ``CopartitionedTopicsEnforcer``, ``ChangelogTopics``.) Repartition topics get the most
partitions that the subtopologies which write to them read; topics that are joined get the same number; changelogs get
the number of tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash, string_key
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.streams.topology import Topology, input_topics
from kpywire import error_codes
from kpywire.group_records.streams_group_topology import CopartitionGroup, Subtopology, TopicInfo

MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3


class Unconfigured(Exception):
    """The topics of the cluster do not fit the topology: a status of the group, with Kafka's words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def partition_counts(topology: Topology, existing: Mapping[str, int]) -> dict[str, int]:
    """The partition counts of all internal topics, by name; ``existing`` are those of the topics that exist.

    Raises Unconfigured if topics that are read together differ, Refused if the topology cannot be computed.
    """
    counts = _Counts(existing)
    counts.internal.update(_repartition_counts(topology, existing))
    fixed = {
        each.name: each.partitions
        for subtopology in topology.subtopologies.values()
        for each in subtopology.repartition_source_topics
    }
    for subtopology in topology.subtopologies.values():
        for group in subtopology.copartition_groups:
            counts.internal.update(_enforced(_names(subtopology, group), fixed, counts))
    changelogs = {
        changelog.name: counts.tasks_of(subtopology)
        for subtopology in topology.subtopologies.values()
        for changelog in _checked_changelogs(subtopology)
    }
    return {**counts.internal, **changelogs}


class _Counts:
    """The partition counts that are known so far. Those of existing topics come first."""

    __slots__ = ("_existing", "internal")

    def __init__(self, existing: Mapping[str, int]) -> None:
        self._existing = existing
        self.internal: dict[str, int] = {}

    def of(self, name: str) -> int:
        count = self._existing.get(name, self.internal.get(name))
        if count is None:
            raise _defect(f"Number of partitions is not set for topic: {name}")
        return count

    def tasks_of(self, subtopology: Subtopology) -> int:
        return max(map(self.of, input_topics(subtopology)))


def _defect(text: str) -> RequestRefused:
    """A topology that makes Kafka's coordinator fail."""
    return RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, text)


def _invalid(text: str) -> RequestRefused:
    return RequestRefused(error_codes.STREAMS_INVALID_TOPOLOGY, text)


def _checked_changelogs(subtopology: Subtopology) -> list[TopicInfo]:
    if not (subtopology.source_topics or subtopology.repartition_source_topics):
        raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return subtopology.state_changelog_topics


def _repartition_counts(topology: Topology, existing: Mapping[str, int]) -> dict[str, int]:
    """The counts of repartition topics: those that the topology says, then those that follow from them."""
    subtopologies = topology.subtopologies.values()
    counts = {
        each.name: each.partitions
        for subtopology in subtopologies
        for each in subtopology.repartition_source_topics
        if each.partitions
    }
    _follow(list(subtopologies), counts, existing)
    if any(sink not in counts for subtopology in subtopologies for sink in subtopology.repartition_sink_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. "
            "There may be loops in the topology that cannot be resolved."
        )
    if any(each.name not in counts for subtopology in subtopologies for each in subtopology.repartition_source_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, "
            "because a repartition source topic is never used as a sink topic."
        )
    return counts


def _follow(subtopologies: Sequence[Subtopology], counts: dict[str, int], existing: Mapping[str, int]) -> None:
    """Add the counts of the topics that subtopologies write, in Kafka's order: it passes over all of them until nothing
    changes, and a count is the most that is known at its turn. Here a pass has only those that know something."""
    readers: dict[str, list[int]] = {}
    for at, subtopology in enumerate(subtopologies):
        for each in subtopology.repartition_source_topics:
            readers.setdefault(each.name, []).append(at)
    due = {at for at, each in enumerate(subtopologies) if _most(each, counts, existing) is not None}
    while due:
        queue, queued, due = sorted(due), due, set()
        while queue:
            at = heappop(queue)
            for sink in subtopologies[at].repartition_sink_topics:
                if sink in counts:
                    continue
                count = _most(subtopologies[at], counts, existing)
                assert count is not None
                counts[sink] = count
                for reader in readers.get(sink, ()):
                    if reader <= at:
                        due.add(reader)
                    elif reader not in queued:
                        queued.add(reader)
                        heappush(queue, reader)


def _most(subtopology: Subtopology, counts: Mapping[str, int], existing: Mapping[str, int]) -> int | None:
    """The most partitions that a subtopology reads, as far as they are known."""
    known = [counts[each.name] for each in subtopology.repartition_source_topics if each.name in counts]
    known += [existing[name] for name in subtopology.source_topics if name in existing]
    return max(known, default=None)


def _names(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    """The topics of a group of topics that are read together."""
    try:
        names = [subtopology.source_topics[_position(each)] for each in group.source_topics]
        names += [
            subtopology.repartition_source_topics[_position(each)].name for each in group.repartition_source_topics
        ]
    except IndexError:
        raise _defect("A copartition group names a topic that its subtopology does not have.") from None
    return in_hash_order(list(dict.fromkeys(names)), string_hash)


def _position(index: int) -> int:
    if index < 0:
        raise IndexError(index)
    return index


def _enforced(group: list[str], stated: Mapping[str, int], counts: _Counts) -> dict[str, int]:
    """The counts of the repartition topics of a group; ``stated`` are the counts in the topology, 0 for none."""
    if not group:
        return {}
    repartition = {name: counts.of(name) for name in group if name in stated}
    others = {name: counts.of(name) for name in group if name not in stated}
    if not others:
        # As in Kafka, all topics of the topology with a stated count decide, not only those of the group.
        fixed = in_hash_order([name for name, count in stated.items() if count], string_hash)
        count = _same(repartition, map(counts.of, fixed)) if fixed else max(repartition.values())
    else:
        count = _same(others, others.values())
    for name in in_hash_order(list(repartition), string_hash):
        if stated[name] and repartition[name] != count:
            text = (
                f"Number of partitions [{repartition[name]}] of repartition topic [{name}] doesn't match number of "
                f"partitions [{count}] of the source topic."
            )
            raise Unconfigured(INCORRECTLY_PARTITIONED_TOPICS, text)
    return dict.fromkeys(repartition, count)


def _same(shown: Mapping[str, int], counts: Iterable[int]) -> int:
    """The number that all counts are. Raises Unconfigured, which shows these topics."""
    found = set(counts)
    if len(found) > 1:
        listed = ", ".join(f"{name}={shown[name]}" for name in sorted(shown, key=string_key))
        text = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        raise Unconfigured(INCORRECTLY_PARTITIONED_TOPICS, text)
    return found.pop()
