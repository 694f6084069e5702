"""A plan as a document that people edit and kafka-reassign-partitions reads: its JSON form, with further keys.

Kafka's tool reads over ``before``, ``bytes``, ``reason`` and ``kpybroker``. Reading takes any document of that form.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kpybroker.machines.balance.ordering import PlannedMove
from kpybroker.machines.balance.planner import BalancePlan

FORM: Final = '{"partitions": [{"topic": NAME, "partition": N, "replicas": [ID, ...]}, ...]}'
LARGEST_ID: Final = 2**31 - 1


class WantedPartition(NamedTuple):
    """The replicas that a document wants for a partition, the preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class NotAPlan(ValueError):
    """A document is not a plan. The message says where."""


def document(plan: BalancePlan, cluster_id: str | None = None) -> dict[str, Any]:
    """The document of a plan, its moves in order."""
    return {
        "version": 1,
        "partitions": [_entry(each) for each in plan.moves],
        "kpybroker": {
            "cluster": cluster_id,
            "bytes": plan.moved_bytes,
            "deferred": [each.text for each in plan.deferred],
            "hot": [each.name for each in plan.hot],
        },
    }


def _entry(move: PlannedMove) -> dict[str, Any]:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "replicas": list(move.after),
        "before": list(move.before),
        "bytes": move.copied_bytes,
        "reason": move.text,
    }


def wanted_in(found: Any) -> list[WantedPartition]:
    """The partitions of a document, in their order. Raises NotAPlan."""
    entries = found.get("partitions") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise NotAPlan(f"it is not {FORM}")
    wanted = [_wanted(number, each) for number, each in enumerate(entries, 1)]
    _check_once(wanted)
    return wanted


def _wanted(number: int, entry: Any) -> WantedPartition:
    if not isinstance(entry, dict):
        raise NotAPlan(f"entry {number} is not an object with topic, partition and replicas")
    topic, partition, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise NotAPlan(f"entry {number} has no topic")
    if not isinstance(partition, int) or not _is_number(partition):
        raise NotAPlan(f"entry {number} of topic {topic} has no partition")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise NotAPlan(f"the replicas of {topic}-{partition} are not a list of ids such as [1, 2, 3]")
    if len(set(replicas)) != len(replicas):
        raise NotAPlan(f"the replicas of {topic}-{partition} name a broker twice")
    return WantedPartition(topic, partition, tuple(replicas))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_ID


def _check_once(wanted: Iterable[WantedPartition]) -> None:
    seen = set()
    for each in wanted:
        if each[:2] in seen:
            raise NotAPlan(f"{each.topic}-{each.partition} stands in it twice")
        seen.add(each[:2])
