"""The coordinators of a broker, and what they need: markers of transactions and producer ids."""

from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.coordinators.groups import group_coordinator
from kpybroker.hosts.coordinators.marker_writer import MarkerWriter, ServerTurns
from kpybroker.hosts.coordinators.markers import Markers
from kpybroker.hosts.coordinators.markers_elsewhere import MarkersElsewhere
from kpybroker.hosts.coordinators.share_coordinator import share_coordinator
from kpybroker.hosts.coordinators.transactions import transaction_coordinator
from kpybroker.hosts.coordinators.transactions_elsewhere import TransactionsElsewhere
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.producer_ids import ProducerIds
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.features import TRANSACTION_VERSION
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.broker import ClusterLinks, Coordinators
from kpybroker.requests.server.listener import Server


def build_coordinators(
    current: CurrentConfig,
    platform: Platform,
    image: MetadataImage,
    cluster: ClusterLinks,
    replicas: Replicas,
    server: Server,
) -> Coordinators:
    """The coordinators of groups, transactions and share partitions. Markers are written in turns of ``server``."""
    config, scheduler = current.config, platform.scheduler
    groups = group_coordinator(scheduler, replicas, current.now, platform.secret_rng)
    markers = Markers(scheduler, replicas, groups)
    # The answers wait for the replicas of other brokers, so these connections serve nothing else.
    takers = Nodes(image, config.inter_broker_listener_name, platform.broker_peers(config, "markers"))
    marker_writer = MarkerWriter(
        scheduler,
        markers,
        lambda: image,
        lambda: int(current.config["request.timeout.ms"]),
        ServerTurns(lambda: server.turn, server.aside.look),
        node_id=config.node_id,
        elsewhere=MarkersElsewhere(scheduler, takers),
    )
    producer_ids = ProducerIds(cluster.controller.send, config.node_id, cluster.lifecycle.epoch)
    transactions = transaction_coordinator(
        scheduler,
        replicas,
        current.now,
        lambda: image.features.get(TRANSACTION_VERSION, 0),
        producer_ids.at_once,
        marker_writer.send,
    )
    transactions_elsewhere = TransactionsElsewhere(config.node_id, scheduler, lambda: image, cluster.nodes)
    share_states = share_coordinator(scheduler, replicas, current.now, lambda: image)
    shards = (share_states.stop, transactions.stop, groups.stop)
    for end in (takers.close, transactions_elsewhere.stop, marker_writer.stop, *shards):
        platform.ends.callback(end)
    return Coordinators(
        groups=groups,
        transactions=transactions,
        share_states=share_states,
        transactions_elsewhere=transactions_elsewhere,
        markers=markers,
        marker_writer=marker_writer,
        producer_ids=producer_ids,
    )
