"""Leases over the second port of a running node, from the reader's side."""

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
from test_lender import Lending

from kpybroker.machines.lease_manifest import LeaseRequest
from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan import reading
from kpybroker.pipeline.scan.borrowing import SecondPort, borrow
from kpybroker.pipeline.scan.files import FileTransport


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Lending]:
    made = Lending(tmp_path / "data")
    try:
        yield made
    finally:
        made.stop()


def port_of(lending: Lending) -> SecondPort:
    return SecondPort(f"http://127.0.0.1:{lending.node.node.http_port}")


def test_a_reader_borrows_renews_and_gives_back(lending: Lending) -> None:
    lending.create("t")
    lending.produce("t", range(500))
    borrowed = borrow([port_of(lending)], [LeaseRequest("t", 0), LeaseRequest("t", 0), LeaseRequest("u", 0)], 60_000)
    assert (borrowed.expires_in_ms, list(borrowed.manifests)) == (60_000, [("t", 0)])
    assert borrowed.refused == {("u", 0): "UNKNOWN_TOPIC_OR_PARTITION: no such partition on this node"}
    part = borrowed.manifests["t", 0]
    chosen = OffsetRange("t", part.topic_id, 0, 0, part.high_watermark)
    transport = FileTransport(borrowed.manifests)
    assert sum(batch.num_rows for batch in reading.rows(transport, chosen, Projection(("offset",)))) == 500
    borrowed.renew()
    borrowed.end()
    borrowed.end()
    assert lending.nothing_is_lent()


def test_a_stop_of_the_node_leaves_no_lent_names(lending: Lending) -> None:
    lending.create("t")
    lending.produce("t", range(50))
    borrowed = borrow([port_of(lending)], [LeaseRequest("t", 0)], 60_000)
    assert lending.lent_files()
    lending.node.stop()
    assert lending.nothing_is_lent()
    with pytest.raises(ScanError, match="does not answer"):
        borrowed.renew()


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/leases", {}, "partitions is no list"),
        ("/leases", {"partitions": [["t"]]}, "partitions are lists of a topic, a number and perhaps an offset"),
        ("/leases", {"partitions": [], "duration_ms": "1"}, "duration_ms is no whole number"),
        ("/leases", {"partitions": [["t", 0]] * 10_001}, "a lease has at most 10000 partitions"),
        ("/leases/renew", {"lease": 3}, "lease is no text"),
        ("/leases/renew", {"lease": "ab"}, "there is no such lease"),
        ("/leases/renew", {"lease": "no number"}, "there is no such lease"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(
    lending: Lending, path: str, body: dict[str, object], line: str
) -> None:
    with pytest.raises(ScanError, match=line):
        port_of(lending).post(path, body)


def test_a_page_of_another_site_cannot_borrow(lending: Lending) -> None:
    with pytest.raises(OSError, match="415"):
        urlopen(f"{port_of(lending).url}/leases", b'{"partitions": []}')


def test_something_else_than_a_broker_is_named() -> None:
    with pytest.raises(ScanError, match="does not answer"):
        borrow([SecondPort("http://127.0.0.1:1")], [LeaseRequest("t", 0)], 1_000)
    assert "secret" not in repr(SecondPort("http://a", "user", "secret"))


def test_a_login_travels_to_no_other_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a redirect nor a proxy gets it."""
    asked: list[tuple[str, str | None]] = []
    statuses: list[int] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(statuses[-1])
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for status in (301, 302, 303, 307, 308):
            statuses.append(status)
            with pytest.raises(ScanError, match="refuses"):
                SecondPort(url, "reader", "secret").post("/leases", {})
        assert [path for path, _ in asked] == ["/leases"] * 5
        asked.clear()
        monkeypatch.setenv("http_proxy", url)
        with pytest.raises(ScanError, match="does not answer"):
            SecondPort("http://127.0.0.1:1", "reader", "secret").post("/leases", {})
        assert asked == []
    finally:
        server.shutdown()
        server.server_close()


def test_the_ids_of_leases_come_from_the_random_numbers_of_the_system(
    lending: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id is all that it takes to end a lease, and a Mersenne twister is known from the numbers that it gave."""
    monkeypatch.setattr(random, "_urandom", lambda count: bytes(count - 1) + b"\x2a")
    loan = json.loads(port_of(lending).post("/leases", {"partitions": []}))
    assert int(loan["lease"], 16) == 42
