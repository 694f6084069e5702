"""Every column of every table of the console's pages is compared with a node whose contents are known.

A wrong column is found: each is altered once.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from known_node import Known, known
from shown_tables import Shown, tables_of
from stage import flight

from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.monitoring.console.pages import PAGES

__all__ = ["known"]

PLANTED = "planted"
SIZE = re.compile(r"[\d.]+ (B|KiB|MiB|GiB|TiB)")
SPEED = re.compile(r"[\d.]+ (B|KiB)/s")
RATE = re.compile(r"[\d.]+")
SPAN = re.compile(r"[\d.]+ (s|min)")
TIME = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z")
NUMBER = re.compile(r"\d+")
SHARE = re.compile(r"[\d.]+ %")
AGE = re.compile(r"[\d.]+ (s|min) ago|in [\d.]+ s")
PAIR = re.compile(r"[\d.]+( s)? / [\d.]+ (ms|s)")
CLOCK = re.compile(r"\d\d:\d\d:\d\d")
BYTE_RATE = re.compile(r"–|[\d.\s]+ (B/s|KiB/s|MiB/s)")
EACH = re.compile(r"–|[\d.\s]+/s")
NOT_WELL = re.compile("–|0")
PAUSE = re.compile(r"–|[\d.\s]+ ms")
Row = Sequence[str | re.Pattern[str]]


def configs(known: Known, path: str, *, of_set: bool = True) -> list[Row]:
    """The rows of configs, by the answer below ``/api``, which has a test of its own. Forms stand under those of a
    topic that are set, and under those of a node that can be changed where they are set."""
    rows = [each for each in known.node.get(path).json["configs"] if each["is_set"] == of_set]

    def may_change(row: dict[str, Any]) -> bool:
        is_stored = row["source"] in ("this broker", "the default of all brokers")
        return row["is_dynamic"] and is_stored if path == "/api/configs" else of_set

    return [
        (
            each["name"],
            f"{each['value'] or '–'} {each['words']}".strip() + (" Change ChangeRemove" if may_change(each) else ""),
            re.compile(f"{re.escape(each['source'])}(else .*)?"),
            f"What it is{each['type']} {each['documentation']}",
        )
        for each in rows
    ]


def connections(known: Known) -> list[Row]:
    host, port = known.stage.connected.sock.getsockname()
    viewer = ("User:ANONYMOUS", "PLAINTEXT, PLAINTEXT", "idle or served", SPAN, "0 B")
    requests = "FindCoordinator v3, JoinGroup v3, SyncGroup v2"
    return [(f"{host}:{port}", "watched", "unknown", *viewer, requests)]


def record_row(number: int) -> Row:
    """A flight, and everything of it that is folded away."""
    made = flight(number)
    key, value = (made.key or b"").decode(), (made.value or b"").decode()
    line = re.escape(value.replace("{", "{ ").replace("}", " }"))
    parts = (
        f"{line} Time {TIME.pattern} CreateTime, {made.timestamp} ms",
        f"Key text, {len(key)} B · download {key}",
        f"Value json, {len(value)} B · download {line}",
        "Headers 1 header · download source gate 7",
        "Produce it again · Its segment · The records from it on",
    )
    return ("0", str(number), AGE, key, re.compile(" ".join(parts)))


def features(_: Known) -> list[Row]:
    rows: list[Row] = []
    for name, levels in SUPPORTED.items():
        is_version = name == "metadata.version"
        lowest, highest = ("7 (3.3-IV3)", "33 (4.4-IV2)") if is_version else (str(levels.lowest), str(levels.highest))
        change = "" if name == "kraft.version" else re.compile("Set the level Level It may become lower.+Set the level")
        rows.append((name, highest, f"{lowest} – {highest}", "none", change))
    return rows


EXPECTED: dict[str, list[Callable[[Known], list[Row]]]] = {
    "/": [
        lambda known: [
            (
                "1 this node leads the quorum",
                "alive",
                "this page",
                "broker, controller",
                f"PLAINTEXT://127.0.0.1:{known.port}",
                "rack-1",
                "5",
                "5",
            )
        ],
        lambda _: [("1", "/data", "working", "6", SIZE, SIZE, "1.0 TiB")],
    ],
    "/history": [
        lambda _: [(CLOCK, *[BYTE_RATE] * 2, *[EACH] * 2, *[PAUSE] * 6, *[NOT_WELL] * 2, *[PAUSE] * 3)] * 30,
    ],
    "/topics": [
        lambda _: [
            ("flights", RATE, "15readers", SPEED, SPEED, "20", SIZE, "2", "1", "in sync"),
            ("paid", RATE, "–", SPEED, SPEED, "3", SIZE, "1", "1", "in sync"),
        ],
    ],
    "/topics/{topic}": [
        lambda _: [
            ("0", "1", "1", "1", "0", "20", SIZE, re.compile("the oldest segment, once .*retention.ms, at .*Z")),
            ("1", "1", "1", "1", "0", "0", "0 B", "nothing: there are no records"),
        ],
        lambda _: [("readers", "1", "15", SPAN)],
        lambda known: configs(known, "/api/topics/flights"),
        lambda known: configs(known, "/api/topics/flights", of_set=False),
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
    "/records": [lambda _: [record_row(number) for number in reversed(range(20))]],
    "/records/produce": [],
    "/groups": [
        lambda _: [
            (
                "readers",
                "Stuck. It has no member: nobody reads the 15 records that are left.",
                "15",
                SPAN,
                re.compile("–|reads nothing"),
                "flights",
                "classic",
                "Empty",
                "0",
                "1",
            ),
            (
                "joined",
                re.compile(r"(Stuck\. )?watched has flights-0,? and does not fetch it( yet|: it is paused, .*)\."),
                "unknown",
                "–",
                "–",
                "flights",
                "classic",
                "Stable",
                "1",
                "1",
            ),
        ]
    ],
    "/group/reset": [lambda _: [("flights-0", "5", "12", "7", "–")]],
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
        lambda _: [("1 this node", "leader", NUMBER, "0", SPAN, TIME, TIME)],
        features,
    ],
    "/balance": [],
    "/configs": [lambda known: configs(known, "/api/configs")],
    "/security": [lambda _: [("PLAINTEXT", "127.0.0.1:0", "PLAINTEXT")]],
    "/quotas": [
        lambda _: [("client-id (default)", "producer_byte_rate", "477 MiB/s500 000 000")],
        lambda _: [("all", "rdkafka", "producer_byte_rate", re.compile(r"[\d.]+ B/s"), "0 ms")],
    ],
    "/tiers": [
        lambda _: [
            (
                *("flights-0", "1.0 KiB3 segments", "copy failed: away (1 times)", "4.0 KiB2 segments, from offset 1"),
                *("2.0 KiBfrom offset 5", "9of 20", "1", "away"),
            )
        ]
    ],
    "/mirrors": [],
    "/find": [],
    "/searches/{search}": [lambda _: [record_row(number) for number in (1, *range(10, 20))]],
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
