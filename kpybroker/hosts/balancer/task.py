"""The task of the balancer's process: the cluster that it connects to, how, and its configs."""

from typing import NamedTuple

from kpybroker.client.balancer import BalancerSettings
from kpybroker.client.security import NO_SECURITY, ClientSecurity


class BalancerTask(NamedTuple):
    """The brokers of a cluster, the protection of connections to them, and the settings."""

    servers: str
    settings: BalancerSettings
    security: ClientSecurity = NO_SECURITY


class BalancerFailed(NamedTuple):
    """The last answer of a process that cannot go on."""

    reason: str
