"""The answer to clients without a fetch session, which list all their partitions in each request.

The partitions that the connection read last are remembered (`kpybroker.machines.fetch.remembered`). So only those that
changed since are read, as in a session. The answer contains every partition; for the unchanged ones the bytes of the
last answer are used again.
"""

from collections.abc import Container, Sequence
from typing import Any

from kpybroker.machines.fetch.session import NO_SESSION, Entry, Session
from kpybroker.requests.serving.leader_hints import Node, node_endpoints
from kpybroker.requests.serving.reading.policy import Policy
from kpywire import error_codes
from kpywire.codec import EncodedStructs, encode_struct, encode_with_records
from kpywire.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint, PartitionData


class RememberedAnswer:
    """The answer to one request. ``topics`` has its entries by topic, in the request's order. ``partitions`` has the
    answers of those with news."""

    __slots__ = ("_topics", "_version", "incremental", "nodes", "partitions", "session")

    def __init__(self, session: Session, topics: Sequence[list[Entry]], version: int) -> None:
        self.session = session
        self.incremental = False
        self.partitions: dict[Entry, PartitionData] = {}
        self.nodes: dict[int, Node] | None = None
        """The leaders that the answer names as hints (KIP-951)."""
        self._topics = topics
        self._version = version

    def in_order(self, entries: Container[Entry]) -> list[Entry]:
        """These entries in the order of the request."""
        return [entry for of_topic in self._topics for entry in of_topic if entry in entries]

    def leaves_out(self, entry: Entry, answer: PartitionData) -> bool:
        """Encode the answer for a partition without news, and keep it until the partition changes."""
        if entry.held_back:
            return False
        entry.settled = encode_struct(answer, FetchResponse, self._version)
        self.session.changed.pop(entry, None)
        return True

    def topics(self, policy: Policy | None = None) -> list[FetchableTopicResponse]:
        """The answers for every partition, by topic. With a policy they are counted as sent."""
        return [self._topic(entries, policy) for entries in self._topics if entries]

    def response(self, policy: Policy) -> FetchResponse:
        """The response with every partition."""
        return FetchResponse(
            throttle_time_ms=0,
            error_code=error_codes.NONE,
            session_id=NO_SESSION,
            responses=self.topics(policy),
            node_endpoints=node_endpoints(self.nodes, NodeEndpoint) if self.nodes else [],
        )

    def _topic(self, entries: list[Entry], policy: Policy | None) -> FetchableTopicResponse:
        news = self.partitions
        told = [entry for entry in entries if entry in news] if news else []
        partitions: list[Any]
        if len(told) == len(entries):
            partitions = [news[entry] for entry in entries]
        elif told:
            partitions = EncodedStructs([self._encoded(entry, news.get(entry)) for entry in entries])
        else:
            partitions = EncodedStructs([entry.settled for entry in entries])
        if policy is not None:
            self._count(entries, told, policy)
        topic = entries[0].topic
        if isinstance(topic, bytes):
            return FetchableTopicResponse(topic_id=topic, partitions=partitions)
        return FetchableTopicResponse(topic=topic, partitions=partitions)

    def _count(self, entries: list[Entry], told: list[Entry], policy: Policy) -> None:
        """Count the answers for the entries of a topic; those with news are ``told``."""
        news = self.partitions
        for entry in told:
            policy.count(entry, news[entry])
        if len(told) < len(entries):
            settled = next(entry for entry in entries if entry not in news)
            if settled.replica is not None:
                settled.replica.topic.fetches += len(entries) - len(told)

    def _encoded(self, entry: Entry, answer: PartitionData | None) -> Any:
        return entry.settled if answer is None else encode_with_records(answer, FetchResponse, self._version)
