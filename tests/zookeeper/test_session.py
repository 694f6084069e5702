"""The bytes of ZooKeeper and the session, without a server."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.hosts.zookeeper.client.client import ZooKeeperError
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.addresses import BadConnect, parse
from kpybroker.machines.zookeeper.client.digest_md5 import DigestMd5
from kpybroker.machines.zookeeper.client.frames import EventType, Greeting, WatchedEvent, Welcome, reply
from kpybroker.machines.zookeeper.client.java_options import most_request_bytes
from kpybroker.machines.zookeeper.client.jute import JuteReader, JuteWriter
from kpybroker.machines.zookeeper.client.operations import (
    Check,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    OperationFailed,
    Set,
)
from kpybroker.machines.zookeeper.client.session import Lost, SessionState, ZooKeeperLoginRefused, ZooKeeperSession
from kpywire.errors import Malformed

PASSWORD = bytes(range(16))


def connected(**more: object) -> tuple[ZooKeeperSession, list[object]]:
    session = ZooKeeperSession(9_000, 3, **more)  # type: ignore[arg-type]
    seen: list[object] = []
    session.on_event = session.on_state = seen.append
    session.connected(0)
    session.received(Welcome(6_000, 7, PASSWORD).frame(), 0)
    drain(session)
    return session, seen


def drain(session: ZooKeeperSession) -> list[bytes]:
    frames, session.frames = session.frames, []
    while session.calls:
        session.calls.popleft()()
    return frames


def answer(xid: int, zxid: int = 1, error: int = 0, body: bytes = b"") -> bytes:
    return reply(xid, zxid, error).frame() + body


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.none() | st.binary(), st.text())
def test_jute_reads_what_it_wrote(short: int, long: int, data: bytes | None, text: str) -> None:
    out = JuteWriter()
    out.int32(short)
    out.int64(long)
    out.boolean(value=True)
    out.buffer(data)
    out.vector([text, ""], JuteWriter.string)
    source = JuteReader(out.frame())
    read = source.int32(), source.int64(), source.boolean(), source.buffer(), source.vector(JuteReader.string)
    assert read == (short, long, True, data, [text, ""])
    assert source.left_bytes == 0


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_bytes_of_a_server_do_more_than_end_the_connection(frames: list[bytes]) -> None:
    session, _ = connected(new_exchange=None)
    results: list[object] = []
    session.submit(Get("/a", is_watched=True), results.append, 0)
    session.submit(Multi((Create("/a", b""), Check("/b", 1))), results.append, 0)
    try:
        for frame in frames:
            session.received(frame, 0)
    except Malformed:
        session.disconnected()
    session.disconnected()
    drain(session)
    assert len(results) == 2


@given(st.lists(st.sampled_from([0, -2, -101, -103]), min_size=3, max_size=3), st.binary(max_size=40))
def test_results_of_a_multi_are_read_or_malformed(errors: list[int], tail: bytes) -> None:
    out = JuteWriter()
    for code in errors:
        for value in (-1, code):
            out.int32(value)
            if value == -1:
                out.boolean(value=False)
                out.int32(code)
    multi = Multi((Create("/a", b""), Check("/b", 1), Delete("/c")))
    end = JuteWriter()
    end.int32(-1)
    end.boolean(value=True)
    end.int32(-1)
    failed = multi.read(JuteReader(out.frame() + end.frame()), "")
    assert failed.errors == tuple(errors)
    assert failed.code == next((each for each in errors if each not in (0, -2)), -2)
    with contextlib.suppress(Malformed):
        multi.read(JuteReader(out.frame() + tail), "")


def test_a_session_goes_on_at_the_next_server_with_its_id_its_password_and_its_watches() -> None:
    session, seen = connected(chroot="/kafka")
    session.submit(Exists("/new", is_watched=True), seen.append, 0)
    session.received(answer(1, zxid=9, error=-101), 1)
    drain(session)
    session.disconnected()
    session.connected(2)
    (greeting,) = drain(session)
    assert Greeting.of(greeting) == Greeting(9, 6_000, 7, PASSWORD)
    session.received(Welcome(6_000, 7, PASSWORD).frame(), 3)
    (watches,) = drain(session)
    assert b"/kafka/new" in watches
    session.received(WatchedEvent(EventType.CREATED, "/kafka/new").frame(), 4)
    session.received(WatchedEvent(EventType.CREATED, "/kafka/new").frame(), 4)
    drain(session)
    assert seen == [
        SessionState.CONNECTED,
        OperationFailed(-101),
        SessionState.CONNECTING,
        SessionState.CONNECTED,
        WatchedEvent(EventType.CREATED, "/new"),
    ]


def test_a_lost_connection_says_which_requests_may_have_been_done() -> None:
    session, _ = connected(most_in_flight=2)
    results: list[object] = []
    for each in range(3):
        session.submit(Set(f"/{each}", b""), results.append, 0)
    session.disconnected()
    session.submit(Set("/later", b""), results.append, 0)
    drain(session)
    assert results == [
        Lost(True, SessionState.CONNECTING),
        Lost(True, SessionState.CONNECTING),
        Lost(False, SessionState.CONNECTING),
    ]
    session.connected(1)
    session.received(Welcome(0, 0, bytes(16)).frame(), 1)
    drain(session)
    assert results[3] == Lost(False, SessionState.EXPIRED)


def test_a_request_that_is_larger_than_servers_take_is_refused_and_others_go_on() -> None:
    session, _ = connected(most_bytes=100)
    results: list[object] = []
    for each in (Set("/a", b""), Multi([Set("/b", bytes(40)), Set("/c", bytes(40))]), Set("/d", b"")):
        session.submit(each, results.append, 0)
    assert len(drain(session)) == 2
    session.received(answer(1, error=error_codes.NO_NODE), 0)
    session.received(answer(2, error=error_codes.BAD_VERSION), 0)
    drain(session)
    refused, of_a, of_d = results
    assert isinstance(refused, OperationFailed)
    assert (of_a, of_d) == (OperationFailed(error_codes.NO_NODE), OperationFailed(error_codes.BAD_VERSION))
    assert str(ZooKeeperError(refused, "/b")) == (
        "The request for /b was not sent to ZooKeeper: it has 143 bytes, and servers take 100 at most (jute.maxbuffer)"
    )


@pytest.mark.parametrize(
    ("kafka_opts", "size"),
    [
        ("", 1_048_575),
        ("-Djute.maxbuffer=4194304 -Dother=1", 4_194_304),
        ("-Djute.maxbuffer=1 -Djute.maxbuffer='0x10'", 16),
        ("-Djute.maxbuffer=010", 8),
    ],
)
def test_the_largest_request_is_what_jute_maxbuffer_says(kafka_opts: str, size: int) -> None:
    assert most_request_bytes(kafka_opts) == size


@pytest.mark.parametrize("value", ["much", "-1", "0", "1.5", "09", "1_000"])
def test_a_jute_maxbuffer_that_is_no_number_of_bytes_is_one_clear_line(value: str) -> None:
    with pytest.raises(ValueError, match=f"^-Djute.maxbuffer={value} in KAFKA_OPTS is not a number of bytes$"):
        most_request_bytes(f"-Djute.maxbuffer={value}")


def test_a_silent_connection_is_pinged_and_then_given_up() -> None:
    session, _ = connected()
    assert session.read_timeout_ms == 4_000
    assert not session.tick(1_999)
    assert drain(session) == []
    assert session.next_tick_ms(1_999) == 1
    assert not session.tick(2_000)
    assert len(drain(session)) == 1
    session.received(answer(-2), 2_100)
    assert not session.tick(6_099)
    assert session.tick(6_100)


def test_a_greeting_that_is_not_answered_is_given_up_in_time_for_the_other_servers() -> None:
    session = ZooKeeperSession(9_000, 3)
    session.connected(0)
    assert not session.tick(2_999)
    assert session.tick(3_000)


def test_answers_out_of_order_end_the_connection() -> None:
    session, _ = connected()
    session.submit(Delete("/a"), lambda _result: None, 0)
    with pytest.raises(Malformed, match="not asked"):
        session.received(answer(2), 1)


def test_closing_is_confirmed_or_forgotten() -> None:
    session, seen = connected()
    session.submit(Delete("/a"), seen.append, 0)
    session.close(lambda: seen.append("closed"), 0)
    session.received(answer(1), 1)
    session.received(answer(2), 1)
    drain(session)
    assert seen == [SessionState.CONNECTED, None, SessionState.CLOSED, "closed"]
    session, seen = connected()
    session.close(lambda: seen.append("closed"), 0)
    session.disconnected()
    drain(session)
    assert seen == [SessionState.CONNECTED, SessionState.CLOSED, "closed"]


@pytest.mark.parametrize(
    "challenge", [b"", b"nonce", b'realm="x"', b'nonce="a",qop="auth-int"', b"\xff=1", b"a=" * 4096]
)
def test_a_challenge_that_is_none_is_refused_in_words(challenge: bytes) -> None:
    exchange = DigestMd5("user", "hunter2", "c")
    with pytest.raises(ZooKeeperLoginRefused) as refused:
        exchange.respond(challenge)
    assert "hunter2" not in f"{refused.value}{exchange!r}"


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    exchange = DigestMd5("user", "hunter2", "c")
    assert exchange.respond(b'realm="zk-sasl-md5",nonce="n",qop="auth",algorithm=md5-sess') is not None
    with pytest.raises(ZooKeeperLoginRefused, match="prove"):
        exchange.respond(b"rspauth=00112233445566778899aabbccddeeff")


@pytest.mark.parametrize(
    ("text", "addresses", "chroot"),
    [
        ("a", (("a", 2181),), ""),
        ("a:1,b:2/kafka", (("a", 1), ("b", 2)), "/kafka"),
        (" a:1 , b:2/ ", (("a", 1), ("b", 2)), ""),
        ("[::1]:5/x/y/", (("::1", 5),), "/x/y"),
    ],
)
def test_the_servers_and_the_chroot_of_zookeeper_connect(text: str, addresses: object, chroot: str) -> None:
    assert parse(text) == (addresses, chroot)


@pytest.mark.parametrize("text", ["", "/kafka", "a:b", "a:70000", "a:0", ":1", "a/x//y", "a/../y", ","])
def test_a_zookeeper_connect_that_is_none_is_one_clear_line(text: str) -> None:
    with pytest.raises(BadConnect, match=r"^zookeeper\.connect"):
        parse(text)
