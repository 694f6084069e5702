"""Debezium on an exactly-once Connect: changes of a PostgreSQL table become records, and a worker is killed meanwhile.

The connector writes its records and its position in the database's log in one transaction. A reader of committed
records must find every change once, and those of a row in the order in which they were made.
"""

import json
import os
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from oracle.process import HOST
from support.connect_workers import EXACTLY_ONCE, answers, worker
from support.postgresql import USER, PostgreSQL
from support.topics import create_topic, delete_topics
from support.waiting import eventually

BEFORE = 500
AFTER = 2_000
STEP = 50
CHANGED = range(0, BEFORE, 10)
DELETED = range(5, BEFORE, 10)
PATIENCE_S = 400.0
JSON = "org.apache.kafka.connect.json.JsonConverter"

pytestmark = pytest.mark.timeout(1_200)

Changes = dict[int, list[tuple[str, str | None]]]
"""Each row's changes: the kind of each, and the row's state after it."""


@pytest.fixture
def database() -> Iterator[PostgreSQL]:
    with PostgreSQL(Path(os.environ["FOREIGN_POSTGRESQL"])) as server:
        server.sql("CREATE TABLE orders (id integer PRIMARY KEY, state text NOT NULL)")
        insert(server, 0, BEFORE)
        yield server


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[str]:
    name = f"debezium-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    create_topic(admin, f"{name}.public.orders", 3)
    yield name
    delete_topics(admin, [topic for topic in admin.list_topics(timeout=30).topics if topic.startswith(name)])


def insert(database: PostgreSQL, first: int, last: int) -> None:
    database.sql(f"INSERT INTO orders SELECT n, 'new' FROM generate_series({first}, {last - 1}) AS n")


def connector(database: PostgreSQL, cluster: str) -> dict[str, Any]:
    return {
        "name": "orders",
        "config": {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "exactly.once.support": "required",
            "plugin.name": "pgoutput",
            "database.hostname": HOST,
            "database.port": str(database.port),
            "database.user": USER,
            "database.password": "unused",
            "database.dbname": USER,
            "topic.prefix": cluster,
            "table.include.list": "public.orders",
            "tombstones.on.delete": "false",
            **{f"{part}.converter": JSON for part in ("key", "value")},
            **{f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
        },
    }


class Committed:
    """A reader of the committed changes."""

    def __init__(self, bootstrap_servers: str, cluster: str) -> None:
        self.changes: Changes = defaultdict(list)
        self.count = 0
        settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"{cluster}-reader", **settings})
        self._consumer.subscribe([f"{cluster}.public.orders"])

    def reaches(self, count: int, wait_s: float = 0.2) -> bool:
        for message in self._consumer.consume(1_000, wait_s):
            assert message.error() is None
            change, row = json.loads(message.value() or b""), json.loads(message.key() or b"")["id"]
            self.changes[row].append((change["op"], change["after"] and change["after"]["state"]))
            self.count += 1
        return self.count >= count

    def close(self) -> None:
        self._consumer.close()


def expected() -> Changes:
    """``r`` is a row that the snapshot read, ``c``, ``u`` and ``d`` one that was created, updated or deleted."""
    changes: Changes = {row: [("r", "new")] for row in range(BEFORE)}
    changes.update({row: [("c", "new")] for row in range(BEFORE, BEFORE + AFTER)})
    for row in CHANGED:
        changes[row] += [("u", "paid"), ("u", "sent")]
    for row in DELETED:
        changes[row].append(("d", None))
    return changes


def change_old_rows(database: PostgreSQL) -> None:
    for state in ("paid", "sent"):
        database.sql(f"UPDATE orders SET state = '{state}' WHERE id < {BEFORE} AND id % 10 = 0")
    database.sql(f"DELETE FROM orders WHERE id < {BEFORE} AND id % 10 = 5")


def test_every_change_is_there_once_although_a_worker_is_killed(
    tmp_path: Path, bootstrap_servers: str, cluster: str, database: PostgreSQL
) -> None:
    settings = {**EXACTLY_ONCE, "plugin_path": os.environ["FOREIGN_DEBEZIUM"]}
    start = partial(worker, tmp_path, bootstrap_servers, cluster, (), **settings)
    total = sum(map(len, expected().values()))
    with ExitStack() as stack:
        committed = Committed(bootstrap_servers, cluster)
        stack.callback(committed.close)
        first = stack.enter_context(start())
        eventually(partial(answers, first), "a worker that answers", PATIENCE_S)
        eventually(partial(first.ask, "/connectors", connector(database, cluster)), "the connector", PATIENCE_S, 1)
        eventually(partial(committed.reaches, BEFORE), "the snapshot", PATIENCE_S)
        for row in range(BEFORE, BEFORE + AFTER // 2, STEP):
            insert(database, row, row + STEP)
        eventually(partial(committed.reaches, BEFORE + STEP), "the first changes", PATIENCE_S)
        first.process.kill()
        change_old_rows(database)
        second = stack.enter_context(start())
        eventually(partial(answers, second), "a worker that answers", PATIENCE_S)
        for row in range(BEFORE + AFTER // 2, BEFORE + AFTER, STEP):
            insert(database, row, row + STEP)
        eventually(partial(committed.reaches, total), "all changes", PATIENCE_S)
        assert not committed.reaches(total + 1, wait_s=3.0)
        assert committed.changes == expected()
