"""The table of everything that the console answers. Each page has an address, and the same value under ``/api``.

Routes, the JSON API and its document are made from this table.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from kpybroker.machines.console.cluster import ClusterView
from kpybroker.machines.console.configs import ConfigsPage
from kpybroker.machines.console.connections import ConnectionPage, Connections
from kpybroker.machines.console.groups import GroupPage, Groups
from kpybroker.machines.console.quorum import QuorumPage
from kpybroker.machines.console.quotas import QuotasPage
from kpybroker.machines.console.records import RecordsPage, SearchPage
from kpybroker.machines.console.security import SecurityPage
from kpybroker.machines.console.segments import PartitionPage, SegmentPage
from kpybroker.machines.console.topics import TopicPage, TopicsPage
from kpybroker.machines.console.transactions import TransactionsPage
from kpybroker.monitoring.console.answers.cluster import cluster
from kpybroker.monitoring.console.answers.configs import configs
from kpybroker.monitoring.console.answers.connections import connection, connections
from kpybroker.monitoring.console.answers.groups import group, groups
from kpybroker.monitoring.console.answers.producing import produce
from kpybroker.monitoring.console.answers.quorum import quorum
from kpybroker.monitoring.console.answers.quotas import quotas
from kpybroker.monitoring.console.answers.records import Download, cancel, found, more, raw, records, search
from kpybroker.monitoring.console.answers.security import security
from kpybroker.monitoring.console.answers.segments import partition, segment
from kpybroker.monitoring.console.answers.topics import configure, create, topic, topics
from kpybroker.monitoring.console.answers.transactions import abort, transactions
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer

View = Callable[[NodeParts, Viewer, Query], Awaitable[Any]]
Change = Callable[[NodeParts, Viewer, Query], Awaitable[str]]


class Parameter(NamedTuple):
    """A value in the query of a page, or in the body of a change."""

    name: str
    about: str
    kind: str = "string"
    is_needed: bool = False


class ConsolePage(NamedTuple):
    """A page: its path with parameters in braces, its template, and the view with the type of its value."""

    path: str
    template: str
    title: str
    view: View
    value: type
    parameters: tuple[Parameter, ...] = ()
    every_s: int = 0
    """The time after which the page fetches itself again; 0 for never."""
    is_of_controllers: bool = False
    """Whether a node that is only a controller has it, too."""

    @property
    def api_path(self) -> str:
        """The path of its JSON."""
        return "/api/cluster" if self.path == "/" else f"/api{self.path}"


class Action(NamedTuple):
    """A change, by POST. It returns the address of the page that shows its result."""

    path: str
    title: str
    change: Change
    parameters: tuple[Parameter, ...]
    is_change: bool = True
    """Whether something of the cluster changes, so that writing has to be enabled."""


TOPIC: Final = Parameter("topic", "The topic")
PARTITION: Final = Parameter("partition", "The number of the partition; all without it", "integer")
FORM: Final = Parameter("form", "auto, text, json or hex: how keys and values are shown")
NUMBER_OF_PAGE: Final = Parameter("page", "The number of the page, from 1", "integer")

PAGES: Final = (
    ConsolePage("/", "cluster.html", "Cluster", cluster, ClusterView, every_s=4, is_of_controllers=True),
    ConsolePage(
        "/topics",
        "topics.html",
        "Topics",
        topics,
        TopicsPage,
        (
            Parameter("q", "A part of the names"),
            Parameter("internal", "1 to list Kafka's own topics, too"),
            NUMBER_OF_PAGE,
        ),
    ),
    ConsolePage("/topics/{topic}", "topic.html", "Topic", topic, TopicPage, (NUMBER_OF_PAGE,), every_s=10),
    ConsolePage("/topics/{topic}/{partition}", "partition.html", "Partition", partition, PartitionPage, every_s=10),
    ConsolePage(
        "/topics/{topic}/{partition}/{segment}",
        "segment.html",
        "Segment",
        segment,
        SegmentPage,
        (Parameter("position", "The byte where the first batch begins", "integer"),),
    ),
    ConsolePage(
        "/records",
        "records.html",
        "Records",
        records,
        RecordsPage,
        (
            TOPIC,
            PARTITION,
            Parameter("start", "newest, oldest, offset or time"),
            Parameter("offset", "The first offset, with start=offset", "integer"),
            Parameter("time", "The first time, with start=time: milliseconds since 1970, or 2026-01-31T12:00"),
            Parameter("most", "The most records, up to 500", "integer"),
            FORM,
            Parameter("committed", "1 for committed records only"),
            Parameter("live", "1 for a page that shows the newest records again and again"),
        ),
    ),
    ConsolePage(
        "/records/raw",
        "",
        "A key or value",
        raw,
        Download,
        (
            TOPIC,
            Parameter("partition", "The number of the partition", "integer", is_needed=True),
            Parameter("offset", "The offset of the record", "integer", is_needed=True),
            Parameter("part", "value or key"),
        ),
    ),
    ConsolePage(
        "/groups", "groups.html", "Groups", groups, Groups, (Parameter("q", "A part of the ids"), NUMBER_OF_PAGE), 10
    ),
    ConsolePage("/group", "group.html", "Group", group, GroupPage, (Parameter("id", "The group", is_needed=True),), 4),
    ConsolePage(
        "/connections",
        "connections.html",
        "Connections",
        connections,
        Connections,
        (Parameter("q", "A part of the address, principal, software or client id"), NUMBER_OF_PAGE),
        4,
        is_of_controllers=True,
    ),
    ConsolePage(
        "/connections/{connection}",
        "connection.html",
        "Connection",
        connection,
        ConnectionPage,
        every_s=2,
        is_of_controllers=True,
    ),
    ConsolePage(
        "/transactions",
        "transactions.html",
        "Transactions",
        transactions,
        TransactionsPage,
        (Parameter("q", "A part of the ids"), NUMBER_OF_PAGE),
        10,
    ),
    ConsolePage("/quorum", "quorum.html", "Quorum", quorum, QuorumPage, every_s=4, is_of_controllers=True),
    ConsolePage(
        "/configs",
        "configs.html",
        "Configs",
        configs,
        ConfigsPage,
        (
            Parameter("q", "A part of the names"),
            Parameter("all", "1 to list those that have their default, too"),
        ),
        is_of_controllers=True,
    ),
    ConsolePage("/security", "security.html", "Security", security, SecurityPage),
    ConsolePage("/quotas", "quotas.html", "Quotas", quotas, QuotasPage, every_s=4),
    ConsolePage("/searches/{search}", "search.html", "Search", found, SearchPage, (FORM,)),
)

ACTIONS: Final = (
    Action(
        "/topics",
        "Create a topic",
        create,
        (
            Parameter("name", "The name", is_needed=True),
            Parameter("partitions", "How many; the broker's default without it", "integer"),
            Parameter("replication_factor", "Replicas of each; the broker's default without it", "integer"),
            Parameter("configs", "Configs by name, or lines name=value", "object"),
        ),
    ),
    Action(
        "/topics/{topic}/configs",
        "Set a config of a topic; without a value it is removed",
        configure,
        (Parameter("name", "The config", is_needed=True), Parameter("value", "Its value")),
    ),
    Action(
        "/searches",
        "Begin a search",
        search,
        (
            Parameter("topic", "The topic", is_needed=True),
            Parameter("text", "What records have to contain", is_needed=True),
            Parameter("kind", "text, regex (RE2) or hex"),
            Parameter("where", "any, key, value or header"),
            Parameter("ignore_case", "Whether capitals count as small letters", "boolean"),
            PARTITION,
            Parameter("since", "The time of the first record, as in /records"),
        ),
        is_change=False,
    ),
    Action(
        "/topics/{topic}/records",
        "Produce a record",
        produce,
        (
            Parameter("key", "The key; null if it is empty"),
            Parameter("value", "The value; null without it"),
            Parameter("headers", "Lines name=value"),
            Parameter("partition", "The number of the partition; by the key without it", "integer"),
        ),
    ),
    Action(
        "/transactions/abort",
        "Abort an open transaction, and fence its producer",
        abort,
        (Parameter("transactional_id", "The transactional id", is_needed=True),),
    ),
    Action("/searches/{search}/more", "Go on behind a search that has found enough", more, (), is_change=False),
    Action("/searches/{search}/cancel", "Cancel a search", cancel, (), is_change=False),
)


def match(pattern: str, path: str) -> dict[str, str] | None:
    """The parameters in a path; None if it has another form. Parts of a path are never empty."""
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    found = {}
    for part, text in zip(wanted, given, strict=True):
        if part.startswith("{"):
            if not text:
                return None
            found[part[1:-1]] = text
        elif part != text:
            return None
    return found
