"""Idle tabs by the thousand, uploads that never end, and searches that find everything: all are bounded, and a client
of the broker is served meanwhile. Steps are counted, not time."""

import asyncio
import pickle
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from console_node import ConsoleNode, console_node

from kpybroker.machines.console import record_tasks
from kpybroker.machines.console.matching import Needle, RecordFilter
from kpybroker.machines.console.record_tasks import FoundRecord, PartitionFiles, RecordTask, SearchEnded, SearchProgress
from kpybroker.monitoring.console import pace, searches
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.searches import Search, Searches, SearchTitle
from kpybroker.runtime.http import server
from kpybroker.runtime.http.request import HttpRefused
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.memory_disk import MemoryDisk
from kpywire.messages.metadata import MetadataRequest
from kpywire.record import Record, build_batch
from support.waiting import eventually

SILENT = b""
HALF_A_HEAD = b"GET / HTTP/1.1\r\n"
HALF_AN_UPLOAD = b"POST /api/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n{"


@pytest.fixture
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        yield made


class Tabs:
    """Connections of a browser that sends ``first`` on each and then nothing."""

    def __init__(self, port: int, first: bytes) -> None:
        self.port = port
        self.first = first
        self.open: list[socket.socket] = []

    def add(self) -> None:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        if self.first:
            sock.sendall(self.first)
        self.open.append(sock)

    def look(self) -> int:
        """Close those that the server has closed. Return how many are left."""
        readable, _, _ = select.select(self.open, [], [], 0)
        for sock in readable:
            sock.close()
        self.open = [sock for sock in self.open if sock not in readable]
        return len(self.open)

    def close(self) -> None:
        for sock in self.open:
            sock.close()


@pytest.mark.parametrize(
    ("first", "count"),
    [(SILENT, 1000), (HALF_A_HEAD, 200), (HALF_AN_UPLOAD, 200)],
    ids=["silent", "half a head", "half an upload"],
)
def test_a_thousand_idle_tabs_are_bounded_and_clients_do_not_notice(
    node: ConsoleNode, monkeypatch: pytest.MonkeyPatch, first: bytes, count: int
) -> None:
    assert node.node.http_port is not None
    monkeypatch.setattr(server, "READ_TIMEOUT_S", 1.0)
    tabs = Tabs(node.node.http_port, first)
    with node.client as client:
        for number in range(count):
            tabs.add()
            if number % 200 == 199:
                eventually(lambda: tabs.look() <= server.MOST_CONNECTIONS, "the others are closed")
                assert client.call(MetadataRequest(topics=[]), 12).controller_id == 1
    eventually(lambda: tabs.look() == 0, "idle ones are closed in the end")
    eventually(lambda: node.get("/api/cluster").status == 200, "people are served again")
    tabs.close()


# Steps on the loop


def test_work_on_many_things_gives_way_whenever_a_millisecond_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0
    pauses: list[int] = []
    done = 0

    async def sleep(_: float) -> None:
        pauses.append(done)

    monkeypatch.setattr(pace, "perf_counter_ns", lambda: now_ns)
    monkeypatch.setattr(pace.asyncio, "sleep", sleep)

    async def work() -> None:
        nonlocal now_ns, done
        async for _ in paced(range(100)):
            done += 1
            now_ns += pace.PIECE_NS // 4

    asyncio.run(work())
    assert pauses == list(range(4, 101, 4))


class Loop(ManualScheduler):
    """A scheduler whose callbacks from other threads are kept: each of them is one step of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def call_soon_threadsafe(self, callback: Callable[..., object], *words: Any) -> None:
        self.steps.append((callback, words))


def large_log(disk: MemoryDisk, batches: int) -> PartitionFiles:
    """Records of 100 KB with many headers, ten in a batch."""
    disk.make_directory("/d")
    headers = tuple((f"h{number}", b"x" * 1200) for number in range(60))
    data = b"".join(
        build_batch(
            [Record(timestamp=n, key=b"k" * 20_000, value=b"same" * 5_000, headers=headers)] * 10, base_offset=n * 10
        )
        for n in range(batches)
    )
    disk.write("/d/00000000000000000000.log", data, synchronize=False)
    return PartitionFiles(0, "/d", 0, batches * 10, 0, batches * 10)


@pytest.mark.parametrize("needle", [b"same", b"nothing like it"], ids=["everything", "nothing"])
def test_a_search_of_a_large_log_gives_the_loop_few_small_steps(needle: bytes) -> None:
    disk, loop = MemoryDisk(), Loop()
    place = large_log(disk, 25)
    made = Searches(loop)
    task = RecordTask((place,), 200, filter=RecordFilter((Needle(needle, "any"),)), is_search=True)
    search = Search(task, SearchTitle(), "User:ann", 1)
    made.start(disk, search)
    eventually(
        lambda: any(isinstance(word, SearchEnded) for _, words in loop.steps for word in words), "the search ends"
    )
    answers = [
        word
        for _, words in loop.steps
        for word in words
        if isinstance(word, FoundRecord | SearchProgress | SearchEnded)
    ]
    found = [each for each in answers if isinstance(each, FoundRecord)]
    assert len(found) == (200 if needle == b"same" else 0), "no more than enough"
    assert len(answers) - len(found) <= 2 + 25 * 10 * 120_000 // record_tasks.PROGRESS_BYTES
    most = 2 * record_tasks.MOST_SHOWN_BYTES + record_tasks.MOST_HEADERS_BYTES + 5_000
    assert max(len(pickle.dumps(each)) for each in answers) <= most, "one step takes one record, cut to its beginning"
    made.close()


def test_the_nodes_of_these_tests_keep_records_of_1970(node: ConsoleNode) -> None:
    hour_ms = 3_600_000
    assert node.node.config["log.initial.task.delay.ms"] >= hour_ms, "retention deletes them, and searches find nothing"


def test_searches_are_bounded_and_an_abandoned_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = threading.Event()

    def work(_disk: object, _task: object) -> Iterator[Any]:
        may_go_on.wait(60)
        yield SearchEnded("", ())

    monkeypatch.setattr(searches, "work", work)
    disk, loop = MemoryDisk(), Loop()
    made = Searches(loop)

    def search() -> Search:
        return Search(RecordTask((), 1, is_search=True), SearchTitle(), "User:ann", 1)

    running = [search() for _ in range(searches.MOST_SEARCHES)]
    for each in running:
        made.start(disk, each)
    with pytest.raises(HttpRefused, match="searches run already; cancel one"):
        made.start(disk, search())
    loop.advance(searches.IDLE_MS + 2 * searches.CHECK_MS)
    assert [each.state for each in running] == ["abandoned"] * searches.MOST_SEARCHES
    may_go_on.set()
    for _ in range(100):
        later = search()
        made.start(disk, later)
        later.end("cancelled")
    with pytest.raises(HttpRefused, match="no such search"):
        made.find(running[0].id, "User:ann")
    made.close()
