"""Which brokers Metadata list: one that is away for less than its session is missing in no answer.

There are clients that never ask again for a coordinator whose id was missing once. The check reads each answer in
the moment in which a node gives it, and it is held against the newest metadata that anybody has published.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.requests.handlers import metadata

if TYPE_CHECKING:
    from .world import World

FASTEST = 1.05
"""No clock of a node is faster."""


class Went(NamedTuple):
    """A broker that was fenced."""

    offset: int
    """Metadata that end here, or later, say so."""
    at_ms: float


class Listing:
    """Sees all answers to Metadata."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._end_offset = 0
        self._here: set[int] = set()
        self._went: dict[int, Went] = {}
        """How each broker was fenced last."""

    def metadata_changed(self, image: Any) -> None:
        """A node has published something; it counts if nobody has published as much before."""
        if image.next_offset <= self._end_offset:
            return
        self._end_offset = image.next_offset
        for broker in image.brokers.values():
            if not broker.fenced:
                self._here.add(broker.id)
            elif broker.id in self._here:
                self._here.remove(broker.id)
                self._went[broker.id] = Went(image.next_offset, self._world.now_ms)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch as long as this lasts."""
        handle = metadata.handle

        def handled(broker: Any, request: Any, call: Any) -> Generator[None, None, Any]:
            response = yield from handle(broker, request, call)
            if not response.error_code:
                self._answered(broker, {each.node_id for each in response.brokers})
            return response

        metadata.handle = handled
        try:
            yield
        finally:
            metadata.handle = handle

    def _answered(self, broker: Any, listed: set[int]) -> None:
        image, session_ms = broker.image, broker.config["broker.session.timeout.ms"]
        for broker_id, went in self._went.items():
            if broker_id in listed or broker_id not in image.brokers or image.next_offset < went.offset:
                continue
            away_ms = self._world.now_ms - went.at_ms
            if away_ms * FASTEST < session_ms:
                answer = f"n{broker.node_id} lists {sorted(listed)}"
                self._world.violated(f"{answer}: n{broker_id} is missing, which went {away_ms:.0f} ms ago")
