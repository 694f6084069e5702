"""The leases of a broker, on its second port."""

from typing import TYPE_CHECKING

from kpybroker.assembly.platform import Platform
from kpybroker.broker import Broker
from kpybroker.config.broker import BrokerConfig
from kpybroker.leases.routes import LeaseRoutes
from kpybroker.replicas.replicas import Replicas
from kpystorage.disk import Disk

if TYPE_CHECKING:
    from kpybroker.leases.lender import Lender


def build_lease_routes(
    config: BrokerConfig, platform: Platform, cluster_id: str, broker: Broker, disk: Disk
) -> LeaseRoutes:
    """The routes of leases; what lends is imported when it is first needed."""
    replicas: Replicas = broker.replicas

    def new_lender() -> "Lender":
        from kpybroker.leases.lender import Lender

        return Lender((cluster_id, config.node_id), broker.leases, replicas, disk, platform.scheduler, platform.rng)

    return LeaseRoutes(new_lender, broker.authorizer)
