"""The events in a change of the metadata: nodes that go and come, leaders that move, configs that are set. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.monitoring.history.samples import HistoryEvent

STARTED, JOINED, GONE, BACK = "started", "joined", "gone", "back"
LED, NOT_LED, CONFIG = "led", "not led", "config"
KINDS: Final = {2: "topic", 4: "node", 16: "client metrics", 32: "group"}
"""The resources of configs. A node without a name is all nodes."""
MOST_NAMES: Final = 5


def events_in(at_ms: int, image: MetadataImage, delta: MetadataDelta) -> Iterator[HistoryEvent]:
    """The events. None from a snapshot: those happened earlier."""
    if delta.from_snapshot:
        return
    for number, before in delta.brokers.items():
        now = image.brokers.get(number)
        was_alive = before is not None and not before.fenced
        is_alive = now is not None and not now.fenced
        if was_alive != is_alive:
            yield HistoryEvent(at_ms, (JOINED if before is None else BACK) if is_alive else GONE, str(number))
    yield from _moves(at_ms, image, delta)
    created = {topic.name for topic in delta.created_topics.values()}
    for (kind, name), names in delta.configs.items():
        if KINDS.get(kind) == "topic" and name in created:
            continue
        shown = sorted(names)[:MOST_NAMES]
        detail = ", ".join([*shown, "…"] if len(names) > MOST_NAMES else shown)
        yield HistoryEvent(at_ms, CONFIG, f"{KINDS.get(kind, 'resource')} {name}", len(names), detail)


def _moves(at_ms: int, image: MetadataImage, delta: MetadataDelta) -> Iterator[HistoryEvent]:
    """One event for each pair of leaders, whatever the number of partitions."""
    moved: Counter[tuple[int, int]] = Counter()
    first: dict[tuple[int, int], str] = {}
    for topic_id, changed in delta.partitions.items():
        topic = image.topics_by_id.get(topic_id)
        for index, before in changed.items():
            now = None if topic is None else topic.partitions.get(index)
            if topic is not None and now is not None and before is not None and now.leader != before.leader:
                pair = before.leader, now.leader
                moved[pair] += 1
                first.setdefault(pair, f"{topic.name}-{index}")
    for pair, count in moved.items():
        before_leader, leader = pair
        if leader < 0:
            yield HistoryEvent(at_ms, NOT_LED, first[pair], count, str(before_leader))
        else:
            yield HistoryEvent(at_ms, LED, first[pair], count, f"{leader} {before_leader}")
