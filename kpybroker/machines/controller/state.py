"""The state that deciders read: the metadata as appended so far, and what only the active controller knows.

Durable state is the image, changed by ``apply`` alone. Soft state (heartbeats) begins empty with each controller. An
index finds the partitions of a broker, so that no decision about one broker walks over all partitions.
"""

from collections.abc import Callable, Generator, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.machines.controller.config_rules import ConfigRules
from kpybroker.machines.controller.existing_acls import ExistingAcls
from kpybroker.machines.controller.heartbeats import BrokerSession, Heartbeats
from kpybroker.machines.controller.kraft_version import KRaftVersion
from kpybroker.machines.controller.partition_change import PartitionChange
from kpybroker.machines.controller.partition_index import PartitionIndex
from kpybroker.machines.controller.placement import UsableBroker
from kpybroker.machines.controller.topic_bounds import TopicBounds
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.journal import ProducerEpoch
from kpybroker.machines.metadata.broker import BrokerRegistration
from kpybroker.machines.metadata.delta import ConfigResource
from kpybroker.machines.metadata.image import (
    BROKER_RESOURCE,
    KRAFT_VERSION,
    MIGRATION,
    PRE_MIGRATION,
    TOPIC_RESOURCE,
    InvalidMetadata,
    MetadataImage,
)
from kpybroker.machines.metadata.topic import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    Partition,
    Topic,
    directory_is_online,
)
from kpybroker.machines.metadata.topic_name import may_collide, unify_collisions
from kpybroker.runtime.calls.principal import ANONYMOUS, Principal
from kpywire import error_codes, uuid

if TYPE_CHECKING:
    from kpybroker.machines.controller.token_index import TokenIndex
    from kpybroker.machines.quotas.mutations import MutationQuota, MutationQuotas
    from kpybroker.machines.sasl.delegation_token import TokenSecret

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"


class TokenSettings(NamedTuple):
    """The secret of delegation tokens, and the longest times that they live and are not renewed."""

    secret: "TokenSecret"
    max_lifetime_ms: int
    expiry_time_ms: int


class StaticSettings(NamedTuple):
    """The node's static settings that decisions depend on."""

    node_id: int
    default_partitions: int = 1
    default_replication_factor: int = 1
    delete_topics: bool = True
    broker_session_timeout_ms: int = 9_000
    bootstrap_min_insync_replicas: int = 1
    inter_broker_listener_name: str = ""
    configured_voters: tuple[int, ...] = ()
    """The ids of the voters that ``controller.quorum.voters`` names."""
    tokens: TokenSettings | None = None
    """None if there are no delegation tokens."""
    quota_windows: tuple[int, int] = (11, 1_000)
    """``controller.quota.window.num``, and ``controller.quota.window.size.seconds`` in milliseconds."""
    topic_bounds: TopicBounds = TopicBounds()
    migrates_from_zookeeper: bool = False
    """``zookeeper.metadata.migration.enable``."""


class ControllerRequest(NamedTuple):
    """A request with everything that a decider may need to know about it."""

    ticket: Any
    message: Any
    api_version: int
    principal: Principal = ANONYMOUS
    wall_clock_ms: int = 0
    """The time at which it is decided, in ms since the epoch."""
    client_id: str = ""


Decision = tuple[list[Any], Any]
"""The records to append as one batch, and the response."""
Steps = Generator[None, None, Decision]
"""A decision about many things, which yields now and then. Nothing else is decided meanwhile."""
STEP: Final = 32
"""The number of cheap operations between two yields."""
LAST_OF_STEP: Final = STEP - 1


class Unlimited:
    """The quota of controller mutations of clients that have none."""

    __slots__ = ()
    throttle_ms = 0

    def record(self, partitions: int, now_ms: int) -> None:
        """Partitions may be created or deleted."""


UNLIMITED: Final = Unlimited()


def _index_of(settings: TokenSettings, image: MetadataImage) -> "TokenIndex":
    from kpybroker.machines.controller.token_index import TokenIndex

    return TokenIndex(settings.secret, image)


class ControllerState:
    """The state of the active controller."""

    def __init__(  # noqa: PLR0913 - the parts of a state
        self,
        image: MetadataImage,
        settings: StaticSettings,
        rules: ConfigRules,
        rng: Random,
        next_write_offset: Callable[[], int],
        kraft_version: KRaftVersion,
        now_ms: int,
        mutations: "MutationQuotas | None" = None,
    ) -> None:
        """``image`` becomes this state's own. ``next_write_offset`` returns the offset of the next record. A state of
        one decision is given the ``mutations`` that outlive it."""
        self.image = image
        self.settings = settings
        self.rules = rules
        self.rng = rng
        self.next_write_offset = next_write_offset
        self.kraft_version = kraft_version
        self.heartbeats = Heartbeats(settings.broker_session_timeout_ms)
        self._mutations = mutations
        """None until a client quota is set."""
        self.reported_configs: tuple[object, list[Any]] | None = None
        """The configs that CreateTopics last reported for a topic, with the settings that they were made from."""
        self.tokens = None if settings.tokens is None else _index_of(settings.tokens, image)
        self.existing_acls = ExistingAcls(image.acls)
        self._names_by_unified: dict[str, dict[str, None]] = {}
        self._defaults: dict[str, str] = {}
        """The values of configs for topics without configs of their own."""
        self.index = PartitionIndex(image)
        for topic in image.topics.values():
            self._note_name(topic)
        for broker in image.brokers.values():
            self.heartbeats.touch(broker.id, -1, fenced=broker.fenced)
            # The broker of this very node cannot be alive from before: it shares the process with its controller.
            if not broker.fenced and broker.id != settings.node_id:
                self.heartbeats.contact(BrokerSession(broker.id, broker.epoch), now_ms)

    def apply(self, record: Any, offset: int, producer: ProducerEpoch | None = None) -> None:
        """Apply one appended record to the state. Nothing else changes durable state."""
        if producer is not None:
            raise InvalidMetadata(f"A record of producer {producer.producer_id} at {offset} of the metadata log")
        self.image.apply(record, offset, self)

    @property
    def is_migrating(self) -> bool:
        """Whether brokers in ZooKeeper mode may be in the cluster (KIP-866)."""
        return self.settings.migrates_from_zookeeper and self.image.zk_migration_state in (PRE_MIGRATION, MIGRATION)

    def broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """Return a registered broker. Raises STALE_BROKER_EPOCH unless it is registered in that epoch."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            message = f"No broker registration found for broker id {broker_id}"
            raise KafkaError(error_codes.STALE_BROKER_EPOCH, message)
        if broker.epoch != epoch:
            message = f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
            raise KafkaError(error_codes.STALE_BROKER_EPOCH, message)
        return broker

    def finalized_level(self, feature: str) -> int:
        """The finalised level of a feature; 0 when it is off."""
        return self.kraft_version.level if feature == KRAFT_VERSION else self.image.finalized_features.get(feature, 0)

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered and may lead."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def usable_brokers(self) -> list[UsableBroker]:
        """The brokers that may get new replicas: not those shutting down or with all directories cordoned."""
        return [
            UsableBroker(broker.id, broker.rack, broker.fenced)
            for broker in self.image.brokers.values()
            if broker.has_uncordoned_directory and not self.heartbeats.is_shutting_down(broker.id)
        ]

    def default_directory(self, broker_id: int) -> bytes:
        """The directory where a broker puts a new replica: its only one, or its own choice among several."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED_DIRECTORY
        if not broker.directories:
            return MIGRATING_DIRECTORY
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIRECTORY

    def has_online_log(self, broker_id: int, partition: Partition) -> bool:
        """Whether a broker has a replica of a partition in a log directory that it has registered."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker_id not in partition.replicas:
            return False
        return directory_is_online(partition.directory_of(broker_id), broker.directories)

    def change(
        self,
        topic: Topic,
        partition_id: int,
        may_lead: Callable[[int], bool] | None = None,
    ) -> PartitionChange:
        """Begin a change of a partition. ``may_lead`` replaces "is active" where a broker is about to change.

        No broker leads from a log directory that is offline (Kafka's ``LeaderAcceptor``).
        """
        partition = topic.partitions[partition_id]
        able = may_lead or self.is_active
        replication_factor = len(topic.partitions[0].replicas)
        return PartitionChange(
            topic.id,
            partition_id,
            partition,
            level=self.image.level,
            min_isr=min(int(self.topic_config(topic.name, MIN_INSYNC_REPLICAS)), replication_factor)
            if self.image.elr_enabled
            else 1,
            elr_enabled=self.image.elr_enabled,
            may_lead=lambda broker_id: able(broker_id) and self.has_online_log(broker_id, partition),
            default_directory=self.default_directory,
            with_zookeeper=self.is_migrating,
        )

    def topic_config(self, topic_name: str, config: str) -> str:
        """The value of a config of a topic, from whichever layer sets it."""
        own = self.image.configs_of(TOPIC_RESOURCE, topic_name)
        if own:
            return self.rules.effective_topic_config(config, own, *self.broker_configs())
        default = self._defaults.get(config)
        if default is None:
            default = self.rules.effective_topic_config(config, own, *self.broker_configs())
            self._defaults[config] = default
        return default

    def broker_configs(self) -> tuple[dict[str, str], dict[str, str]]:
        """The configs that the metadata hold for this node, and for all nodes."""
        node = self.image.configs_of(BROKER_RESOURCE, str(self.settings.node_id))
        return dict(node), dict(self.image.configs_of(BROKER_RESOURCE, ""))

    def unclean_election_allowed(self, topic_name: str) -> bool:
        """Whether a topic prefers a leader that lost records to having no leader."""
        return self.topic_config(topic_name, UNCLEAN_LEADER_ELECTION) == "true"

    def name_colliding_with(self, name: str) -> str | None:
        """A topic whose metrics could be confused with those of ``name``; None when there is none."""
        if not may_collide(name):
            return None
        return next(iter(self._names_by_unified.get(unify_collisions(name), ())), None)

    def new_topic_id(self) -> bytes:
        """A random id that no topic has."""
        while True:
            topic_id = uuid.random_uuid(self.rng.randbytes(uuid.UUID_BYTES))
            if uuid.usable(topic_id) and topic_id not in self.image.topics_by_id:
                return topic_id

    def new_acl_id(self) -> bytes:
        """A random id that no ACL has."""
        while True:
            acl_id = uuid.random_uuid(self.rng.randbytes(uuid.UUID_BYTES))
            if uuid.usable(acl_id) and acl_id not in self.image.acls:
                return acl_id

    def topic_created(self, topic: Topic) -> None:
        self.index.topic_created(topic)
        self._note_name(topic)

    def _note_name(self, topic: Topic) -> None:
        if may_collide(topic.name):
            self._names_by_unified.setdefault(unify_collisions(topic.name), {})[topic.name] = None

    def topic_deleted(self, topic: Topic) -> None:
        self.index.topic_deleted(topic)
        if may_collide(topic.name):
            names = self._names_by_unified[unify_collisions(topic.name)]
            del names[topic.name]
            if not names:
                del self._names_by_unified[unify_collisions(topic.name)]

    def broker_changed(self, broker_id: int, before: BrokerRegistration | None) -> None:
        broker = self.image.brokers.get(broker_id)
        if broker is None or (before is not None and before.epoch != broker.epoch):
            self.heartbeats.forget(broker_id)

    def partition_changed(self, topic: Topic, partition_id: int, before: Partition | None) -> None:
        self.index.partition_changed(topic, partition_id, before)

    def partitions_added(self, topic: Topic, added: Iterable[int]) -> None:
        self.index.partitions_added(topic, added)

    def controller_changed(self, controller_id: int) -> None:
        """Nothing is derived from controllers."""

    def config_changed(self, resource: ConfigResource, name: str) -> None:  # noqa: ARG002
        if resource[0] == BROKER_RESOURCE:
            self._defaults.clear()

    def feature_changed(self, name: str) -> None:
        """Nothing is derived from features."""

    def producer_ids_changed(self) -> None:
        """Nothing is derived from producer ids."""

    def kept_changed(self, kind: str, key: object) -> None:
        """Follow ACLs, delegation tokens and quotas; other metadata are only stored."""
        if kind == "delegation_tokens" and self.tokens is not None:
            self.tokens.changed(str(key))
        if kind == "acls" and isinstance(key, bytes):
            self.existing_acls.changed(key, self.image.acls.get(key))
        if kind == "client_quotas" and self._mutations is not None:
            self._mutations.quotas.changed([key], self.image.client_quotas)  # type: ignore[list-item]

    def mutation_quota(
        self, request: ControllerRequest, now_ms: int, *, strict_from: int
    ) -> "MutationQuota | Unlimited":
        """The sender's quota of controller mutations, strict from this version of its request on (KIP-599)."""
        quotas = self.image.client_quotas
        if not quotas:
            return UNLIMITED
        if self._mutations is None:
            from kpybroker.machines.quotas.mutations import mutation_quotas

            self._mutations = mutation_quotas(quotas, *self.settings.quota_windows)
        is_strict = request.api_version >= strict_from
        quota = self._mutations.of(request.principal.name, request.client_id, now_ms, is_strict=is_strict)
        return UNLIMITED if quota is None else quota
