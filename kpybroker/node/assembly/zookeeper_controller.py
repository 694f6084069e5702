"""The controller of a broker in ZooKeeper mode, made of its parts."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.zookeeper.broker.known_controller import Take
from kpybroker.hosts.zookeeper.broker.sessions import ClusterParts
from kpybroker.hosts.zookeeper.broker.tasks import Begin
from kpybroker.hosts.zookeeper.controller.event_queue import EventQueue
from kpybroker.hosts.zookeeper.controller.requests import ControllerApis
from kpybroker.hosts.zookeeper.controller.senders import Senders
from kpybroker.hosts.zookeeper.controller.state_changes import note
from kpybroker.hosts.zookeeper.controller.topics import TAKEN, NoKRaft, TopicWrites, WaitingAnswers, at_level
from kpybroker.machines.controller.state import ControllerState, StaticSettings
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.zookeeper.controller import events
from kpybroker.machines.zookeeper.controller.controller import KafkaController
from kpybroker.machines.zookeeper.controller.partition_states import UNCLEAN_ELECTION
from kpybroker.machines.zookeeper.controller.reign import ControllerSettings
from kpybroker.node.assembly.limits import mutation_windows, topic_bounds
from kpybroker.node.assembly.platform import Platform
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.io.recurring import Recurring

if TYPE_CHECKING:
    from kpybroker.machines.quotas.mutations import MutationQuotas

Reply = Callable[[Any], object]
LEVEL_OF_3_9: Final = 21
"""The ``metadata.version`` that has what ``inter.broker.protocol.version`` 3.9 has."""
FIRST_REBALANCE_MS: Final = 5_000.0


class Controlling(NamedTuple):
    """The controller of a broker, and the requests that it takes from clients and brokers."""

    event_queue: EventQueue
    take: Take


def build_controller(current: CurrentConfig, platform: Platform, joined: ClusterParts, begin: Begin) -> Controlling:
    """The controller of a broker."""
    config, scheduler, image = current.config, platform.scheduler, joined.metadata.image
    peers = platform.broker_peers(config, "controller-to-broker")
    listener = config.inter_broker_listener_name
    senders = Senders(scheduler, peers, config.node_id, listener, lambda event: event_queue.handle(event))
    platform.ends.callback(peers.close)
    platform.ends.callback(senders.close)
    settings = ControllerSettings(
        delete_topic_enable=config.delete_topic_enable,
        leader_imbalance_per_broker_percentage=config["leader.imbalance.per.broker.percentage"],
        unclean_leader_election=lambda: bool(current.config[UNCLEAN_ELECTION]),
    )
    controller = KafkaController(
        config.node_id,
        settings,
        send=senders.send,
        log=note,
        random_bytes=platform.rng.randbytes,
        acl_of=joined.acls.of,
        on_brokers=lambda: senders.follow({} if controller.reign is None else controller.reign.context.brokers),
    )
    event_queue = EventQueue(controller, joined.client, scheduler, begin)
    joined.metadata.subscribe(_unclean_elections(event_queue, image))
    if config["auto.leader.rebalance.enable"]:
        interval_ms = config["leader.imbalance.check.interval.seconds"] * 1_000.0
        rebalances = Recurring(scheduler, interval_ms, lambda: _rebalance(event_queue), FIRST_REBALANCE_MS)
        platform.ends.callback(rebalances.stop)
    waiting = WaitingAnswers(scheduler)
    joined.metadata.subscribe(waiting.look)
    states = _States(current, platform, image)
    joined.metadata.subscribe(states.follow)
    writes = TopicWrites(joined.client, joined.acls, image, states, waiting, scheduler.monotonic_ms)
    apis = ControllerApis(event_queue)

    def take(request: Any, call: Call, reply: Reply) -> bool:
        if call.api_key in TAKEN and controller.is_active:
            begin(writes.take(request, call, reply))
            return True
        return apis.take(request, call, reply)

    return Controlling(event_queue, take)


class _States:
    """Makes the state of one decision about topics, on the metadata of the moment. What clients have used of their
    quotas outlives it."""

    def __init__(self, current: CurrentConfig, platform: Platform, image: MetadataImage) -> None:
        self._current = current
        self._platform = platform
        self._image = image
        self._mutations: MutationQuotas | None = None
        """None until a topic is changed while there are quotas."""

    def __call__(self) -> ControllerState:
        config, image = self._current.config, self._image
        if self._mutations is None and image.client_quotas:
            from kpybroker.machines.quotas.mutations import mutation_quotas

            self._mutations = mutation_quotas(image.client_quotas, *mutation_windows(config))
        settings = StaticSettings(
            node_id=config.node_id,
            default_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            delete_topics=config.delete_topic_enable,
            topic_bounds=topic_bounds(config),
        )
        seen = at_level(image, LEVEL_OF_3_9)
        rules, rng = BrokerConfigRules(config), self._platform.rng
        return ControllerState(seen, settings, rules, rng, lambda: image.next_offset, NoKRaft(), 0, self._mutations)

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over quotas that were changed."""
        entities = delta.kept.get("client_quotas")
        if entities and self._mutations is not None:
            self._mutations.quotas.changed(list(entities), image.client_quotas)  # type: ignore[arg-type]


def _unclean_elections(event_queue: EventQueue, image: MetadataImage) -> Callable[[MetadataImage, MetadataDelta], None]:
    """Elects leaders of topics whose configs allow unclean elections since a moment ago."""

    def changed(_image: MetadataImage, delta: MetadataDelta) -> None:
        for resource_type, name in delta.configs:
            allows = image.configs_of(resource_type, name).get(UNCLEAN_ELECTION) == "true"
            if resource_type == TOPIC_RESOURCE and allows and event_queue.controller.is_active:
                event_queue.handle(events.UncleanLeaderElectionEnable(name))

    return changed


def _rebalance(event_queue: EventQueue) -> None:
    """Let leaders return to preferred replicas."""
    if event_queue.controller.is_active:
        event_queue.handle(events.AutoPreferredReplicaLeaderElection())
