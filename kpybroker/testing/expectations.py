"""The assertions as functions: ``assert_records(broker, ...)`` is ``broker.assert_records(...)``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kpybroker.testing.async_broker import TIMEOUT_S
from kpybroker.testing.broker import Broker
from kpybroker.testing.groups import Group, Spot
from kpybroker.testing.records import Records
from kpybroker.testing.shares import Offsets, Shared


def assert_records(
    broker: Broker, topic: str, expected: Sequence[Any], *, ordered: bool = True, timeout_s: float = 0.0
) -> Records:
    """Assert that the topic holds exactly these records, at the latest after ``timeout_s`` seconds. Return what it
    holds."""
    __tracebackhide__ = True
    return broker.assert_records(topic, expected, ordered=ordered, timeout_s=timeout_s)


def wait_for_records(broker: Broker, topic: str, count: int, *, timeout_s: float = TIMEOUT_S) -> Records:
    """All records of a topic, as soon as there are ``count``."""
    __tracebackhide__ = True
    return broker.wait_for_records(topic, count, timeout_s=timeout_s)


def wait_for_group_stable(
    broker: Broker,
    group_id: str,
    *,
    members: int | None = None,
    topics: Iterable[str] = (),
    timeout_s: float = 3 * TIMEOUT_S,
) -> Group:
    """The group once it is Stable, has this many ``members``, and each partition of ``topics`` is read by a member."""
    __tracebackhide__ = True
    return broker.wait_for_group_stable(group_id, members=members, topics=topics, timeout_s=timeout_s)


def assert_committed(
    broker: Broker, group_id: str, expected: Mapping[Spot, int | None], *, timeout_s: float = TIMEOUT_S
) -> dict[Spot, int]:
    """Assert that the group has committed exactly this, at the latest after ``timeout_s`` seconds. Return what it has
    committed."""
    __tracebackhide__ = True
    return broker.assert_committed(group_id, expected, timeout_s=timeout_s)


def assert_shared(
    broker: Broker,
    group_id: str,
    *,
    accepted: Offsets | None = None,
    released: Offsets | None = None,
    archived: Offsets | None = None,
    lag: int | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Shared:
    """Assert that a share group has accepted exactly these offsets, released those, and so on, at the latest after
    ``timeout_s`` seconds. Return the fates of all its records. A fate that is not named is not checked."""
    __tracebackhide__ = True
    return broker.assert_shared(
        group_id, accepted=accepted, released=released, archived=archived, lag=lag, timeout_s=timeout_s
    )
