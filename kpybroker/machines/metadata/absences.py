"""How long brokers have been away, as this node saw it: brokers that are fenced and were active before.

Clients keep connections and coordinators by the ids that Metadata lists, and some never ask again for a coordinator
whose id was missing once. Kafka goes on listing a broker that died until its session is over, and by then it is often
back. Here it is fenced at once, so that others lead, but it is listed for as long as its session would have lasted.

A broker that is fenced when this node starts counts as away from that moment. A fenced broker that is heard of again is
about to come back. A broker that registers for the first time was never active, so it is not away.
"""

from typing import NamedTuple

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage


class Absence(NamedTuple):
    """The time since which a broker serves nobody."""

    since_ms: float
    is_older: bool
    """Whether it began before this node knew the metadata, at an unknown time."""


class Absences:
    """The absences that a node knows of."""

    __slots__ = ("_absent", "_since_ms")

    def __init__(self) -> None:
        self._since_ms: dict[int, float] = {}
        """The last time that an absent broker left, or was heard of without serving anybody."""
        self._absent: dict[int, Absence] = {}

    def note(self, image: MetadataImage, delta: MetadataDelta, now_ms: float) -> None:
        """Note a change of the metadata."""
        is_all_new = delta.from_snapshot or delta.first_offset == 0
        for broker_id, before in delta.brokers.items():
            broker = image.brokers.get(broker_id)
            if broker is None or not broker.fenced:
                self._since_ms.pop(broker_id, None)
                self._absent.pop(broker_id, None)
            elif before is not None or is_all_new:
                self._since_ms[broker_id] = now_ms
                self._absent.setdefault(broker_id, Absence(now_ms, is_all_new))

    def of(self, broker_id: int) -> Absence | None:
        """The whole absence of a broker; None if it is not away, or has never served."""
        return self._absent.get(broker_id)

    def is_away(self, broker_id: int, now_ms: float, session_timeout_ms: float) -> bool:
        """Whether a broker left less than a session ago, and may be back soon."""
        since_ms = self._since_ms.get(broker_id)
        return since_ms is not None and now_ms - since_ms < session_timeout_ms
