"""What handlers see of the broker: a few narrow protocols, which `kpybroker.node` fills in."""

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kpybroker.config.broker import BrokerConfig
from kpybroker.counters import UNCOUNTED, ApiCounters
from kpybroker.fetch.sessions import Sessions
from kpybroker.handlers.expected_topics import ExpectedTopics
from kpybroker.handlers.topic_answers import TopicAnswers
from kpybroker.hosting.coordinator import Coordinator
from kpybroker.hosting.markers import Markers
from kpybroker.hosting.transactions_elsewhere import TransactionsElsewhere
from kpybroker.io.scheduler import Scheduler
from kpybroker.metadata.image import MetadataImage
from kpybroker.network.nodes import Nodes
from kpybroker.producer_ids import ProducerIds
from kpybroker.replicas.replicas import Replicas
from kpybroker.server.connection import Connection

if TYPE_CHECKING:
    from kpybroker.raft.local_state import LocalState


class Call:
    """What a handler may know about one request besides its body."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "counters", "listener_name", "versions")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        client_id: str | None,
        connection: Connection,
        versions: Mapping[int, tuple[int, int]],
        counters: ApiCounters = UNCOUNTED,
    ) -> None:
        """``versions``: what the listener serves, ``{api key: (first, last)}``; ``counters``: those of the api key."""
        self.versions = versions
        self.counters = counters
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.connection = connection
        self.listener_name = connection.listener_name


class Controller(Protocol):
    """The way to the active controller: the messages a broker of a cluster would send over the network."""

    @property
    def controller_id(self) -> int:
        """The node whose controller is active; -1 when this node knows of none."""

    @property
    def kraft_version(self) -> int:
        """The finalised level of ``kraft.version``, which the quorum keeps beside the metadata."""

    @property
    def local_state(self) -> "LocalState":
        """This node's place in the quorum now."""

    def send(self, request: Any, reply: Callable[[Any], object], *, api_version: int | None = None) -> None:
        """Send a request, in the latest version if none is given; ``reply`` gets the response, later, on the loop."""


class Context(Protocol):
    """The broker."""

    node_id: int
    config: BrokerConfig
    scheduler: Scheduler
    image: MetadataImage
    replicas: Replicas
    fetch_sessions: Sessions
    topic_answers: TopicAnswers
    expected_topics: ExpectedTopics
    controller: Controller
    producer_ids: ProducerIds
    groups: Coordinator
    transactions: Coordinator
    transactions_elsewhere: TransactionsElsewhere
    markers: Markers
    supported_features: Mapping[str, tuple[int, int]]
    nodes: Nodes
    """The other brokers."""
    alive_brokers: Container[int]
    """Registered and not fenced."""

    def random_alive_broker(self) -> int:
        """What clients are told is the controller: any broker forwards to it (KIP-590); -1 when none is alive."""


def is_asked_as_controller(broker: Context, call: Call) -> bool:
    """Whether the request came in by a listener of the node's controller, not of its broker."""
    return call.listener_name in broker.config.controller_listener_names


Handle = Callable[[Any, Any, Call], Any]
