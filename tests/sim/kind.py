"""The kind of cluster that a world has, and what people do to it: drawn from the seed, some of it in each.

A plain world has none of this: nodes that are all broker and controller, and stay what they are. Failures
without anybody's doing are elsewhere (:mod:`tests.sim.misfortune`).
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

BROKER = "broker"
CONTROLLER = "controller"
BOTH = "broker,controller"
MOST_VOTERS = 3
DRAWN_SHARE = 0.2
"""The share of guarded worlds, and of those with groups of Kafka 4, in which people also change the cluster."""
APART_SHARE = 0.6
"""The share of worlds with tiered topics whose controller is a node of its own."""
CONSUMER, STREAMS = "consumer", "streams"
PLAIN, GUARDED, LENDING, BEATING, STREAMING, SHARING, FLUSHING, LEVELLING, TIERING, ZOOKEEPER = (
    "plain",
    "guarded",
    "lending",
    "beating",
    "streaming",
    "sharing",
    "flushing",
    "levelling",
    "tiering",
    "zookeeper",
)
WORLDS = {
    PLAIN: "plain worlds, where nobody changes the cluster",
    GUARDED: "worlds with ACLs, client quotas and guests",
    LENDING: "worlds whose files are lent and read",
    BEATING: "worlds with a group of the consumer protocol",
    STREAMING: "worlds with a streams group",
    SHARING: "worlds with a share group",
    FLUSHING: "worlds where every flush takes long, and partitions move between directories",
    LEVELLING: "worlds whose nodes get a newer program, while the level is raised",
    TIERING: "worlds with tiered topics and one store that fails",
    ZOOKEEPER: "worlds with brokers in ZooKeeper mode",
}
"""The worlds that have seeds of their own, by the names of their options. All others are drawn."""


class Kind(NamedTuple):
    """One kind of world."""

    roles: dict[int, str]
    """The roles of every node, by its id; ids are 1 and up."""
    voters: Sequence[int]
    """The voters that the quorum begins with."""
    late: Sequence[int] = ()
    """Nodes that are started some time after the others."""
    is_plain: bool = True
    passes_topics: bool = False
    """Topics are deleted and made again while they are written and read."""
    tunes: bool = False
    """Configurations change."""
    groups: str = ""
    """Members of a group come and go; they process ``at least`` or ``exactly`` once."""
    protocol: str = ""
    """The protocol of the group: `CONSUMER` (KIP-848), `STREAMS` (KIP-1071), or the classic one."""
    shares: bool = False
    """A share group reads a topic (KIP-932)."""
    reassigns: bool = False
    """Partitions move to other brokers."""
    changes_voters: bool = False
    """Controllers join and leave the quorum."""
    rot: float = 0.0
    """How often a machine comes back with a bit of its old files turned over."""
    straggle: float = 0.0
    """How often something is under way for seconds, and arrives behind what its sender said later elsewhere."""
    is_guarded: bool = False
    """Nodes have an authorizer and client quotas, which change, and guests try what they may not."""
    lends: bool = False
    """Programs borrow segments and read their files."""
    has_zookeeper: bool = False
    """Nodes are brokers in ZooKeeper mode, beside an ensemble of ZooKeeper."""
    segment_bytes: int = 0
    """How large the segments of clients' topics are; 0 for as large as usual."""
    is_slow: bool = False
    """Each sync of a thread takes long, and partitions move between two directories of each broker."""

    tiers: bool = False
    """Topics have their older records in a store that all nodes share."""
    release: str = ""
    """The release whose levels the cluster begins with; the programs of some nodes know no newer ones, until an
    operator replaces them. Empty for the newest."""

    @property
    def brokers(self) -> list[int]:
        """All nodes that are brokers."""
        return [node_id for node_id, role in self.roles.items() if role != CONTROLLER]

    @property
    def is_even(self) -> bool:
        """Whether all nodes are the same."""
        return set(self.roles.values()) == {BOTH} and not self.late


def plain(nodes: int) -> Kind:
    """Nodes that stay what they are; more than three are brokers only."""
    ids = range(1, nodes + 1)
    return Kind({each: BOTH if each <= MOST_VOTERS else BROKER for each in ids}, list(ids)[:MOST_VOTERS])


def drawn(rng: Random, nodes: int) -> Kind:
    """Any kind."""
    kind = plain(nodes)._replace(
        is_plain=False,
        passes_topics=rng.random() < 0.35,
        tunes=rng.random() < 0.35,
        groups=rng.choice(("", "", "at least", "exactly")),
        straggle=rng.choice((0.0, 0.0, 0.001, 0.005)),
        segment_bytes=rng.choice((0, 600, 5_000)),
    )
    if nodes == 1:
        return kind
    kind = kind._replace(
        reassigns=rng.random() < 0.35,
        changes_voters=rng.random() < 0.25,
        rot=rng.choice((0.0, 0.0, 0.8)) if kind.segment_bytes else 0.0,
    )
    if kind.rot:
        kind = kind._replace(segment_bytes=300)
    return _shaped(kind, rng, nodes)


def guarded(rng: Random, nodes: int) -> Kind:
    """A kind with ACLs, client quotas and guests; most have nothing else that changes."""
    kind = drawn(rng, nodes) if rng.random() < DRAWN_SHARE else plain(nodes)
    return kind._replace(is_guarded=True)


def lending(nodes: int) -> Kind:
    """Nodes that stay what they are, and lend their files."""
    return plain(nodes)._replace(lends=True)


def beating(rng: Random, nodes: int, protocol: str) -> Kind:
    """A kind with a group of the consumer or streams protocol; most have nothing else that changes."""
    kind = drawn(rng, nodes) if rng.random() < DRAWN_SHARE else plain(nodes)
    return kind._replace(is_plain=False, protocol=protocol, groups=rng.choice(("at least", "exactly")))


def sharing(nodes: int) -> Kind:
    """Nodes that stay what they are, and serve a share group."""
    return plain(nodes)._replace(shares=True)


def flushing(rng: Random, nodes: int) -> Kind:
    """Nodes that stay what they are, whose disks are slow."""
    return plain(nodes)._replace(
        is_plain=False, is_slow=True, passes_topics=rng.random() < 0.5, segment_bytes=rng.choice((600, 2_000))
    )


def tiering(rng: Random, nodes: int) -> Kind:
    """Brokers with small segments and a store; in most worlds the controller is apart, so that brokers may lose their
    disks."""
    kind = plain(nodes)._replace(tiers=True, segment_bytes=rng.choice((200, 300, 600)))
    if nodes > 1 and rng.random() < APART_SHARE:
        controller = nodes + 1
        roles = {**dict.fromkeys(kind.roles, BROKER), controller: CONTROLLER}
        return kind._replace(roles=roles, voters=[controller])
    return kind


def of(world: str, rng: Random, nodes: int) -> Kind:
    """The kind of a world, by its name in `WORLDS`; without a name, any kind."""
    if world in (BEATING, STREAMING):
        return beating(rng, nodes, CONSUMER if world == BEATING else STREAMS)
    if world == GUARDED:
        return guarded(rng, nodes)
    if world == FLUSHING:
        return flushing(rng, nodes)
    if world == ZOOKEEPER:
        return zookeeper(rng, nodes)
    if world == TIERING:
        return tiering(rng, nodes)
    if world == LEVELLING:
        return plain(nodes)._replace(release="4.3")
    if world in (LENDING, SHARING):
        return lending(nodes) if world == LENDING else sharing(nodes)
    return plain(nodes) if world == PLAIN else drawn(rng, nodes)


def zookeeper(rng: Random, nodes: int) -> Kind:
    """Brokers in ZooKeeper mode; in most worlds topics come and go, or something else changes."""
    return plain(nodes)._replace(
        has_zookeeper=True,
        is_plain=False,
        roles=dict.fromkeys(range(1, nodes + 1), BROKER),
        voters=(),
        passes_topics=rng.random() < 0.6,
        tunes=rng.random() < 0.3,
        groups=rng.choice(("", "", "at least", "exactly")),
        reassigns=rng.random() < 0.35,
        straggle=rng.choice((0.0, 0.0, 0.001, 0.005)),
        segment_bytes=rng.choice((0, 600, 5_000)),
    )


def _shaped(kind: Kind, rng: Random, nodes: int) -> Kind:
    """With other roles than all the same, now and then; and who may join the quorum, where it changes."""
    shape = rng.choice(("even", "even", "apart", "mixed", "growing"))
    voters = list(range(1, nodes + 1))[:MOST_VOTERS]
    if shape == "apart":
        voters = [nodes + 1 + number for number in range(rng.choice((1, 3)))]
        kind = kind._replace(roles={**dict.fromkeys(kind.roles, BROKER), **dict.fromkeys(voters, CONTROLLER)})
    elif shape == "mixed":
        voters = [1, 2, nodes + 1]
        kind = kind._replace(roles={**kind.roles, nodes: BROKER if nodes > 2 else BOTH, nodes + 1: CONTROLLER})
    elif shape == "growing":
        kind = kind._replace(roles={**kind.roles, nodes + 1: BROKER}, late=(nodes + 1,))
    if kind.changes_voters:
        joining = max(kind.roles) + 1
        kind = kind._replace(roles={**kind.roles, joining: rng.choice((CONTROLLER, BOTH))})
    return kind._replace(voters=voters)
