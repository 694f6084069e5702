"""The table of the pages of the console. Each page has an address, and the same value under ``/api``.

Routes, the JSON API and its document are made from this table.
"""

from typing import Final

from kpybroker.machines.console.cluster import ClusterView
from kpybroker.machines.console.configs import ConfigsPage
from kpybroker.machines.console.connections import ConnectionPage, Connections
from kpybroker.machines.console.group_resets import ResetPage
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
from kpybroker.monitoring.console.answers.group import group
from kpybroker.monitoring.console.answers.group_resets import reset_page
from kpybroker.monitoring.console.answers.groups import groups
from kpybroker.monitoring.console.answers.quorum import quorum
from kpybroker.monitoring.console.answers.quotas import quotas
from kpybroker.monitoring.console.answers.records import Download, found, raw, records
from kpybroker.monitoring.console.answers.security import security
from kpybroker.monitoring.console.answers.segments import partition, segment
from kpybroker.monitoring.console.answers.topics import topic, topics
from kpybroker.monitoring.console.answers.transactions import transactions
from kpybroker.monitoring.console.page import PARTITION, ConsolePage, Parameter

TOPIC: Final = Parameter("topic", "The topic")
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
        "/groups",
        "groups.html",
        "Groups",
        groups,
        Groups,
        (
            Parameter("q", "A part of the ids"),
            Parameter("sort", "A column: group, verdict, lag, time, trend, topics, type, state, members or node; -lag"),
            NUMBER_OF_PAGE,
        ),
        10,
    ),
    ConsolePage("/group", "group.html", "Group", group, GroupPage, (Parameter("id", "The group", is_needed=True),), 4),
    ConsolePage(
        "/group/reset",
        "group_reset.html",
        "Set positions",
        reset_page,
        ResetPage,
        (
            Parameter("id", "The group", is_needed=True),
            Parameter("to", "earliest, latest, offset, time or shift"),
            Parameter("value", "The offset, the time as in /records, or by how many records to go on"),
            Parameter("topic", "The topic; all in which the group has positions without it"),
            PARTITION,
        ),
    ),
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
