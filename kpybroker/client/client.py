"""A small synchronous Kafka client, enough for command line tools: finds leaders, sends requests, retries.

``kpybroker topics``, ``produce``, ``groups`` and similar commands use it against any Kafka broker. It is not for
programs: those have kafka-python, confluent-kafka and aiokafka.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kpybroker.client.connection import BrokerConnection, Unreachable
from kpybroker.client.conversation import CLIENT_ID
from kpybroker.client.outages import Outages
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.api import LIST_OFFSETS
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kpybroker.client.protection import ConnectionProtection

PLAINTEXT = "PLAINTEXT"
DEFAULT_PORT = 9092
TIMEOUT_S = 30.0
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
FIRST_FOR = 4
"""ListOffsets takes the timestamp -3 from version 7 on (KIP-734), -4 from 8 on, -5 from 9 on: others take it for a
time."""
READ_COMMITTED = 1
GROUP = 0
TRANSACTION = 1

T = TypeVar("T")


class Spot(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndTimestamp(NamedTuple):
    """An offset and the timestamp of its record, -1 where there is none."""

    offset: int
    timestamp: int


class ClientSettings(NamedTuple):
    """The settings and timeouts of a client: `client_configs` has the names by which users set them."""

    client_id: str = CLIENT_ID
    connect_timeout_s: float | None = None
    """The timeout for connecting; None for that of a request."""
    api_timeout_s: float = TIMEOUT_S
    backoff_s: float = 0.1
    backoff_max_s: float = 0.1
    metadata_age_s: float = 300.0
    expects_cluster: bool = False
    """Whether brokers that were never reached are tried again, too."""
    protection: "ConnectionProtection | None" = None
    """TLS and a login; None for neither."""

    @property
    def protocol(self) -> str:
        """The security protocol."""
        return PLAINTEXT if self.protection is None else self.protection.protocol


class Client:
    """Talks to one cluster. ``servers`` is Kafka's ``bootstrap.servers``: ``host:port,host:port``.

    ``contact`` is informed of outages. If there is one, the user waits for the cluster to come back.
    """

    def __init__(
        self,
        servers: str,
        timeout_s: float = TIMEOUT_S,
        settings: ClientSettings | None = None,
        contact: Outages | None = None,
    ) -> None:
        """Prepare a client. It connects when first used. Raises ValueError if ``servers`` is not a list of
        addresses."""
        self.settings = settings or ClientSettings()
        self.servers = parse_servers(servers, self.settings.protocol)
        self.timeout_s = timeout_s
        self.contact = contact
        self._is_silent = False
        self._deadline_s = math.inf
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._nodes: dict[int, tuple[str, int]] = {}
        self._detours: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, tuple[float, MetadataResponseTopic]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, request: Any, wait_s: float = 0.0, newest: int | None = None) -> Any:
        """Send a request to any broker, at most in version ``newest``.

        Raises Unreachable when no broker answers, KafkaError if it does not serve the request.
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
        """Send a request to one broker. Raises Unreachable; LEADER_NOT_AVAILABLE if the metadata names no such node."""
        return self._call(self._address(node_id), request, wait_s, newest)

    def serves(self, node_id: int, key: int, version: int) -> bool:
        """Whether a broker serves this version of an API. Raises as `call_node`."""
        return self._connection(self._address(node_id)).serves(key, version)

    def send_node(self, node_id: int, request: Any) -> None:
        """Send one broker a request that it does not answer. Raises as `call_node`."""
        address = self._address(node_id)
        connection = self._connection(address)
        try:
            connection.send(request)
        except (Unreachable, KeyboardInterrupt, SystemExit):
            self._connections.pop(address).close()
            raise

    def _address(self, node_id: int) -> tuple[str, int]:
        address = self._detours.get(node_id) or self._nodes.get(node_id)
        if address is None:
            raise KafkaError(error_codes.LEADER_NOT_AVAILABLE, f"the metadata have no address of broker {node_id}")
        return address

    def call_coordinator(self, group: str, request: Any, wait_s: float = 0.0, newest: int | None = None) -> Any:
        """Send a request to the coordinator of a group. Raises KafkaError, retriable while there is none, and
        Unreachable."""
        return self.call_node(self.coordinator(group), request, wait_s, newest)

    def call_transaction_coordinator(self, transactional_id: str, request: Any, newest: int | None = None) -> Any:
        """Send a request to the coordinator of a transactional id. Raises as `call_coordinator`."""
        return self.call_node(self.coordinator(transactional_id, TRANSACTION), request, newest=newest)

    def detour(self, node_id: int, address: tuple[str, int]) -> None:
        """Reach a broker at this address from now on, whatever address it advertises."""
        self._detours[node_id] = address

    def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """The coordinator of a group or a transactional id, as last known. Raises KafkaError, retriable while there is
        none."""
        node_id = self._coordinators.get((key_type, key))
        if node_id is None:
            answer = self.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
            (found,) = answer.coordinators
            what = "group" if key_type == GROUP else "transactional id"
            raise_for(found.error_code, f"coordinator of {what} {key}", found.error_message)
            node_id = self._coordinators[key_type, key] = found.node_id
            self._nodes[node_id] = (found.host, found.port)
        return node_id

    def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            connect_s = self.settings.connect_timeout_s
            connection = self._connections[address] = BrokerConnection(
                *address,
                self._bounded(self.timeout_s),
                connect_timeout_s=self._bounded(self.timeout_s if connect_s is None else connect_s),
                client_id=self.settings.client_id,
                on_silence=None if self.contact is None else self._silent,
                protection=self.settings.protection,
            )
        return connection

    @contextlib.contextmanager
    def until(self, deadline_s: float) -> Iterator[None]:
        """Wait for nothing beyond this time of ``time.monotonic`` inside the block."""
        before, self._deadline_s = self._deadline_s, min(self._deadline_s, deadline_s)
        try:
            yield
        finally:
            self._deadline_s = before

    def _bounded(self, seconds: float) -> float:
        return max(min(seconds, self._deadline_s - time.monotonic()), 0.001)

    def _silent(self, reason: str) -> None:
        assert self.contact is not None
        self._is_silent = True
        self.contact.silent(reason)

    def _call(self, address: tuple[str, int], request: Any, wait_s: float, newest: int | None) -> Any:
        connection = self._connection(address)
        try:
            answer = connection.call(request, wait_s, newest, self._bounded(self.timeout_s + wait_s))
        except (Unreachable, KeyboardInterrupt, SystemExit):
            # Also what was interrupted is of no use: its answer may still come, or half of it.
            self._connections.pop(address).close()
            raise
        if self._is_silent and self.contact is not None:
            self._is_silent = False
            self.contact.back()
        return answer

    def drop_closed(self) -> bool:
        """Drop the connections that brokers have closed. Return whether there were any."""
        closed = [address for address, connection in self._connections.items() if connection.is_closed]
        for address in closed:
            self._connections.pop(address).close()
        return bool(closed)

    def forget(self) -> None:
        """Forget topics and coordinators, since the known ones may be wrong: the next use asks again."""
        self._topics.clear()
        self._coordinators.clear()

    def may_pass(self, error: KafkaError | Unreachable) -> bool:
        """Whether a retry may succeed later: for retriable errors, and for brokers that have been reached before or
        are expected."""
        if isinstance(error, KafkaError):
            return error_codes.retriable(error.code)
        return bool(self._nodes) or self.settings.expects_cluster

    def hurry(self, within_s: float) -> None:
        """Wait no longer than this for anything from now on: a command that ends does not wait for a broker that is
        gone."""
        self.timeout_s = min(self.timeout_s, within_s)
        self.settings = self.settings._replace(api_timeout_s=min(self.settings.api_timeout_s, within_s))

    def retrying(self, attempt: Callable[[], T], within_s: float | None = None) -> T:
        """The result of ``attempt``, repeated with fresh metadata while it raises Unreachable or a retriable
        KafkaError.

        After ``within_s`` (``default.api.timeout.ms`` by default) the last of these is raised.
        """
        deadline = time.monotonic() + (self.settings.api_timeout_s if within_s is None else within_s)
        deadline = min(deadline, self._deadline_s)
        reached = failed = False
        pause_s = self.settings.backoff_s
        while True:
            try:
                answer = attempt()
            except (Unreachable, KafkaError) as error:
                reached = reached or isinstance(error, KafkaError)
                retriable = self.may_pass(error) or (reached and isinstance(error, Unreachable))
                if not retriable or time.monotonic() > deadline:
                    raise
                if self.contact is not None:
                    self.contact.lost(error)
                failed = True
            else:
                if failed and self.contact is not None:
                    self.contact.back()
                return answer
            time.sleep(pause_s)
            pause_s = min(max(pause_s * 2, 0.001), self.settings.backoff_max_s)
            self.forget()

    def topics(self, names: Iterable[str] | None = None, *, create: bool = False) -> list[MetadataResponseTopic]:
        """Topics of these names, or all, each with an error code; ``create``: the broker may create missing ones."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = self.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=create))
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        topics: list[MetadataResponseTopic] = answer.topics
        return topics

    def topic_names(self) -> list[str]:
        """The names of all topics except Kafka's own."""
        return [topic.name or "" for topic in self.topics() if not topic.is_internal]

    def nodes(self) -> list[MetadataResponseBroker]:
        """The live brokers by id, with the addresses that they advertise.

        Metadata lists a dead broker until its session has expired, so it is used only where nothing else is known.
        """
        try:
            described = self.call(DescribeClusterRequest(include_cluster_authorized_operations=False)).brokers
            brokers = [
                MetadataResponseBroker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
                for each in described
            ]
        except KafkaError as error:
            if error.code != error_codes.UNSUPPORTED_VERSION:
                raise
            brokers = self.call(MetadataRequest(topics=[], allow_auto_topic_creation=False)).brokers
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in brokers}
        return sorted(brokers, key=lambda each: int(each.node_id))

    def live_node(self, node_id: int) -> int:
        """The id itself, if a live broker has it. Raises BROKER_NOT_AVAILABLE."""
        if node_id not in {node.node_id for node in self.nodes()}:
            raise KafkaError(error_codes.BROKER_NOT_AVAILABLE, f"there is no broker {node_id}")
        return node_id

    def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """A topic as last known; its partitions may have errors of their own. Raises KafkaError if the topic has
        one."""
        heard_s, known = self._topics.get(name, (0.0, None))
        if known is None or time.monotonic() - heard_s > self.settings.metadata_age_s:
            (known,) = self.topics([name], create=create)
            raise_for(known.error_code, f"topic {name}")
            self.remember([known])
        return known

    def remember(self, topics: Iterable[MetadataResponseTopic]) -> None:
        """Take these as the last known state of topics."""
        for topic in topics:
            topic.partitions.sort(key=lambda each: each.partition_index)
            self._topics[topic.name or ""] = (time.monotonic(), topic)

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
        """An offset for each partition's timestamp (or LATEST_, EARLIEST_TIMESTAMP); -1 where no record is that late.

        With ``committed_only`` the latest is the first offset of the first open transaction, if there is any.
        """
        return {spot: found.offset for spot, found in self.find_offsets(wanted, committed_only=committed_only).items()}

    def find_offsets(
        self, wanted: Mapping[Spot, int], *, committed_only: bool = False
    ) -> dict[Spot, OffsetAndTimestamp]:
        """Like `list_offsets`, with the timestamp of the record that was found."""
        isolation_level = READ_COMMITTED if committed_only else 0
        return self.retrying(lambda: dict(self._find_offsets(wanted, isolation_level)))

    def _find_offsets(
        self, wanted: Mapping[Spot, int], isolation_level: int
    ) -> Iterator[tuple[Spot, OffsetAndTimestamp]]:
        for node_id, spots in self.by_leader(wanted).items():
            least = min(wanted[spot] for spot in spots)
            if least < EARLIEST_TIMESTAMP and not self.serves(node_id, LIST_OFFSETS, FIRST_FOR - least):
                text = f"broker {node_id} does not know the offsets of timestamp {least}"
                raise KafkaError(error_codes.UNSUPPORTED_VERSION, text)
            topics: dict[str, ListOffsetsTopic] = {}
            for spot in spots:
                topic = topics.setdefault(spot.topic, ListOffsetsTopic(name=spot.topic, partitions=[]))
                topic.partitions.append(ListOffsetsPartition(partition_index=spot.partition, timestamp=wanted[spot]))
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()))
            for answered in self.call_node(node_id, request).topics:
                for partition in answered.partitions:
                    spot = Spot(answered.name, partition.partition_index)
                    raise_for(partition.error_code, f"partition {spot}")
                    yield spot, OffsetAndTimestamp(partition.offset, partition.timestamp)


def raise_for(code: int, what: str, message: str | None = None) -> None:
    """Raise KafkaError if ``code`` is an error, in words that name its object."""
    if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION and what.startswith("topic "):
        raise KafkaError(code, f"{what} does not exist")
    if code:
        raise KafkaError(code, f"{what}: {message or error_codes.message(code)}")


def parse_servers(text: str, protocol: str = PLAINTEXT) -> list[tuple[str, int]]:
    """``host[:port]`` or ``[ipv6]:port``, separated by commas. Raises ValueError with the part that is wrong.

    The client's security protocol may stand in front, as in a listener that was pasted: ``PLAINTEXT://``.
    """
    servers = []
    for part in (piece.strip() for piece in text.split(",")):
        pasted, _, address = part.rpartition("://")
        if pasted.upper() not in ("", protocol):
            raise ValueError(f"{part!r}: this client's security.protocol is {protocol}; --command-config sets another")
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
