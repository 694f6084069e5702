"""Metrics pages that are read over a plain socket: whole, cut short, refused or no HTTP at all, and their lines."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate

import pytest

from kpybroker.cli import examination, scrape
from kpybroker.cli.scrape import MetricSample, MetricsPage, PageLogin, Way

TEXT = """# HELP a_total It counts.
a_total{topic="t",name="x \\"y\\" \\\\ \\n"} 3
a_total{topic="u"} 4.5 1700000000000
a_total_more 7
b nothing
b 1e3
"""
LOGIN = Way(login=PageLogin("me", "secret"))


@contextmanager
def server(*answers: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that gives each connection the next answer and closes it; the requests that came."""
    asked: list[bytes] = []

    def serve() -> None:
        for answer in answers:
            peer, _ = listening.accept()
            with peer:
                asked.append(peer.recv(65536))
                peer.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1], asked
        thread.join(10)


def answer(body: str, status: str = "200 OK", length: int | None = None, *further: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *further, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "", body]).encode()


def test_a_page_has_its_lines_by_name_and_the_time_of_the_server() -> None:
    with server(answer(TEXT, "200 OK", None, f"Date: {formatdate(1_700_000_000, usegmt=True)}")) as (port, asked):
        page = scrape.fetch("127.0.0.1", port, 5.0, Way())
    assert page is not None
    assert asked[0].startswith(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:")
    assert page.date_s == 1_700_000_000
    assert list(page.named("a_total")) == [
        MetricSample("a_total", {"topic": "t", "name": 'x "y" \\ \n'}, 3.0),
        MetricSample("a_total", {"topic": "u"}, 4.5),
    ]
    assert page.by_labels("a_total", "topic", topic="u") == {("u",): 4.5}
    assert page.value("b") == 1000
    assert page.value("a_tot") is None
    assert [each.name for each in page.named_from("")] == ["a_total", "a_total", "a_total_more", "b"]


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
        ("Sun, 31 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Xxx 1994 08:49:37 GMT", None),
        ("soon", None),
        ("", None),
    ],
)
def test_the_time_of_the_server_is_read_in_each_form_that_http_has(date: str, seconds: float | None) -> None:
    assert MetricsPage("", date).date_s == seconds


def test_a_page_without_a_length_ends_with_its_connection() -> None:
    with server(b"HTTP/1.0 200 OK\r\n\r\nb 2\n") as (port, _):
        page = scrape.fetch("127.0.0.1", port, 5.0, Way())
    assert page is not None
    assert (page.value("b"), page.date_s) == (2, None)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((answer("b 2\n", length=100),), id="cut short"),
        pytest.param((answer("no such page", "404 Not Found"),), id="another page"),
        pytest.param((b"SSH-2.0-OpenSSH\r\n", b"SSH-2.0-OpenSSH\r\n"), id="not HTTP"),
        pytest.param((b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,), id="a head without an end"),
    ],
)
def test_an_answer_without_a_whole_page_gives_no_page(answers: tuple[bytes, ...]) -> None:
    with server(*answers) as (port, _):
        assert scrape.fetch("127.0.0.1", port, 5.0, Way()) is None


def test_a_login_is_sent_once_it_is_demanded() -> None:
    with server(answer("", "401 Unauthorized"), answer("b 2\n")) as (port, asked):
        page = scrape.fetch("127.0.0.1", port, 5.0, LOGIN)
    assert page is not None
    assert b"Authorization" not in asked[0]
    assert b"\r\nAuthorization: Basic bWU6c2VjcmV0\r\n" in asked[1]


@pytest.mark.parametrize(
    ("way", "status", "body", "why"),
    [
        (Way(), "401 Unauthorized", "", "it demands a login; name a file"),
        (Way(), "403 Forbidden", "not from here", "it refuses: not from here"),
        (Way(), "421 Misdirected Request", "another name", "it refuses: another name"),
        (LOGIN, "403 Forbidden", "", "'me' may not read it"),
        (LOGIN, "503 Service Unavailable", "busy", "it refuses the login of 'me': busy"),
    ],
)
def test_a_page_that_is_not_shown_says_why(way: Way, status: str, body: str, why: str) -> None:
    with server(answer(body, status)) as (port, _), pytest.raises(scrape.PageRefused) as refused:
        scrape.fetch("127.0.0.1", port, 5.0, way)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("requests", "readings"),
    [(0, 1), (4, 1), (200, 2)],
)
def test_requests_for_metadata_are_watched_longer_where_they_may_be_a_loop(
    monkeypatch: pytest.MonkeyPatch, requests: int, readings: int
) -> None:
    def page(count: int, read_s: float) -> MetricsPage:
        return MetricsPage(f'{examination.REQUESTS}{{request="Metadata"}} {count}\n', "", ("", 0), read_s)

    read: list[float] = []

    def fetch(*_: object) -> MetricsPage:
        read.append(time.monotonic())
        return page(requests, read[-1])

    monkeypatch.setattr(examination, "LEAST_SPAN_S", 0.2)
    monkeypatch.setattr(scrape, "fetch", fetch)
    before = page(0, time.monotonic())
    after = examination._later(before, 5.0, Way())
    assert after is not None
    assert len(read) == readings
    assert after.read_s - before.read_s >= (0.05, 0.2)[readings - 1]
