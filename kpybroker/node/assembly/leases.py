"""The leases of a broker, on its second port."""

from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.leases.routes import LeaseRoutes
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.broker import Broker
from kpystorage.disk import Disk

if TYPE_CHECKING:
    from kpybroker.hosts.leases.answers import LeaseAnswers


def build_lease_routes(
    config: BrokerConfig, platform: Platform, cluster_id: str, broker: Broker, disk: Disk
) -> LeaseRoutes:
    """The routes of leases."""
    replicas: Replicas = broker.replicas

    def new_answers() -> "LeaseAnswers":
        from kpybroker.hosts.leases.answers import LeaseAnswers
        from kpybroker.hosts.leases.lender import Lender

        node = cluster_id, config.node_id
        lender = Lender(node, broker.leases, replicas, disk, platform.scheduler, platform.secret_rng)
        return LeaseAnswers(lender, broker.authorizer)

    return LeaseRoutes(new_answers)
