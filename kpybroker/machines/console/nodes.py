"""The nodes of a cluster: their state, since when one is away, what to do about it, and the way to its console.

Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, NamedTuple

from kpybroker.machines.console.wording import counted
from kpybroker.machines.metadata.image import MetadataImage

ALIVE, FENCED, STOPPING, REGISTERED, SILENT = "alive", "fenced", "stopping", "registered", "silent"
SILENT_S: Final = 10.0
"""A controller that has not fetched from the quorum's leader for this time is silent."""
MOST_URL_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class NodeView:
    """A broker or a controller."""

    id: int
    roles: tuple[str, ...]
    state: str
    """``alive``, ``fenced`` or ``stopping``; ``registered`` or ``silent`` for a controller."""
    away_s: float | None
    """How long it has been away; None if it is not, or if that is unknown."""
    is_away_longer: bool
    """Whether it was away already when this node started."""
    advice: str
    """The thing to do about it, in one sentence; empty if there is none."""
    addresses: tuple[str, ...]
    rack: str | None
    leaders: int
    replicas: int
    leads_quorum: bool
    is_here: bool
    console: str | None
    """The address of its console, if the viewer's browser can reach it."""
    console_note: str
    """The reason why there is no such address."""


class Away(NamedTuple):
    """The absence of a node."""

    seconds: float
    is_older: bool


class ConsoleLink(NamedTuple):
    """The way to a console: its address, or the reason why there is none."""

    url: str | None
    note: str


class NodeFacts(NamedTuple):
    """The facts about nodes in addition to their registrations."""

    here: int
    quorum_leader: int | None
    leaders: Mapping[int, int]
    replicas: Mapping[int, int]
    waiting: Mapping[int, int]
    """The partitions without a leader that wait for a broker."""
    away: Mapping[int, Away]
    """The brokers that are fenced, and the controllers that are silent."""
    consoles: Mapping[int, ConsoleLink]


def nodes_of(image: MetadataImage, facts: NodeFacts) -> tuple[NodeView, ...]:
    """All nodes, by id."""
    return tuple(_node(number, image, facts) for number in sorted({*image.brokers, *image.controllers, facts.here}))


def _node(number: int, image: MetadataImage, facts: NodeFacts) -> NodeView:
    broker, controller = image.brokers.get(number), image.controllers.get(number)
    roles = (("broker",) if broker is not None else ()) + (("controller",) if controller is not None else ())
    away = facts.away.get(number)
    if broker is not None:
        state = FENCED if broker.fenced else STOPPING if broker.in_controlled_shutdown else ALIVE
    else:
        state = REGISTERED if away is None else SILENT
    if state not in (FENCED, SILENT):
        away = None
    listeners = {**(controller.listeners if controller else {}), **(broker.listeners if broker else {})}
    unknown = (
        "" if number == facts.here else "unknown while it is away" if state == FENCED else "unknown: it was not asked"
    )
    link = facts.consoles.get(number, ConsoleLink(None, unknown))
    return NodeView(
        number,
        roles,
        state,
        None if away is None else away.seconds,
        away is not None and away.is_older,
        _advice(number, state, facts, len(image.controllers)),
        tuple(f"{each.name}://{each.host}:{each.port}" for each in listeners.values()),
        None if broker is None else broker.rack,
        facts.leaders.get(number, 0),
        facts.replicas.get(number, 0),
        number == facts.quorum_leader,
        number == facts.here,
        link.url,
        link.note,
    )


def _advice(number: int, state: str, facts: NodeFacts, controllers: int) -> str:
    if state == STOPPING:
        return "It hands its leaderships over and stops: wait."
    if state == SILENT:
        return f"Start it again: the quorum needs {controllers // 2 + 1} of its {controllers} controllers."
    if state != FENCED:
        return ""
    if number not in facts.away:
        return "It has registered and serves nobody yet: wait, or read its log."
    waiting, replicas = facts.waiting.get(number, 0), facts.replicas.get(number, 0)
    if waiting:
        have = counted(waiting, "partition has", "partitions have")
        return f"Start it again: {have} no leader until it is back."
    if replicas:
        moved = f"move its {counted(replicas, 'replica')} to other brokers and unregister it"
        return f"Start it again; if it will not come back, {moved}."
    return "Start it again; if it will not come back, unregister it: it has no replicas."


def link_of(url: str, *, is_configured: bool, is_viewer_local: bool, is_same_machine: bool) -> ConsoleLink:
    """The way to the console of another node, which has named its address. One that is not configured and on loopback
    is an address only for a browser on the machine of both nodes."""
    if not url:
        return ConsoleLink(None, "it has none")
    if not url.startswith(("http://", "https://")) or len(url) > MOST_URL_CHARACTERS:
        return ConsoleLink(None, "it names no address")
    is_reached = is_configured or (is_viewer_local and is_same_machine)
    if is_loopback(_host_in(host_of(url))) and not is_reached:
        return ConsoleLink(None, f"on its own machine alone: {url}")
    return ConsoleLink(url, "")


def host_of(url: str) -> str:
    """The host and port in an address."""
    return url.partition("://")[2].partition("/")[0]


def _host_in(authority: str) -> str:
    return authority[1:].partition("]")[0] if authority.startswith("[") else authority.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Whether a host is the machine itself."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
