"""Tests without Java: real brokers inside a test, with a clock to move, faults to cause and records to expect.

``from kpybroker.testing import Broker`` and ``with Broker() as broker:``; docs/testing.md has the rest. Nothing is
imported before it is used, so naming this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kpybroker.testing.async_broker import AsyncBroker
    from kpybroker.testing.broker import Broker
    from kpybroker.testing.client_metrics import ClientMetrics, Measurement
    from kpybroker.testing.cluster import Cluster
    from kpybroker.testing.container import KafkaContainer
    from kpybroker.testing.expectations import (
        assert_committed,
        assert_records,
        assert_shared,
        wait_for_group_stable,
        wait_for_records,
    )
    from kpybroker.testing.groups import Group, Member
    from kpybroker.testing.hosts import BrokerFailed
    from kpybroker.testing.oidc import OidcProvider
    from kpybroker.testing.records import Record
    from kpybroker.testing.security import Access, AsyncAccess, Security, allow, deny
    from kpybroker.testing.shares import Shared
    from kpybroker.testing.snapshot import Snapshot

__all__ = [
    "Access",
    "AsyncAccess",
    "AsyncBroker",
    "Broker",
    "BrokerFailed",
    "ClientMetrics",
    "Cluster",
    "Group",
    "KafkaContainer",
    "Measurement",
    "Member",
    "OidcProvider",
    "Record",
    "Security",
    "Shared",
    "Snapshot",
    "allow",
    "assert_committed",
    "assert_records",
    "assert_shared",
    "deny",
    "wait_for_group_stable",
    "wait_for_records",
]

_HOMES = {
    "Access": "security",
    "AsyncAccess": "security",
    "AsyncBroker": "async_broker",
    "Broker": "broker",
    "BrokerFailed": "hosts",
    "ClientMetrics": "client_metrics",
    "Cluster": "cluster",
    "Group": "groups",
    "KafkaContainer": "container",
    "Measurement": "client_metrics",
    "Member": "groups",
    "OidcProvider": "oidc",
    "Record": "records",
    "Security": "security",
    "Shared": "shares",
    "Snapshot": "snapshot",
    "allow": "security",
    "assert_committed": "expectations",
    "assert_records": "expectations",
    "assert_shared": "expectations",
    "deny": "security",
    "wait_for_group_stable": "expectations",
    "wait_for_records": "expectations",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
