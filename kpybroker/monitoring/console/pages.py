"""The table of the pages of the console. Each page has an address, and the same value under ``/api``.

Routes, the JSON API and its document are made from this table.
"""

from typing import Final

from kpybroker.machines.console.balance import BalancePage
from kpybroker.machines.console.cluster import ClusterView
from kpybroker.machines.console.configs import ConfigsPage
from kpybroker.machines.console.connections import ConnectionPage, Connections
from kpybroker.machines.console.finding import FindPage
from kpybroker.machines.console.group_resets import ResetPage
from kpybroker.machines.console.groups import GroupPage, Groups
from kpybroker.machines.console.history import HistoryPage
from kpybroker.machines.console.mirrors import MirrorsPage
from kpybroker.machines.console.producing import ProducePage
from kpybroker.machines.console.quorum import QuorumPage
from kpybroker.machines.console.quotas import QuotasPage
from kpybroker.machines.console.records import RecordsPage, SearchPage
from kpybroker.machines.console.security import SecurityPage
from kpybroker.machines.console.segments import PartitionPage, SegmentPage
from kpybroker.machines.console.tiers import TiersPage
from kpybroker.machines.console.topics import TopicPage, TopicsPage
from kpybroker.machines.console.transactions import TransactionsPage
from kpybroker.monitoring.console.answers.balance import balance
from kpybroker.monitoring.console.answers.cluster import cluster
from kpybroker.monitoring.console.answers.configs import configs
from kpybroker.monitoring.console.answers.connections import connection, connections
from kpybroker.monitoring.console.answers.downloads import raw, records_csv, search_csv
from kpybroker.monitoring.console.answers.finding import find
from kpybroker.monitoring.console.answers.group import group
from kpybroker.monitoring.console.answers.group_resets import reset_page
from kpybroker.monitoring.console.answers.groups import groups
from kpybroker.monitoring.console.answers.history import history
from kpybroker.monitoring.console.answers.mirrors import mirrors
from kpybroker.monitoring.console.answers.producing import produce_form
from kpybroker.monitoring.console.answers.quorum import quorum
from kpybroker.monitoring.console.answers.quotas import quotas
from kpybroker.monitoring.console.answers.records import records
from kpybroker.monitoring.console.answers.searching import found
from kpybroker.monitoring.console.answers.security import security
from kpybroker.monitoring.console.answers.segments import partition, segment
from kpybroker.monitoring.console.answers.tiers import tiers
from kpybroker.monitoring.console.answers.topics import topic, topics
from kpybroker.monitoring.console.answers.transactions import transactions
from kpybroker.monitoring.console.page import PARTITION, ConsolePage, Download, Parameter

TOPIC: Final = Parameter("topic", "The topic")
FORM: Final = Parameter("form", "auto, text, json or hex: how keys and values are shown")
RANGE: Final = Parameter("range", "The time behind now that the plots show: 10min, 1h, 6h or 24h")
FILTER: Final = (
    Parameter("text", "A part of the key, the value or a header"),
    Parameter("kind", "text, regex (RE2) or hex: what text is"),
    Parameter("where", "any, key, value or header: where text is"),
    Parameter("ignore_case", "1 if capitals count as small letters", "boolean"),
    Parameter("key", "A part of the key"),
    Parameter("header", "The name of a header, or name=part of its value"),
    Parameter("json", 'Comparisons of values in JSON, such as $.from == "ZRH" and $.amount > 10'),
    Parameter("since", "The time of the first record: milliseconds since 1970, or 2026-01-31T12:00"),
    Parameter("until", "The time that records are older than"),
)
"""The filter of records; all that is given has to match."""
RECORDS: Final = (
    TOPIC,
    PARTITION,
    Parameter("start", "newest, oldest, offset or time"),
    Parameter("offset", "The first offset, with start=offset", "integer"),
    Parameter("time", "The first time, with start=time: milliseconds since 1970, or 2026-01-31T12:00"),
    Parameter("most", "The most records, up to 500", "integer"),
    FORM,
    Parameter("committed", "1 for committed records only"),
    Parameter("live", "1 for a page that shows the newest records again and again"),
    *FILTER,
)
SORT: Final = Parameter("sort", "The column that rows are sorted by, with - before it from the most on")
NUMBER_OF_PAGE: Final = Parameter("page", "The number of the page, from 1", "integer")

PAGES: Final = (
    ConsolePage("/", "cluster.html", "Cluster", cluster, ClusterView, (RANGE,), every_s=4, is_of_controllers=True),
    ConsolePage(
        "/history", "history.html", "History", history, HistoryPage, (RANGE,), every_s=10, is_of_controllers=True
    ),
    ConsolePage(
        "/topics",
        "topics.html",
        "Topics",
        topics,
        TopicsPage,
        (
            Parameter("q", "A part of the names"),
            Parameter("internal", "1 to list Kafka's own topics, too"),
            Parameter(
                "sort",
                "name, partitions, replicas, rate, in, out, records, size, lag or state; -lag for the most first",
            ),
            NUMBER_OF_PAGE,
        ),
        every_s=10,
    ),
    ConsolePage("/topics/{topic}", "topic.html", "Topic", topic, TopicPage, (SORT, NUMBER_OF_PAGE), every_s=10),
    ConsolePage("/topics/{topic}/{partition}", "partition.html", "Partition", partition, PartitionPage, (SORT,), 10),
    ConsolePage(
        "/topics/{topic}/{partition}/{segment}",
        "segment.html",
        "Segment",
        segment,
        SegmentPage,
        (Parameter("position", "The byte where the first batch begins", "integer"),),
    ),
    ConsolePage("/records", "records.html", "Records", records, RecordsPage, RECORDS),
    ConsolePage("/records/csv", "", "The records of a page as CSV", records_csv, Download, RECORDS),
    ConsolePage(
        "/records/raw",
        "",
        "A part of a record",
        raw,
        Download,
        (
            TOPIC,
            Parameter("partition", "The number of the partition", "integer", is_needed=True),
            Parameter("offset", "The offset of the record", "integer", is_needed=True),
            Parameter("part", "value, key or headers"),
        ),
    ),
    ConsolePage(
        "/records/produce",
        "produce.html",
        "Produce a record",
        produce_form,
        ProducePage,
        (
            Parameter("topic", "The topic", is_needed=True),
            Parameter("partition", "The partition of the record that fills the form", "integer"),
            Parameter("offset", "The offset of the record that fills the form", "integer"),
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
    ConsolePage(
        "/group",
        "group.html",
        "Group",
        group,
        GroupPage,
        (Parameter("id", "The group", is_needed=True), SORT, RANGE),
        4,
    ),
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
        (Parameter("q", "A part of the address, principal, software or client id"), SORT, NUMBER_OF_PAGE, RANGE),
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
        (Parameter("q", "A part of the ids"), SORT, NUMBER_OF_PAGE),
        10,
    ),
    ConsolePage("/quorum", "quorum.html", "Quorum", quorum, QuorumPage, every_s=4, is_of_controllers=True),
    ConsolePage("/balance", "balance.html", "Balance", balance, BalancePage, every_s=4, is_of_controllers=True),
    ConsolePage(
        "/configs",
        "configs.html",
        "Configs",
        configs,
        ConfigsPage,
        (
            Parameter("q", "A part of the names"),
            Parameter("all", "1 to list those that have their default, too"),
            SORT,
        ),
        is_of_controllers=True,
    ),
    ConsolePage("/security", "security.html", "Security", security, SecurityPage, (SORT,)),
    ConsolePage("/quotas", "quotas.html", "Quotas", quotas, QuotasPage, (SORT,), 4),
    ConsolePage("/tiers", "tiers.html", "Tiered storage", tiers, TiersPage, (SORT, NUMBER_OF_PAGE), 4),
    ConsolePage("/mirrors", "mirrors.html", "Mirrors", mirrors, MirrorsPage, (SORT, NUMBER_OF_PAGE), 4),
    ConsolePage(
        "/find",
        "find.html",
        "Find",
        find,
        FindPage,
        (Parameter("q", "A part of the names of topics, groups, clients, transactional ids and configs"),),
        is_of_controllers=True,
    ),
    ConsolePage("/searches/{search}", "search.html", "Search", found, SearchPage, (FORM,)),
    ConsolePage("/searches/{search}/csv", "", "What a search has found, as CSV", search_csv, Download, (FORM,)),
)
