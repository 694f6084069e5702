"""Every column of every table of the command line is compared with a cluster whose contents are known, and a wrong
column is found: each is altered once."""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from kpybroker import cli
from kpybroker.cli import group_view, main, mirror, mirror_adoption, property_option, quotas, replicas, tables
from kpybroker.client import dead_letters, mirror_requests, reassignment_requests, token_requests, transaction_requests
from kpybroker.client.client import Spot
from kpybroker.client.client_configs import PROPERTIES
from kpybroker.client.dead_letters import DeadLetter
from kpybroker.client.group_requests import GroupDescription, MemberDescription
from kpybroker.client.mirror_requests import MirroredPartition, MirroredTopic
from kpybroker.client.producer_requests import RememberedProducer
from kpybroker.client.reassignment_requests import MovingPartition
from kpybroker.client.streams_applications import Application, ApplicationTasks
from kpybroker.client.token_requests import DelegationToken
from kpybroker.client.topology_descriptions import TopologyNode
from kpybroker.client.transaction_requests import DescribedTransaction, HangingTransaction, ListedTransaction
from kpybroker.machines.backup.manifest import (
    PartitionAtCut,
    RunManifest,
    StoredPiece,
    TopicAtCut,
    manifest_json,
    manifest_key,
)
from kpybroker.machines.metadata.creator import mark_of
from kpybroker.machines.mirror.divergence import ExportedPart
from kpybroker.pipeline.backup.store import open_backup
from kpybroker.testing import Broker
from kpywire.messages.metadata import MetadataResponseTopic
from kpywire.record import Record
from support.waiting import eventually

PLANTED = "planted"
"""The text of a column that is altered."""
ELSEWHERE = {("balance", "explanation"), ("lake", "show"), ("tiers", "_show_table")}
"""Tables that the tests of plans, of the lake and of tiered storage read."""


class State(NamedTuple):
    """A broker with known contents, and the ids that it has given to members."""

    broker: Broker
    classic: str
    consumer: str

    @property
    def address(self) -> str:
        return self.broker.bootstrap_servers

    def run_text(self, *words: str, given: str = "", code: int = 0) -> str:
        result = CliRunner().invoke(main, [*words, "-b", self.address], input=given)
        assert result.exit_code == code, result.output
        return result.stdout


CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "broker.rack": "rack-1",
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    password = tmp_path_factory.mktemp("secrets") / "password"
    password.write_text("secret")
    password.chmod(0o600)
    with Broker(CONFIG) as broker:
        made = State(broker, "", "")
        made.run_text("topics", "create", "flights", "-p", "3", "-c", "retention.ms=123456789")
        made.run_text("topics", "create", "orders")
        for partition, count in (("0", 20), ("1", 5)):
            made.run_text("produce", "flights", "-p", partition, given="x\n" * count)
        made.run_text("offsets", "delete-records", "flights:0", "--before-offset", "4")
        made.run_text("quotas", "set", "producer_byte_rate=1000", "--user", "ann")
        made.run_text("users", "set", "ann", "--password-file", str(password), "--iterations", "5000")
        acl = ("--allow-principal", "User:ann", "-o", "read", "-t", "flights", "--allow-host", "10.0.0.7")
        made.run_text("acls", "add", *acl)
        with member(broker, "classic") as one, member(broker, "consumer") as two:
            yield State(broker, one.memberid(), two.memberid())


@contextmanager
def member(broker: Broker, protocol: str) -> Iterator[Consumer]:
    """The only member of a group of its own, which has committed a position."""
    client = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"of-{protocol}",
            "client.id": f"client-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    client.subscribe(["flights"])
    eventually(lambda: client.poll(0.2) is not None, "a record")
    client.commit(offsets=[TopicPartition("flights", 0, 7, metadata="note")], asynchronous=False)
    try:
        yield client
    finally:
        client.close()


# What is expected of a cell: a text, or a pattern

DECIMAL_SIZE = re.compile(r"[\d.]+ (B|kB|MB|GB|TB)")
FULLNESS = re.compile(r"1: \d+ % of at most 85 %")
BYTES_OF_SHARE = re.compile(r"1: [\d.]+ (B|kB|MB|GB|TB) of at most [\d.]+ (B|kB|MB|GB|TB)")
SIZE = re.compile(r"[\d.]+ (B|KiB|MiB|GiB|TiB)")
TIME = re.compile(r"\d+ (ms|s|min)( \d+ (ms|s))?|0 ms")
UUID = re.compile(r"[\w-]{22}")
NUMBER = re.compile(r"\d+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
Cell = str | re.Pattern[str]


class Table(NamedTuple):
    """A table: how it is printed, and the rows that it has to have."""

    name: str
    print: Callable[[State], str]
    rows: Callable[[State], Sequence[Sequence[Cell]]]
    at_least: bool = False
    """Whether there may be further rows."""


def command(*words: str) -> Callable[[State], str]:
    return lambda state: state.run_text(*words)


def of_streams(_: State) -> str:
    tasks = ApplicationTasks("process-1", 4, 2, ("0_0", "0_1"), ("1_0",), ("1_1",))
    application = Application(1, frozenset({"t"}), {})
    asker = MemberDescription("m-1", None, "app", "/10.0.0.1", None, tasks=tasks)
    return group_view.members_text(GroupDescription("g", "streams", "Stable", "", "", 1, (asker,), 3, 3, application))


def of_topology(_: State) -> str:
    nodes = [
        TopologyNode("0", "read", "source", ("t", "u"), (), ("sum",)),
        TopologyNode("0", "sum", "processor", (), ("s",), ()),
    ]
    return group_view.topology_text(nodes)


def tokens(state: State) -> str:
    token = DelegationToken("id-1", "User:ann", "User:bob", ("User:carl",), 1_000, 86_400_000, 172_800_000, b"hmac")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(token_requests, "tokens", lambda *_: [token])
        return state.run_text("tokens", "list", "--show-hmac")


def letters(state: State) -> str:
    letter = DeadLetter(Spot("dlq.g", 1), 17, 1_000, Spot("orders", 0), 42, 5, "Offset rejected by client.", Record())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dead_letters, "topic_of", lambda *_: "dlq.g")
        patched.setattr(dead_letters, "letters", lambda *_: [letter])
        return state.run_text("share", "dead-letters", "list", "g")


def created(state: State) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(quotas, "creator_in", lambda _: mark_of("User:ann"))
        return state.run_text("quotas", "created", "ann", "bob")


def listed_transactions(state: State) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transaction_requests, "transactions", lambda *_: [ListedTransaction("app", 2, 77, "Ongoing")])
        return state.run_text("transactions", "list")


def described_transaction(state: State) -> str:
    spots = (Spot("flights", 0), Spot("orders", 1))
    found = DescribedTransaction("app", 2, 77, 3, "Ongoing", 60_000, 1_000, spots)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transaction_requests, "describe", lambda *_: found)
        return state.run_text("transactions", "describe", "app")


def hanging_transaction(state: State) -> str:
    producer = RememberedProducer(Spot("flights", 2), 77, 3, 12, 1_000, None, 42)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transaction_requests, "hanging", lambda *_: [HangingTransaction(producer, "no id has it")])
        return state.run_text("transactions", "find-hanging", code=4)


def moving_partition(state: State) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            reassignment_requests, "moving", lambda *_: [MovingPartition(Spot("flights", 1), [1, 2, 3], [3], [1])]
        )
        return state.run_text("topics", "reassignments")


def watched_move(state: State) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            reassignment_requests, "moving", lambda *_: [MovingPartition(Spot("flights", 1), [1, 2, 3], [3], [2])]
        )
        return state.run_text("balance", "watch", "--once")


def mirrored_partition(state: State) -> str:
    topic = MirroredTopic(MetadataResponseTopic(name="flights", partitions=[]), "dr", "mirroring")
    found = MirroredPartition(Spot("flights", 1), 17, 20, mirror_requests.FETCHING)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mirror_requests, "mirrored_topics", lambda *_: [topic])
        patched.setattr(mirror_requests, "partitions", lambda *_: [found])
        return state.run_text("mirror", "status")


def exported(_state: State) -> str:
    with redirect_stdout(StringIO()) as printed:
        mirror_adoption.report({"flights": "flights.diverged"}, {"flights": [ExportedPart(1, 17, 20, 4, 2)]})
    return printed.getvalue()


def failed_over(state: State) -> str:
    topic = MirroredTopic(MetadataResponseTopic(name="flights", partitions=[]), "dr", "mirroring")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mirror_requests, "mirrored_topics", lambda *_: [topic])
        for step in ("stop_feeding", "make_writable"):
            patched.setattr(mirror_requests, step, lambda *_: None)
        patched.setattr(mirror_requests, "end_transactions", lambda *_: 0)
        patched.setattr(
            mirror, "_losses", lambda *_: [mirror.PartitionLoss(Spot("flights", 1), 17, 1_000, 3, 4_000, 5)]
        )
        return state.run_text("mirror", "failover", "dr", "--now")


def backed_up(_: State) -> str:
    key = "topics/id/0/0-run-1.log"
    piece = StoredPiece(key, 0, 5, 2048, "", 0, 1, -1, -1, ())
    topic = TopicAtCut(
        "flights", "id", {}, (PartitionAtCut(0, 5, 0, (piece, piece._replace(key=f"{key[:-5]}0.log")), (), ()),)
    )
    made = RunManifest("run-1", "cluster", 1_000, 2_000, 50, (topic,), {"g": (), "h": ()}, ())
    with TemporaryDirectory() as place:
        open_backup(place).put(manifest_key(made.run), [manifest_json(made)])
        result = CliRunner().invoke(main, ["backup", "list", "--from", place])
    assert result.exit_code == 0, result.output
    return result.stdout


def replica_away(state: State) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replicas, "_away", lambda *_: [("flights", 1, 3)])
        return state.run_text("replicas", "verify", "flights", code=4)


def port(state: State) -> str:
    return str(state.broker.port)


def positions(state: State) -> list[list[Cell]]:
    return [
        ["flights", "0", "7", "20", "13", TIME, state.classic, "/127.0.0.1"],
        ["flights", "1", "-", "5", "-", "-", state.classic, "/127.0.0.1"],
        ["flights", "2", "-", "0", "-", "-", state.classic, "/127.0.0.1"],
    ]


TABLES = (
    Table("topics list", command("topics", "list"), lambda _: [["flights", "3", "1"], ["orders", "1", "1"]]),
    Table(
        "topics describe",
        command("topics", "describe", "flights"),
        lambda _: [["0", "1", "1", "1", "4", "20"], ["1", "1", "1", "1", "0", "5"], ["2", "1", "1", "1", "0", "0"]],
    ),
    Table(
        "cluster describe",
        command("cluster", "describe"),
        lambda state: [["1", "127.0.0.1", port(state), "rack-1", "alive"]],
    ),
    Table(
        "cluster brokers",
        command("cluster", "brokers"),
        lambda state: [["1", f"127.0.0.1:{port(state)}", "rack-1", "5", "5", SIZE]],
    ),
    Table(
        "cluster features",
        command("cluster", "features"),
        lambda _: [["group.version", "1", "0-1"], ["transaction.version", "2", "0-2"]],
        at_least=True,
    ),
    Table(
        "cluster log-dirs",
        command("cluster", "log-dirs"),
        lambda _: [["1", "/kpybroker", "online", "5", SIZE, SIZE, SIZE]],
    ),
    Table(
        "cluster quorum",
        command("cluster", "quorum"),
        lambda _: [["1", UUID, "leader", re.compile(r"\d{2,3}"), "0", "0 ms"]],
    ),
    Table(
        "cluster features --release-version",
        command("cluster", "features", "--release-version", "4.0"),
        lambda _: [["group.version", "1"], ["streams.version", "off"], ["metadata.version", "25"]],
        at_least=True,
    ),
    Table(
        "cluster api-versions",
        command("cluster", "api-versions"),
        lambda _: [["0", "Produce", "0-13", "13", "1"], ["3", "Metadata", "0-13", "13", "1"]],
        at_least=True,
    ),
    Table(
        "cluster controllers",
        command("cluster", "controllers"),
        lambda _: [["1", UUID, "leader", re.compile(r"-|CONTROLLER://.*:\d+")]],
    ),
    Table(
        "producers",
        command("producers", "flights"),
        lambda _: [
            ["flights", "0", NUMBER, "0", "19", MOMENT, "-", "-"],
            ["flights", "1", NUMBER, "0", "4", MOMENT, "-", "-"],
        ],
    ),
    Table("transactions list", listed_transactions, lambda _: [["app", "2", "77", "Ongoing"]]),
    Table(
        "transactions describe",
        described_transaction,
        lambda _: [["app", "2", "77", "3", "Ongoing", "1 min", re.compile(r"\d+ d( \d+ h)?"), "flights-0 orders-1"]],
    ),
    Table(
        "transactions find-hanging",
        hanging_transaction,
        lambda _: [
            ["flights", "2", "77", "3", "42", "1970-01-01T00:00:01Z", re.compile(r"\d+ d( \d+ h)?"), "no id has it"]
        ],
    ),
    Table("backup list", backed_up, lambda _: [["run-1", "1970-01-01T00:00:01Z", "1", "2", "4 KiB", "2 KiB"]]),
    Table("mirror status", mirrored_partition, lambda _: [["dr", "flights", "1", "17", "3", mirror_requests.FETCHING]]),
    Table("mirror create --adopt", exported, lambda _: [["flights", "1", "17", "20", "2", "flights.diverged"]]),
    Table("mirror failover", failed_over, lambda _: [["flights", "1", "17", "5", "3", "4 s"]]),
    Table("topics reassignments", moving_partition, lambda _: [["flights", "1", "1,2,3", "3", "1"]]),
    Table(
        "balance plan",
        command("balance", "plan", "--sample", "0"),
        lambda _: [["1", "rack-1", DECIMAL_SIZE, "0 B", "0 B", "5", "5"]],
    ),
    Table(
        "balance why",
        command("balance", "why", "flights-1", "--sample", "0"),
        lambda _: [
            ["brokers that are gone", "none of its brokers", "none of its brokers"],
            ["drained brokers", "none of its brokers", "none of its brokers"],
            ["racks", "on 1 of 1 that it could be on", "on 1 of 1 that it could be on"],
            ["limits of disks", FULLNESS, FULLNESS],
            ["new brokers", "none in the cluster", "none in the cluster"],
            ["bytes on disks", BYTES_OF_SHARE, BYTES_OF_SHARE],
            ["incoming traffic", "it takes none", "it takes none"],
            ["outgoing traffic", "it takes none", "it takes none"],
            ["leaders", "1: 5 of at most 6", "1: 5 of at most 6"],
            ["replicas", "1: 5 of at most 6", "1: 5 of at most 6"],
        ],
    ),
    Table(
        "balance watch",
        watched_move,
        lambda _: [["flights", "1", "3", "2", DECIMAL_SIZE, DECIMAL_SIZE]],
    ),
    Table("cluster roll-plan", command("cluster", "roll-plan"), lambda _: [["1", "1", "rack-1"]]),
    Table("replicas verify", replica_away, lambda _: [["flights", "1", "broker 3"]]),
    Table(
        "groups list",
        command("groups", "list"),
        lambda _: [["of-classic", "classic", "consumer", "Stable"], ["of-consumer", "consumer", "consumer", "Stable"]],
    ),
    Table("groups describe", command("groups", "describe", "of-classic"), positions),
    Table(
        "groups describe --members, classic",
        command("groups", "describe", "of-classic", "--members"),
        lambda state: [[state.classic, "-", "client-classic", "/127.0.0.1", "flights:0,1,2"]],
    ),
    Table(
        "groups describe --members, consumer",
        command("groups", "describe", "of-consumer", "--members"),
        lambda state: [
            [
                state.consumer,
                "-",
                "client-consumer",
                "/127.0.0.1",
                "consumer",
                re.compile(r"[1-9]"),
                "flights:0,1,2",
                "flights:0,1,2",
            ]
        ],
    ),
    Table(
        "groups describe --members, streams",
        of_streams,
        lambda _: [["m-1", "process-1", "app", "/10.0.0.1", "4", "0_0 0_1", "1_0", "1_1"]],
    ),
    Table(
        "groups describe --topology",
        of_topology,
        lambda _: [["0", "read", "source", "t u", "-", "sum"], ["0", "sum", "processor", "-", "s", "-"]],
    ),
    Table(
        "groups reset-offsets",
        command("groups", "reset-offsets", "new", "--to-offset", "2", "-t", "flights:0"),
        lambda _: [["new", "flights", "0", "-", "4", re.compile("the log begins there|.*4.*|.*begin.*|.*old.*")]],
    ),
    Table(
        "offsets get",
        command("offsets", "get"),
        lambda _: [
            ["flights", "0", "4", "20", "16"],
            ["flights", "1", "0", "5", "5"],
            ["flights", "2", "0", "0", "0"],
            ["orders", "0", "0", "0", "0"],
        ],
    ),
    Table(
        "offsets get --time",
        command("offsets", "get", "flights:1", "--time", "@1"),
        lambda _: [["flights", "1", "0", re.compile(r"\d{13}")]],
    ),
    Table(
        "offsets committed",
        command("offsets", "committed", "of-classic"),
        lambda _: [["flights", "0", "7", "-", re.compile(r"note(\\x00)?")]],
    ),
    Table(
        "acls list",
        command("acls", "list"),
        lambda _: [["Topic:flights", "literal", "User:ann", "10.0.0.7", "Read", "allow"]],
    ),
    Table("quotas list", command("quotas", "list"), lambda _: [["user ann", "producer_byte_rate", "1000"]]),
    Table(
        "quotas created",
        created,
        lambda _: [["ann", "3", "5"], ["bob", "0", "0"]],
    ),
    Table(
        "share dead-letters list",
        letters,
        lambda _: [["dlq.g-1@17", "orders-0", "42", "5", "Offset rejected by client."]],
    ),
    Table("users list", command("users", "list"), lambda _: [["ann", "SCRAM-SHA-512", "5000"]]),
    Table(
        "tokens list",
        tokens,
        lambda _: [
            [
                "id-1",
                "User:ann",
                "User:bob",
                "User:carl",
                "1970-01-01T00:00:01Z",
                "1970-01-02T00:00:00Z",
                "1970-01-03T00:00:00Z",
                "aG1hYw==",
            ]
        ],
    ),
    Table(
        "configs describe",
        command("configs", "describe", "-t", "flights"),
        lambda _: [["retention.ms", "123456789", "topic"]],
        at_least=True,
    ),
    Table(
        "produce -X list",
        lambda _: property_option.as_text(each for each in PROPERTIES if each.name in ("acks", "linger.ms")),
        lambda _: [
            ["acks", "all", "all, -1, 0 or 1", re.compile(".*replicas.*")],
            ["linger.ms", re.compile(r"\d+"), re.compile("a .*number.*"), re.compile(".*batch.*|.*wait.*")],
        ],
    ),
)


def cells_of(text: str) -> list[list[str]]:
    """The rows of the table in a text, below its headings. Cells have two spaces between them."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    first = next(number for number, line in enumerate(lines) if len(line) > 1 and all(map(str.isupper, line)))
    width = len(lines[first])
    return [line + [""] * (width - len(line)) for line in lines[first + 1 :] if len(line) > 1]


def check(table: Table, state: State) -> None:
    """Compare every cell of a table. Raises AssertionError."""
    found, expected = cells_of(table.print(state)), table.rows(state)
    if not table.at_least:
        assert len(found) == len(expected), found
    for row in expected:
        assert any(_fits(each, row) for each in found), (row, found)


def _fits(found: Sequence[str], expected: Sequence[Cell]) -> bool:
    return len(found) == len(expected) and all(
        cell.fullmatch(text) if isinstance(cell, re.Pattern) else cell == text
        for text, cell in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_cell_of_a_table_is_true(state: State, table: Table) -> None:
    check(table, state)


def modules_with_tables() -> Iterator[Any]:
    """The modules that print tables, as far as they are loaded."""
    names = [name for name in sys.modules if name.startswith("kpybroker.cli.") and name != tables.__name__]
    return (sys.modules[name] for name in names if hasattr(sys.modules[name], "columns"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_wrong_column_is_found(state: State, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    width = len(cells_of(table.print(state))[0])
    assert all(len(row) == width for row in table.rows(state)), "every column is compared"
    for number in range(width):

        def altered(headings: Sequence[str], rows: Sequence[Sequence[object]], number: int = number) -> str:
            wrong = [[PLANTED if place == number else cell for place, cell in enumerate(row)] for row in rows]
            return tables.columns(headings, wrong)

        with monkeypatch.context() as patched:
            for module in modules_with_tables():
                patched.setattr(module, "columns", altered)
            with pytest.raises(AssertionError):
                check(table, state)


def test_every_table_is_compared(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: set[tuple[str, str]] = set()

    def noted(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
        caller = sys._getframe(1)
        printed.add((caller.f_globals["__name__"].rpartition(".")[2], caller.f_code.co_name.rstrip("_")))
        return tables.columns(headings, rows)

    for module in modules_with_tables():
        monkeypatch.setattr(module, "columns", noted)
    for table in TABLES:
        table.print(state)
    assert calls_in_source() - printed - ELSEWHERE == set()


def calls_in_source() -> set[tuple[str, str]]:
    """The functions of the command line that make a table."""
    found = set()
    for path in Path(next(iter(cli.__path__))).glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and path.stem != "tables":
                calls = (each.func for each in ast.walk(function) if isinstance(each, ast.Call))
                if any(isinstance(each, ast.Name) and each.id == "columns" for each in calls):
                    found.add((path.stem, function.name.rstrip("_")))
    return found
