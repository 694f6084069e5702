"""Servers that refuse, are overloaded, do not answer, or have less than they should: one line each, in time."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Thread

import pytest
from faulty_store import FaultyStore
from stored_segments import NO_LIMITS, chunked, log_of, tiered
from test_remote_stores import SECRET, place_of

from kpybroker.hosts.remote_log.chunked_storage import ChunkedForm
from kpybroker.hosts.remote_log.obstore_store import failure, open_s3
from kpybroker.hosts.remote_log.remote_storage import StoreAway, StoreFailed, StoreRefuses
from kpystorage.errors import CorruptObject


class Scripted:
    """The answers of a server to every request."""

    def __init__(self) -> None:
        self.status = 200
        self.code = ""
        self.hangs = False
        self.requests = 0
        self.ended = Event()


@contextmanager
def server() -> Iterator[tuple[str, Scripted]]:
    script = Scripted()

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            script.requests += 1
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if script.hangs:
                script.ended.wait(60)
            body = f"<Error><Code>{script.code}</Code><Message>no</Message></Error>".encode()
            self.send_response(script.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

        def log_message(self, *_arguments: object) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    listening.daemon_threads = True
    thread = Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}", script
    finally:
        script.ended.set()
        listening.shutdown()
        listening.server_close()
        thread.join(30)


CALLS = ("put", "get", "list", "delete")


def call(endpoint: str, name: str) -> None:
    store = open_s3(place_of(endpoint, timeout_ms=300, attempt_timeout_ms=200))
    match name:
        case "put":
            store.put("some/key", [b"x"])
        case "get":
            store.get_range("some/key", 0, 5)
        case "size":
            store.size("some/key")
        case "list":
            list(store.listed("some/"))
        case _:
            store.delete(["some/key"])


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", StoreRefuses),
        (404, "NoSuchBucket", StoreRefuses),
        (503, "SlowDown", StoreAway),
        (403, "ExpiredToken", StoreAway),
        (400, "ExpiredToken", StoreAway),
        (403, "RequestTimeTooSkewed", StoreAway),
    ],
)
def test_answers_of_a_server_are_refusals_or_mean_that_it_is_away(
    name: str, status: int, code: str, kind: type[StoreFailed]
) -> None:
    with server() as (endpoint, script):
        script.status, script.code = status, code
        with pytest.raises(kind) as raised:
            call(endpoint, name)
    line = str(raised.value)
    assert line.startswith("s3://tiers: cannot ")
    assert "\n" not in line
    assert SECRET not in line
    assert "Debug" not in line
    assert len(line) < 400


@pytest.mark.parametrize(("code", "kind"), [("AccessDenied", StoreRefuses), ("ExpiredToken", StoreAway)])
def test_the_code_is_also_known_where_the_answer_has_no_body(code: str, kind: type[StoreFailed]) -> None:
    with server() as (endpoint, script):
        script.status, script.code = 403, code
        with pytest.raises(kind):
            call(endpoint, "size")


@pytest.mark.parametrize("name", CALLS)
def test_a_server_that_does_not_answer_is_away_after_the_deadline(name: str) -> None:
    with server() as (endpoint, script):
        script.hangs = True
        with pytest.raises(StoreAway):
            call(endpoint, name)
        assert script.requests < 10


def test_a_signed_url_does_not_reach_a_message() -> None:
    from obstore.exceptions import GenericError

    error = GenericError(
        f"error sending request for url (https://a.b/c?sv=1&sig={SECRET}): connection refused\n\nDebug"
    )
    line = str(failure("az://box: cannot read x", error))
    assert line.startswith("az://box: cannot read x: error sending request for url (https://a.b/c?...)")
    assert SECRET not in line


@pytest.mark.parametrize("left", [0, 1, 2500])
def test_an_object_that_became_shorter_is_damaged(left: int) -> None:
    store = FaultyStore()
    it = tiered(log_of(5000))
    chunked(store).copy(it.segment, it.files, NO_LIMITS)
    (key,) = (each for each in store.objects if each.endswith(".log"))
    store.objects[key] = store.objects[key][:left]
    with pytest.raises(CorruptObject, match=r"\.log: chunk \d"):
        chunked(store).read(it.segment, 3000, 5000)


def test_many_readers_of_a_store_that_fails_at_times_read_what_was_written() -> None:
    store = FaultyStore()
    form = ChunkedForm("p/", 1000)
    segments = [tiered(log_of(20_000, seed), seed) for seed in range(3)]
    for each in segments:
        chunked(store, form).copy(each.segment, each.files, NO_LIMITS)
    failing = Random(1)

    def fail_at_times(action: str, key: str) -> None:
        if failing.random() < 0.1:
            raise StoreAway(f"memory:: cannot {action} {key}")

    store.before = fail_at_times
    storage = chunked(store, form, memory_bytes=8000, prefetch_bytes=3000)
    wrong: list[object] = []
    failures = [0]

    def read(seed: int) -> None:
        rng = Random(seed)
        for _ in range(150):
            it = rng.choice(segments)
            start = rng.randrange(20_000)
            end = start + rng.randrange(1, 4000)
            try:
                found = storage.read(it.segment, start, end)
            except StoreAway:
                failures[0] += 1
                continue
            except Exception as error:
                wrong.append(error)
                return
            if found != it.log[start:end]:
                wrong.append((start, end))

    threads = [Thread(target=read, args=(seed,)) for seed in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert not wrong
    assert 0 < failures[0] < 600
    store.before = lambda _action, _key: None
    for it in segments:
        assert storage.read(it.segment, 0, len(it.log)) == it.log
    storage.close()
