"""The share coordinator, as stories play it: one partition of ``__share_group_state``. Records are committed at once.

Group ``g`` reads the topics ``t`` and ``u``, which have four partitions each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_stories import CoordinatorStory
from rendering import Input, Play, Rendering
from share_coordinator_world import MONOTONIC_LAG_MS, OTHER, TOPIC, ShareCoordinatorWorld

from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.record import Record
from kpybroker.machines.share_coordinator.settings import ShareCoordinatorSettings
from kpywire.share_records import decode_key, decode_value, record_type

LEFT_OUT = ("create_timestamp", "write_timestamp")
DELIVERY_STATES = {0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 4: "ARCHIVED"}
"""Kafka's names (``RecordState``)."""
TOPICS = {"t": TOPIC, "u": OTHER}

Batch = tuple[int, int, int, int]


class ShareCoordinatorStory(CoordinatorStory):
    """A coordinator that is asked by group coordinators and by leaders of partitions."""

    def __init__(self) -> None:
        super().__init__(Rendering(LEFT_OUT))
        self.rendering.codes["StateBatch", "delivery_state"] = DELIVERY_STATES
        for name, topic_id in TOPICS.items():
            self.rendering.names.give(topic_id, f"id-of-{name}")
        self.world = ShareCoordinatorWorld()
        self.world.now_ms = MONOTONIC_LAG_MS
        self.world.restart()

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "settings": self.set,
            "initialize": self.initialize,
            "read": self.read,
            "write": self.write,
            "read-summary": self.read_summary,
            "delete": self.delete,
            "delete-topic": self.delete_topic,
            "prune": self.prune,
            "timers": self.timers,
            "restart": self.restart,
        }

    # Inputs. A share partition is ``t-0``.

    def set(self, given: Input) -> list[str]:
        values = {name: given.number(name, 0) for name in list(given.fields)}
        self.world.settings = ShareCoordinatorSettings(**{**self.world.settings._asdict(), **values})
        return []

    def initialize(self, given: Input) -> list[str]:
        key, epoch = self._key(given), given.number("state_epoch", 1)
        found = self.world.initialize(key, epoch, given.number("start_offset", 0))
        return self._answered("InitializeShareGroupState", found)

    def read(self, given: Input) -> list[str]:
        found = self.world.read(self._key(given), given.number("leader_epoch", 0))
        return self._answered("ReadShareGroupState", found)

    def write(self, given: Input) -> list[str]:
        """``batches=0-4:ARCHIVED:1`` are offsets from the first to the last, their state and how often delivered."""
        found = self.world.write(
            *map(batch_of, given.texts("batches")),
            key=self._key(given),
            state_epoch=given.number("state_epoch", 1),
            leader_epoch=given.number("leader_epoch", 0),
            start_offset=given.number("start_offset", -1),
            delivery_complete_count=given.number("delivery_complete_count", -1),
        )
        return self._answered("WriteShareGroupState", found)

    def read_summary(self, given: Input) -> list[str]:
        return self._answered("ReadShareGroupStateSummary", self.world.read_summary(self._key(given)))

    def delete(self, given: Input) -> list[str]:
        return self._answered("DeleteShareGroupState", self.world.delete(self._key(given)))

    def delete_topic(self, given: Input) -> list[str]:
        self._to(given)
        self.world.delete_topics(TOPICS[given.word()])
        return self.outcome()

    def prune(self, given: Input) -> list[str]:
        """``share.coordinator.state.topic.prune.interval.ms`` has passed."""
        self._to(given)
        offset = self.world.cut()
        return [] if offset is None else [f"= DeleteRecords to the log: before_offset={offset}"]

    def timers(self, given: Input) -> list[str]:
        """Everything that is due now."""
        self._to(given)
        self.world.run_timers()
        return self.outcome()

    def restart(self, given: Input) -> list[str]:
        """Another coordinator reads what is left of the log."""
        self._to(given)
        self.world.restart()
        return self.outcome()

    def _to(self, given: Input) -> None:
        self.world.now_ms = MONOTONIC_LAG_MS + given.now_ms

    def _key(self, given: Input) -> SharePartitionKey:
        self._to(given)
        topic, _, partition = given.word().rpartition("-")
        return SharePartitionKey(given.text("group", "g"), TOPICS[topic], int(partition))

    # What comes out.

    def _answered(self, name: str, found: Any) -> list[str]:
        self.show_records()
        self.lines += self.reply_lines(name, found)
        return self.outcome()

    def records(self) -> Sequence[Record]:
        return self.world.records

    def record_lines(self, record: Record) -> list[str]:
        key, value = record.encoded()
        decoded = decode_key(key)
        kind = type(decoded).__name__.removesuffix("Key")
        if value is None:
            return self.rendering.lines(f"+ {self.shown} {kind} tombstone", decoded)
        return self.rendering.lines(f"+ {self.shown} {kind}", decoded, decode_value(record_type(key), value))

    def states(self) -> dict[Any, str]:
        """Each share partition."""
        return {key: self._state(key) for key in self.world.states}

    def _state(self, key: SharePartitionKey) -> str:
        state = self.world.states[key]
        topic = self.rendering.names.render(key.topic_id).removeprefix("id-of-")
        current = state.current
        shown = (
            f"{key.group_id}:{topic}-{key.partition}: state_epoch={current.state_epoch} "
            f"leader_epoch={state.newest_leader_epoch} start_offset={current.start_offset}"
        )
        batches = [
            f"{each.first_offset}-{each.last_offset} {DELIVERY_STATES[each.delivery_state]} {each.delivery_count}x"
            for each in current.batches
        ]
        return shown + (f" batches=[{', '.join(batches)}]" if batches else "")


def batch_of(text: str) -> Batch:
    """The batch of ``0-4:ARCHIVED:1``."""
    offsets, state, count = text.split(":")
    first, last = map(int, offsets.split("-"))
    number = next(number for number, name in DELIVERY_STATES.items() if name == state)
    return first, last, number, int(count)
