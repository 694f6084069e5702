"""A small synchronous Kafka client, enough for command line tools: finds leaders, asks them, asks again when told to.

It is what ``kpybroker topics``, ``produce``, ``groups`` and their like use, against any Kafka broker. Not for programs:
those have kafka-python, confluent-kafka and aiokafka.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from kpybroker.cli.connection import Connection, Unreachable
from kpybroker.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

PLAINTEXT = "PLAINTEXT"
DEFAULT_PORT = 9092
TIMEOUT_S = 30.0
RETRY_PAUSE_S = 0.1
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
READ_COMMITTED = 1
GROUP = 0

T = TypeVar("T")


class Spot(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Position(NamedTuple):
    """An offset and the timestamp that goes with it, -1 where there is none."""

    offset: int
    timestamp: int


class Client:
    """Talks to one cluster. ``servers`` is Kafka's ``bootstrap.servers``: ``host:port,host:port``."""

    def __init__(self, servers: str, timeout_s: float = TIMEOUT_S) -> None:
        """Raises ValueError if ``servers`` is not a list of addresses. Connects when first used."""
        self.servers = parse_servers(servers)
        self.timeout_s = timeout_s
        self._connections: dict[tuple[str, int], Connection] = {}
        self._nodes: dict[int, tuple[str, int]] = {}
        self._detours: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, MetadataResponseTopic] = {}
        self._coordinators: dict[str, int] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, request: Any, wait_s: float = 0.0, newest: int | None = None) -> Any:
        """Ask any broker, at most in version ``newest``.

        Raises Unreachable when none of them answers, KafkaError if it does not serve the request.
        """
        problem: Unreachable | None = None
        for address in dict.fromkeys([*self._connections, *self.servers, *self._nodes.values()]):
            try:
                return self._call(address, request, wait_s, newest)
            except Unreachable as error:
                problem = problem or error
        assert problem is not None
        raise problem

    def call_node(self, node_id: int, request: Any, wait_s: float = 0.0, newest: int | None = None) -> Any:
        """Ask one broker. Raises Unreachable; LEADER_NOT_AVAILABLE if the metadata names no such node."""
        address = self._detours.get(node_id) or self._nodes.get(node_id)
        if address is None:
            raise KafkaError(error_codes.LEADER_NOT_AVAILABLE)
        return self._call(address, request, wait_s, newest)

    def call_coordinator(self, group: str, request: Any, wait_s: float = 0.0, newest: int | None = None) -> Any:
        """Ask the broker that keeps a group. Raises KafkaError, retriable while there is none, and Unreachable."""
        return self.call_node(self.coordinator(group), request, wait_s, newest)

    def detour(self, node_id: int, address: tuple[str, int]) -> None:
        """Reach a broker at this address from now on, whatever it advertises."""
        self._detours[node_id] = address

    def coordinator(self, group: str) -> int:
        """The broker that keeps a group, as last heard of. Raises KafkaError, retriable while there is none."""
        node_id = self._coordinators.get(group)
        if node_id is None:
            answer = self.call(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group]))
            (found,) = answer.coordinators
            raise_for(found.error_code, f"coordinator of group {group}", found.error_message)
            node_id = self._coordinators[group] = found.node_id
            self._nodes[node_id] = (found.host, found.port)
        return node_id

    def _call(self, address: tuple[str, int], request: Any, wait_s: float, newest: int | None) -> Any:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = Connection(*address, self.timeout_s)
        try:
            return connection.call(request, wait_s, newest)
        except (Unreachable, KeyboardInterrupt, SystemExit):
            # Also what was interrupted is of no use: its answer may still come, or half of it.
            self._connections.pop(address).close()
            raise

    def retrying(self, attempt: Callable[[], T], within_s: float | None = None) -> T:
        """What ``attempt`` returns, repeated with fresh metadata while it raises Unreachable or a retriable KafkaError.

        After ``within_s`` (the client's timeout by default) the last of these is raised.
        """
        deadline = time.monotonic() + (self.timeout_s if within_s is None else within_s)
        reached = False
        while True:
            try:
                return attempt()
            except (Unreachable, KafkaError) as error:
                reached = reached or isinstance(error, KafkaError) or bool(self._nodes)
                retriable = reached if isinstance(error, Unreachable) else error_codes.retriable(error.code)
                if not retriable or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_PAUSE_S)
            self._topics.clear()
            self._coordinators.clear()

    def topics(self, names: Iterable[str] | None = None, *, create: bool = False) -> list[MetadataResponseTopic]:
        """Topics of these names, or all, each with an error code; ``create``: the broker may create missing ones."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = self.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=create))
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        topics: list[MetadataResponseTopic] = answer.topics
        return topics

    def nodes(self) -> list[MetadataResponseBroker]:
        """The brokers that live, by id, with the addresses that they advertise."""
        answer = self.call(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        return sorted(answer.brokers, key=lambda each: int(each.node_id))

    def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """A topic as last heard of, whose partitions may have errors of their own. Raises KafkaError if it has one."""
        known = self._topics.get(name)
        if known is None:
            (known,) = self.topics([name], create=create)
            raise_for(known.error_code, f"topic {name}")
            known.partitions.sort(key=lambda each: each.partition_index)
            self._topics[name] = known
        return known

    def leader(self, spot: Spot) -> int:
        """The node that leads a partition. Raises KafkaError, retriable while there is none."""
        for partition in self.topic(spot.topic).partitions:
            if partition.partition_index == spot.partition:
                if partition.leader_id < 0:
                    raise KafkaError(error_codes.LEADER_NOT_AVAILABLE, f"partition {spot} has no leader")
                return partition.leader_id
        raise KafkaError(error_codes.INVALID_PARTITIONS, f"topic {spot.topic} has no partition {spot.partition}")

    def by_leader(self, spots: Iterable[Spot]) -> dict[int, list[Spot]]:
        """The partitions of each leader. Raises KafkaError."""
        led: dict[int, list[Spot]] = {}
        for spot in spots:
            led.setdefault(self.leader(spot), []).append(spot)
        return led

    def list_offsets(self, wanted: Mapping[Spot, int], *, committed_only: bool = False) -> dict[Spot, int]:
        """An offset for each partition's timestamp (or LATEST_, EARLIEST_TIMESTAMP); -1 where no record is as late.

        With ``committed_only`` the latest is the first offset of the first open transaction, if there is any.
        """
        return {spot: found.offset for spot, found in self.find_offsets(wanted, committed_only=committed_only).items()}

    def find_offsets(self, wanted: Mapping[Spot, int], *, committed_only: bool = False) -> dict[Spot, Position]:
        """As `list_offsets`, with the timestamp of the record that was found."""
        isolation_level = READ_COMMITTED if committed_only else 0
        return self.retrying(lambda: dict(self._find_offsets(wanted, isolation_level)))

    def _find_offsets(self, wanted: Mapping[Spot, int], isolation_level: int) -> Iterator[tuple[Spot, Position]]:
        for node_id, spots in self.by_leader(wanted).items():
            topics: dict[str, ListOffsetsTopic] = {}
            for spot in spots:
                topic = topics.setdefault(spot.topic, ListOffsetsTopic(name=spot.topic, partitions=[]))
                topic.partitions.append(ListOffsetsPartition(partition_index=spot.partition, timestamp=wanted[spot]))
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()))
            for answered in self.call_node(node_id, request).topics:
                for partition in answered.partitions:
                    spot = Spot(answered.name, partition.partition_index)
                    raise_for(partition.error_code, f"partition {spot}")
                    yield spot, Position(partition.offset, partition.timestamp)


def raise_for(code: int, what: str, message: str | None = None) -> None:
    """Raise KafkaError if ``code`` is one, in words that name what it is about."""
    if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION and what.startswith("topic "):
        raise KafkaError(code, f"{what} does not exist")
    if code:
        raise KafkaError(code, f"{what}: {message or error_codes.message(code)}")


def parse_servers(text: str) -> list[tuple[str, int]]:
    """``host[:port]`` or ``[ipv6]:port``, separated by commas. Raises ValueError with the part that is wrong.

    ``PLAINTEXT://`` may stand before it, as in a listener that was pasted.
    """
    servers = []
    for part in (piece.strip() for piece in text.split(",")):
        protocol, _, address = part.rpartition("://")
        if protocol.upper() not in ("", PLAINTEXT):
            raise ValueError(f"this client speaks {PLAINTEXT} only: {part!r}")
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):
            host, port = address, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        number = 0
        with contextlib.suppress(ValueError):
            number = int(port)
        if not host or not 0 < number < 65536:
            raise ValueError(f"not an address of a broker: {part!r}")
        servers.append((host, number))
    return servers
