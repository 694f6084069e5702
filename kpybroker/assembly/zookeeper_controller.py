"""The controller of a broker in ZooKeeper mode, made of its parts."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kpybroker.assembly.platform import Platform
from kpybroker.calls.call import Call
from kpybroker.config.stored import CurrentConfig
from kpybroker.controller.broker_config_rules import BrokerConfigRules
from kpybroker.controller.state import ControllerState, Settings
from kpybroker.io.recurring import Recurring
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import TOPIC_RESOURCE, MetadataImage
from kpybroker.zookeeper.broker.known_controller import Take
from kpybroker.zookeeper.broker.sessions import Joined
from kpybroker.zookeeper.broker.tasks import Begin
from kpybroker.zookeeper.controller import events
from kpybroker.zookeeper.controller.controller import Controller
from kpybroker.zookeeper.controller.partition_states import UNCLEAN_ELECTION
from kpybroker.zookeeper.controller.reign import ControllerSettings
from kpybroker.zookeeper.controlling.office import Office
from kpybroker.zookeeper.controlling.requests import ControllerApis
from kpybroker.zookeeper.controlling.senders import Senders
from kpybroker.zookeeper.controlling.state_changes import note
from kpybroker.zookeeper.controlling.topics import TAKEN, NoKRaft, TopicWrites, Waiting, at_level

Reply = Callable[[Any], object]
LEVEL_OF_3_9: Final = 21
"""The ``metadata.version`` that has what ``inter.broker.protocol.version`` 3.9 has."""
FIRST_REBALANCE_MS: Final = 5_000.0


class Controlling(NamedTuple):
    """The controller of a broker, and the requests that it takes from clients and brokers."""

    office: Office
    take: Take


def build_controller(current: CurrentConfig, platform: Platform, joined: Joined, begin: Begin) -> Controlling:
    """The controller of a broker."""
    config, scheduler, image = current.config, platform.scheduler, joined.metadata.image
    peers = platform.broker_peers(config, "controller-to-broker")
    listener = config.inter_broker_listener_name
    senders = Senders(scheduler, peers, config.node_id, listener, lambda event: office.handle(event))
    platform.ends.callback(peers.close)
    platform.ends.callback(senders.close)
    settings = ControllerSettings(
        delete_topic_enable=config.delete_topic_enable,
        leader_imbalance_per_broker_percentage=config["leader.imbalance.per.broker.percentage"],
        unclean_leader_election=lambda: bool(current.config[UNCLEAN_ELECTION]),
    )
    controller = Controller(
        config.node_id,
        settings,
        send=senders.send,
        log=note,
        random_bytes=platform.rng.randbytes,
        acl_of=joined.acls.of,
        on_brokers=lambda: senders.follow({} if controller.reign is None else controller.reign.context.brokers),
    )
    office = Office(controller, joined.client, scheduler, begin)
    joined.metadata.subscribe(_unclean_elections(office, image))
    if config["auto.leader.rebalance.enable"]:
        interval_ms = config["leader.imbalance.check.interval.seconds"] * 1_000.0
        rebalances = Recurring(scheduler, interval_ms, lambda: _rebalance(office), FIRST_REBALANCE_MS)
        platform.ends.callback(rebalances.stop)
    waiting = Waiting(scheduler)
    joined.metadata.subscribe(waiting.look)
    writes = TopicWrites(joined.client, joined.acls, image, _states(current, platform, image), waiting)
    apis = ControllerApis(office)

    def take(request: Any, call: Call, reply: Reply) -> bool:
        if call.api_key in TAKEN and controller.is_active:
            begin(writes.take(request, call, reply))
            return True
        return apis.take(request, call, reply)

    return Controlling(office, take)


def _states(current: CurrentConfig, platform: Platform, image: MetadataImage) -> Callable[[], ControllerState]:
    """Makes the state of one decision about topics, on the metadata of the moment."""

    def new_state() -> ControllerState:
        config = current.config
        settings = Settings(
            node_id=config.node_id,
            default_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            delete_topics=config.delete_topic_enable,
        )
        rules = BrokerConfigRules(config)
        seen = at_level(image, LEVEL_OF_3_9)
        return ControllerState(seen, settings, rules, platform.rng, lambda: image.next_offset, NoKRaft(), 0)

    return new_state


def _unclean_elections(office: Office, image: MetadataImage) -> Callable[[MetadataImage, MetadataDelta], None]:
    """Elects leaders of topics whose configs allow unclean elections since a moment ago."""

    def changed(_image: MetadataImage, delta: MetadataDelta) -> None:
        for resource_type, name in delta.configs:
            allows = image.configs_of(resource_type, name).get(UNCLEAN_ELECTION) == "true"
            if resource_type == TOPIC_RESOURCE and allows and office.controller.is_active:
                office.handle(events.UncleanLeaderElectionEnable(name))

    return changed


def _rebalance(office: Office) -> None:
    """Let leaders return to preferred replicas."""
    if office.controller.is_active:
        office.handle(events.AutoPreferredReplicaLeaderElection())
