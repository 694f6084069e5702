"""A kind of groups: its name, its states, and the functions that inputs of a coordinator lead to. Each package of a
kind has one, and `kpybroker.machines.groups.kinds` lists them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import Membership
from kpybroker.machines.groups.shard import GroupShard

_NONE: Final[Any] = {}


class Tables(NamedTuple):
    """Functions by the type of what leads to them."""

    deciders: Mapping[type, Callable[[GroupShard, GroupRequest, GroupDecision], Any]] = _NONE
    """The decision on each request, by its message."""
    refusals: Mapping[type, Callable[[GroupRequest, int, GroupDecision], None]] = _NONE
    """The refusals of requests whose records may not fit into a batch."""
    group_refusals: Mapping[type, Callable[[GroupShard, GroupRequest, GroupDecision], None]] = _NONE
    """The refusals that affect the whole group."""
    repeats: Mapping[type, Callable[[GroupShard, Any, int], Any]] = _NONE
    """The answers to heartbeats that need no decision: ``(shard, message, now_ms)``; None if one is needed after
    all. A heartbeat that is not here is answered as the last one of its member (`resting`)."""
    events: Mapping[type, Sequence[Callable[[GroupShard, Any, GroupDecision], None]]] = _NONE
    """The decisions on inputs that are no requests."""
    replays: Mapping[type, Callable[[GroupShard, Any, Any], None]] = _NONE
    """How a record changes the shard, by its key: ``(shard, key, value)``."""
    begins: Mapping[type[Membership], Callable[[GroupShard, str, GroupDecision], bool]] = _NONE
    """The visit that begins the sessions of a group with members after a load, by its membership."""


class GroupKind(NamedTuple):
    """One kind of groups."""

    name: str
    title: str
    """Groups of this kind, in words."""
    states: Mapping[str, str]
    """Its states in the order of Kafka's metrics, and how metrics and filters write them."""
    tables: Tables


def merged(parts: Iterable[Tables]) -> Tables:
    """The tables of all parts as one. Later parts come before earlier ones; several may decide on one event."""
    found = Tables({}, {}, {}, {}, {}, {}, {})
    events: dict[type, tuple[Any, ...]] = {}
    for part in parts:
        for name, table in part._asdict().items():
            getattr(found, name).update(table)
        for event, decisions in part.events.items():
            events[event] = (*events.get(event, ()), *decisions)
    return found._replace(events=events)


def lowered(*states: str) -> Mapping[str, str]:
    """States that metrics and filters write in lower case."""
    return {state: state.lower() for state in states}
