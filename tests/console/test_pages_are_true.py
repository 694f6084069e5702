"""Every column of every table of the console's pages is compared with a node whose contents are known.

A wrong column is found: each is altered once.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from known_node import Known, known
from shown_tables import Shown, tables_of

from kpybroker.monitoring.console.pages import PAGES

__all__ = ["known"]

PLANTED = "planted"
SIZE = re.compile(r"[\d.]+ (B|KiB|MiB|GiB|TiB)")
SPAN = re.compile(r"[\d.]+ (s|min)")
TIME = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z")
NUMBER = re.compile(r"\d+")
SHARE = re.compile(r"[\d.]+ %")
PAIR = re.compile(r"[\d.]+( s)? / [\d.]+ (ms|s)")
Row = Sequence[str | re.Pattern[str]]


def configs(known: Known, path: str) -> list[Row]:
    """The rows of configs, by the answer below ``/api``, which has a test of its own."""
    rows = known.node.get(path).json["configs"]
    is_form = path != "/api/configs"
    return [
        (
            each["name"],
            re.compile("Set( Remove)?") if is_form else "–" if each["value"] is None else each["value"],
            re.compile(f"{re.escape(each['source'])}(else .*)?"),
            f"{each['type']}{each['documentation']}",
        )
        for each in rows
    ]


def connections(known: Known) -> list[Row]:
    host, port = known.stage.connected.sock.getsockname()
    viewer = ("User:ANONYMOUS", "PLAINTEXT, PLAINTEXT", "idle or served", SPAN, "0 B")
    requests = "FindCoordinator v3, JoinGroup v3, SyncGroup v2"
    return [(f"{host}:{port}", "watched", "unknown", *viewer, requests)]


EXPECTED: dict[str, list[Callable[[Known], list[Row]]]] = {
    "/": [
        lambda known: [
            (
                "1 this node leads the quorum",
                "alive",
                "broker, controller",
                f"PLAINTEXT://127.0.0.1:{known.port}",
                "rack-1",
                "5",
                "5",
            )
        ],
        lambda _: [("/data", "working", "6", SIZE, SIZE, "1.0 TiB")],
    ],
    "/topics": [
        lambda _: [("flights", "2", "1", "20", SIZE, "in sync"), ("paid", "1", "1", "3", SIZE, "in sync")],
    ],
    "/topics/{topic}": [
        lambda _: [
            ("0", "1", "1", "1", "0", "20", SIZE, re.compile("the oldest segment, once .*retention.ms, at .*Z")),
            ("1", "1", "1", "1", "0", "0", "0 B", "the oldest segment, once the log is larger than retention.bytes"),
        ],
        lambda _: [("readers", "1", "15", SPAN)],
        lambda known: configs(known, "/api/topics/flights"),
    ],
    "/topics/{topic}/{partition}": [lambda _: [("0", "20", SIZE, TIME, "0", "0", "active")]],
    "/topics/{topic}/{partition}/{segment}": [
        lambda known: [
            (
                "0",
                "0 – 19",
                "20",
                SIZE,
                "none",
                re.compile(f"{TIME.pattern}{TIME.pattern}"),
                "–",
                "0",
                known.log_of("flights")[17:21].hex(),
                "plain",
            )
        ]
    ],
    "/records": [],
    "/groups": [
        lambda _: [
            ("joined", "classic", "Stable", "1", "unknown", "node 1"),
            ("readers", "classic", "Empty", "0", "15", "node 1"),
        ]
    ],
    "/group": [lambda _: [("flights-0", "5", TIME, "–", "20", "20", "15", SPAN, "none")]],
    "/connections": [
        lambda _: [(re.compile("the garbage collector|[A-Z][A-Za-z]+"), SHARE, "")],
        lambda _: [("Metadata", NUMBER, "0", *[PAIR] * 6)],
        connections,
    ],
    "/connections/{connection}": [],
    "/transactions": [
        lambda _: [("paid-0", "payments", "0", "0", "3", TIME)],
        lambda _: [("payments", "Ongoing", "0", "0", SPAN, "60 s", "paid-0", "Abort, and fence the producer")],
    ],
    "/quorum": [
        lambda _: [("1 this node", "leader", NUMBER, "0", TIME, TIME)],
        lambda known: [(name, str(level)) for name, level in known.node.node.image.finalized_features.items()],
    ],
    "/configs": [lambda known: configs(known, "/api/configs")],
    "/security": [lambda _: [("PLAINTEXT", "127.0.0.1:0", "PLAINTEXT")]],
    "/quotas": [
        lambda _: [("client-id (default)", "producer_byte_rate", "477 MiB/s500 000 000")],
        lambda _: [("all", "rdkafka", "producer_byte_rate", re.compile(r"[\d.]+ B/s"), "0 ms")],
    ],
    "/find": [],
    "/searches/{search}": [],
}
"""The rows that each table of a page has to have; the tables of connections have further ones."""


def check(found: Shown, rows: Sequence[Row], *, exactly: bool) -> None:
    """Compare every cell of a table. Raises AssertionError."""
    assert not exactly or len(found.rows) == len(rows), found.rows
    for row in rows:
        assert any(_fits(each, row) for each in found.rows), (row, found.rows)


def _fits(found: Sequence[str], row: Row) -> bool:
    return len(found) == len(row) and all(
        each.fullmatch(text) if isinstance(each, re.Pattern) else each == text
        for text, each in zip(found, row, strict=True)
    )


@pytest.mark.parametrize("page", [page for page in PAGES if page.template], ids=lambda page: page.path)
def test_every_column_of_a_page_is_true_and_a_wrong_one_is_found(known: Known, page: Any) -> None:
    tables = tables_of(known.node.get(known.stage.address(page, page.path)).text)
    assert len(tables) == len(EXPECTED[page.path]), "every table is compared"
    for table, expected in zip(tables, EXPECTED[page.path], strict=True):
        rows, exactly = expected(known), page.path != "/connections"
        check(table, rows, exactly=exactly)
        for number in range(len(table.headings)):
            wrong = [[*row[:number], PLANTED, *row[number + 1 :]] for row in table.rows]
            with pytest.raises(AssertionError):
                check(Shown(table.headings, wrong), rows, exactly=exactly)
