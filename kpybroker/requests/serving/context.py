"""The broker as handlers see it: a few narrow protocols, which `kpybroker.requests.broker` implements."""

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.coordinators.markers import Markers
from kpybroker.hosts.coordinators.shards import Shards
from kpybroker.hosts.coordinators.transactions_elsewhere import TransactionsElsewhere
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.producer_ids import ProducerIds
from kpybroker.hosts.replicas.in_sync import InSyncKeeper
from kpybroker.hosts.replicas.leader_throttle import LeaderThrottle
from kpybroker.hosts.replicas.moves import Moves
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.fetch.sessions import FetchSessions
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.requests.serving.expected_topics import ExpectedTopics
from kpybroker.requests.serving.refused_creations import RefusedCreations
from kpybroker.requests.serving.streams_topics import StreamsTopics
from kpybroker.requests.serving.topic_answers import TopicAnswers
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.io.scheduler import Scheduler

if TYPE_CHECKING:
    from kpybroker.hosts.labour.labour import Labour
    from kpybroker.hosts.remote_log.remote_log import RemoteLog
    from kpybroker.machines.raft.local_state import LocalState
    from kpybroker.machines.telemetry.receiver import Receiver


class ActiveController(Protocol):
    """The way to the active controller, by the messages that a broker of a cluster sends over the network."""

    @property
    def controller_id(self) -> int:
        """The id of the node whose controller is active; -1 when this node knows of none."""

    @property
    def kraft_version(self) -> int:
        """The finalised level of ``kraft.version``, which the quorum stores beside the metadata."""

    @property
    def local_state(self) -> "LocalState":
        """The state of this node in the quorum."""

    def send(self, request: Any, reply: Callable[[Any], object], *, api_version: int | None = None) -> None:
        """Send a request of this node, in the latest version if none is given. ``reply`` gets the response later, on
        the loop."""

    def forward(self, request: Any, call: Call, reply: Callable[[Any], object]) -> None:
        """Send the request of a client in the version of its call: the client is authorised by the controller."""


class Context(Protocol):
    """The broker."""

    node_id: int
    config: BrokerConfig
    scheduler: Scheduler
    image: MetadataImage
    console_url: str
    replicas: Replicas
    remote_log: "RemoteLog | None"
    """Tiered storage; None where it is not enabled."""
    in_sync: InSyncKeeper
    leader_throttle: LeaderThrottle
    moves: Moves
    fetch_sessions: FetchSessions
    labour: "Labour"
    """The process that does long work on batches, made when it is first used."""
    topic_answers: TopicAnswers
    expected_topics: ExpectedTopics
    refused_creations: RefusedCreations
    streams_topics: StreamsTopics
    controller: ActiveController
    authorizer: Authorizer | None
    """None if everybody may do everything. Handlers ask by `kpybroker.requests.serving.permissions`."""
    producer_ids: ProducerIds
    groups: Shards
    transactions: Shards
    share_states: Shards
    """The share coordinator."""
    transactions_elsewhere: TransactionsElsewhere
    markers: Markers
    supported_features: Mapping[str, tuple[int, int]]
    wants_client_metrics: bool
    telemetry: "Receiver"
    """The receiver of client metrics, made when it is first used."""
    nodes: Nodes
    """The other brokers."""
    alive_brokers: Container[int]
    """The brokers that are registered and not fenced."""

    def is_listed(self, broker_id: int) -> bool:
        """Whether Metadata lists a broker: it is alive, or has been away for less than a session."""

    def random_alive_broker(self) -> int:
        """The broker reported to clients as the controller: each broker forwards to it (KIP-590); -1 if none is
        alive."""


def is_asked_as_controller(broker: Context, call: Call) -> bool:
    """Whether the request came by a listener of the node's controller, not of its broker."""
    return call.listener_name in broker.config.controller_listener_names
