"""Reading for clients without a fetch session, which list all their partitions each time.

What the connection read last is remembered (`kpybroker.fetch.standing`), so only what changed since is read, as for a
session. Of all other partitions the answer, which names every one of them, has the bytes that it had before.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kpybroker.fetch.session import NO_SESSION, Entry, Session
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.leader_hints import node_endpoints
from kpybroker.handlers.reading import Reading, Room, must_not_wait, topic_response
from kpybroker.server.pending import Pending
from kpywire import error_codes
from kpywire.codec import EncodedStructs, encode_struct, encode_with_records
from kpywire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, NodeEndpoint, PartitionData


class ReadingAgain(Reading):
    """One Fetch request, whose entries are given by topic and in its order. ``_answers`` has those with news."""

    __slots__ = ("_topics",)

    def __init__(
        self, broker: Context, request: FetchRequest, session: Session, topics: Sequence[list[Entry]], call: Call
    ) -> None:
        super().__init__(broker, request, session, False, -1, call)
        self._topics = topics

    def answer(self, entries: Iterable[Entry]) -> FetchResponse | Pending:
        """What there is: these changed, and are read in the order of the request."""
        changed = set(entries)
        due = [entry for of_topic in self._topics for entry in of_topic if entry in changed] if changed else ()
        return super().answer(due)

    def collect(self, entries: Iterable[Entry], room: Room | None = None) -> bool:
        """Read these partitions; those with nothing to say are settled until they change."""
        due = list(entries)
        is_enough = super().collect(due, room)
        for entry in due:
            answer = self._answers[entry]
            if not (answer.records or entry.held_back or must_not_wait(answer)):
                entry.settled = encode_struct(answer, FetchResponse, self.version)
                del self._answers[entry]
                self.session.changed.pop(entry, None)
        return is_enough

    def response(self) -> FetchResponse:
        """The answer for every partition."""
        return FetchResponse(
            throttle_time_ms=0,
            error_code=error_codes.NONE,
            session_id=NO_SESSION,
            responses=[self._topic(entries) for entries in self._topics if entries],
            node_endpoints=node_endpoints(self._nodes, NodeEndpoint) if self._nodes else [],
        )

    def _topic(self, entries: list[Entry]) -> FetchableTopicResponse:
        news = self._answers
        told = [entry for entry in entries if entry in news] if news else []
        for entry in told:
            self._count(entry, news[entry])
        partitions: list[Any]
        if len(told) == len(entries):
            partitions = [news[entry] for entry in entries]
        elif told:
            partitions = EncodedStructs([self._encoded(entry, news.get(entry)) for entry in entries])
        else:
            partitions = EncodedStructs([entry.settled for entry in entries])
        if len(told) < len(entries):
            settled = next(entry for entry in entries if entry not in news)
            if settled.replica is not None:
                settled.replica.topic.fetches += len(entries) - len(told)
        return topic_response(entries[0].topic, partitions)

    def _encoded(self, entry: Entry, answer: PartitionData | None) -> Any:
        return entry.settled if answer is None else encode_with_records(answer, FetchResponse, self.version)
