"""The bytes of ZooKeeper's requests and answers, as its ``zookeeper.jute`` defines them; and a session in time."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from kpybroker.machines.zookeeper.client import error_codes, frames
from kpybroker.machines.zookeeper.client.digest_md5 import DigestMd5
from kpybroker.machines.zookeeper.client.frames import (
    MOST_WATCHES_BYTES,
    EventType,
    Greeting,
    WatchedEvent,
    Watches,
    Welcome,
    reply,
    request,
    set_watches,
)
from kpybroker.machines.zookeeper.client.jute import JuteReader, JuteWriter
from kpybroker.machines.zookeeper.client.operations import (
    CREATOR_ALL_ACL,
    OPEN_ACL,
    Check,
    Create,
    Delete,
    Exists,
    Get,
    GetAcl,
    GetChildren,
    Multi,
    Operation,
    OperationFailed,
    Set,
    SetAcl,
    Stat,
    Sync,
    Znode,
    ZnodeAcl,
    absolute,
    relative,
)
from kpybroker.machines.zookeeper.client.session import (
    LONGEST_SILENCE_MS,
    Lost,
    SessionState,
    ZooKeeperLoginRefused,
    ZooKeeperSession,
)
from kpybroker.machines.zookeeper.client.watches import Watching
from kpywire.errors import Malformed

PASSWORD = bytes(range(16))
WORLD = struct.pack(">ii", 1, 31) + b"\0\0\0\5world\0\0\0\6anyone"
STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
STAT_BYTES = struct.pack(">qqqqiiiqiiq", *STAT)
Body = Callable[[JuteWriter], object]


def text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()


def written(operation: Operation, chroot: str = "/k") -> bytes:
    out = JuteWriter()
    operation.write(out, chroot)
    return out.frame()


# Operations.


@pytest.mark.parametrize(
    ("operation", "code", "body"),
    [
        (Create("/a", b"xy"), 1, text("/k/a") + b"\0\0\0\2xy" + WORLD + b"\0\0\0\0"),
        (Create("/a", None), 1, text("/k/a") + b"\xff\xff\xff\xff" + WORLD + b"\0\0\0\0"),
        (Create("/a", b"", is_ephemeral=True), 1, text("/k/a") + b"\0\0\0\0" + WORLD + b"\0\0\0\1"),
        (Create("/a", b"", is_sequential=True), 1, text("/k/a") + b"\0\0\0\0" + WORLD + b"\0\0\0\2"),
        (
            Create("/a", b"", is_ephemeral=True, is_sequential=True),
            1,
            text("/k/a") + b"\0\0\0\0" + WORLD + b"\0\0\0\3",
        ),
        (Delete("/a"), 2, text("/k/a") + b"\xff\xff\xff\xff"),
        (Delete("/a", 7), 2, text("/k/a") + b"\0\0\0\7"),
        (Exists("/a"), 3, text("/k/a") + b"\0"),
        (Exists("/a", is_watched=True), 3, text("/k/a") + b"\1"),
        (Get("/a"), 4, text("/k/a") + b"\0"),
        (Get("/a", is_watched=True), 4, text("/k/a") + b"\1"),
        (Set("/a", b"x"), 5, text("/k/a") + b"\0\0\0\1x" + b"\xff\xff\xff\xff"),
        (Set("/a", None, 3), 5, text("/k/a") + b"\xff\xff\xff\xff" + b"\0\0\0\3"),
        (GetAcl("/a"), 6, text("/k/a")),
        (SetAcl("/a", OPEN_ACL, 2), 7, text("/k/a") + WORLD + b"\0\0\0\2"),
        (Sync("/a"), 9, text("/k/a")),
        (GetChildren("/a", is_watched=True), 12, text("/k/a") + b"\1"),
        (Check("/a", 4), 13, text("/k/a") + b"\0\0\0\4"),
        (
            Multi((Delete("/a", 7), Check("/b", 4))),
            14,
            b"\0\0\0\2\0\xff\xff\xff\xff" + text("/k/a") + b"\0\0\0\7"
            + b"\0\0\0\x0d\0\xff\xff\xff\xff" + text("/k/b") + b"\0\0\0\4"
            + b"\xff\xff\xff\xff\1\xff\xff\xff\xff",
        ),
    ],
)  # fmt: skip
def test_an_operation_has_zookeepers_number_and_bytes(operation: Operation, code: int, body: bytes) -> None:
    assert operation.code == code
    assert written(operation) == body


@pytest.mark.parametrize(
    ("operation", "answer", "result"),
    [
        (Create("/a", b""), text("/k/a0000000001"), "/a0000000001"),
        (Delete("/a"), b"", None),
        (Exists("/a"), STAT_BYTES, STAT),
        (Get("/a"), b"\0\0\0\1x" + STAT_BYTES, Znode(b"x", STAT)),
        (Get("/a"), b"\xff\xff\xff\xff" + STAT_BYTES, Znode(None, STAT)),
        (Set("/a", b""), STAT_BYTES, STAT),
        (SetAcl("/a", OPEN_ACL), STAT_BYTES, STAT),
        (GetAcl("/a"), WORLD + STAT_BYTES, (OPEN_ACL, STAT)),
        (GetChildren("/a"), b"\0\0\0\2" + text("x") + text("y") + STAT_BYTES, (["x", "y"], STAT)),
        (Check("/a", 1), b"", None),
    ],
)
def test_a_result_is_read_from_zookeepers_bytes(operation: Operation, answer: bytes, result: Any) -> None:
    source = JuteReader(answer)
    assert operation.read(source, "/k") == result
    assert source.left_bytes == 0


def test_a_stat_comes_back() -> None:
    out = JuteWriter()
    STAT.write(out)
    assert out.frame() == STAT_BYTES
    out = JuteWriter()
    out.vector((ZnodeAcl(1, "a", "b"), *CREATOR_ALL_ACL), lambda to, acl: acl.write(to))
    assert JuteReader(out.frame()).vector(ZnodeAcl.read) == [ZnodeAcl(1, "a", "b"), ZnodeAcl(31, "auth", "")]


def part(code: int, body: bytes = b"", *, is_last: bool = False) -> bytes:
    return struct.pack(">i?i", code, is_last, -1 if is_last or code >= 0 else 0) + body


END = part(-1, is_last=True)
THREE = Multi((Create("/a", b""), Check("/b", 1), Delete("/c")))


def error(code: int) -> bytes:
    return part(-1, struct.pack(">i", code))


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (part(1, text("/k/a")) + part(13) + part(2) + END, ["/a", None, None]),
        (error(0) + error(-103) + error(-2) + END, OperationFailed(-103, (0, -103, -2))),
        (error(-110) + error(-2) + error(-2) + END, OperationFailed(-110, (-110, -2, -2))),
        (error(-2) + error(-2) + error(-2) + END, OperationFailed(-2, (-2, -2, -2))),
    ],
)
def test_a_multi_is_done_or_says_what_failed(answer: bytes, result: Any) -> None:
    assert THREE.read(JuteReader(answer), "/k") == result


@pytest.mark.parametrize(
    "answer",
    [
        END,
        part(1, text("/k/a")) + part(13) + END,
        part(1, text("/k/a")) + part(13) + part(2) + part(2) + END,
        part(1, text("/k/a")) + part(2) + part(2) + END,
        part(1, text("/k/a")) + error(-103) + error(-2) + END,
        error(0) + error(-103) + END,
        error(0) + error(-103) + error(-2) + error(-2) + END,
        part(1, text("/k/a")) + part(13) + part(2),
    ],
    ids=["nothing", "too few", "too many", "another", "mixed", "few errors", "many errors", "no end"],
)
def test_other_answers_to_a_multi_are_malformed(answer: bytes) -> None:
    with pytest.raises(Malformed):
        THREE.read(JuteReader(answer), "/k")


def test_the_operation_that_failed_first_is_named() -> None:
    assert OperationFailed(-103, (0, -103, -2)).failed_at == 1
    assert OperationFailed(-103).failed_at == -1
    assert str(OperationFailed(error_codes.NO_NODE)) == "NO_NODE"


def test_paths_lie_below_the_chroot() -> None:
    assert [absolute(path, chroot) for path, chroot in (("/a", ""), ("/a", "/k"), ("/", "/k"), ("/", ""))] == [
        "/a",
        "/k/a",
        "/k",
        "/",
    ]
    assert [relative(path, chroot) for path, chroot in (("/a", ""), ("/k/a", "/k"), ("/k", "/k"), ("/", ""))] == [
        "/a",
        "/a",
        "/",
        "/",
    ]


# Jute.


def test_lengths_that_are_claimed_are_compared_with_what_is_there() -> None:
    for content in (b"\0\0\0\2x", b"\xff\xff\xff\xfe", b"\0\0"):
        with pytest.raises(Malformed):
            JuteReader(content).buffer()
    assert JuteReader(b"\0\0\0\0").buffer() == b""
    assert JuteReader(b"\xff\xff\xff\xff").string() == ""
    with pytest.raises(Malformed, match="not UTF-8"):
        JuteReader(b"\0\0\0\1\xff").string()
    assert JuteReader(b"\xff\xff\xff\xff").vector(JuteReader.boolean) == []
    assert JuteReader(b"\0\0\0\0").vector(JuteReader.boolean) == []
    assert JuteReader(b"\0\0\0\2\1\0").vector(JuteReader.boolean) == [True, False]
    for content in (b"\0\0\0\3\1\0", b"\xff\xff\xff\xfe\1\0"):
        with pytest.raises(Malformed):
            JuteReader(content).vector(JuteReader.boolean)
    assert JuteReader(b"\2").boolean(), "any byte but 0 is true"


# Frames.


def test_greetings_have_zookeepers_bytes() -> None:
    greeting = struct.pack(">iqiqi", 0, 9, 6_000, 7, 16) + PASSWORD + b"\0"
    assert Greeting(9, 6_000, 7, PASSWORD).frame() == greeting
    assert Greeting.of(greeting) == Greeting(9, 6_000, 7, PASSWORD)
    welcome = struct.pack(">iiqi", 0, 6_000, 7, 16) + PASSWORD + b"\0"
    assert Welcome(6_000, 7, PASSWORD).frame() == welcome
    assert Welcome.of(welcome) == Welcome(6_000, 7, PASSWORD)
    assert Welcome.of(welcome[:16] + b"\xff\xff\xff\xff").password == b""


def test_headers_have_zookeepers_bytes() -> None:
    assert request(5, 4).frame() == struct.pack(">ii", 5, 4)
    assert reply(5, 9, -101).frame() == struct.pack(">iqi", 5, 9, -101)
    event = struct.pack(">iqi", -1, -1, 0) + struct.pack(">ii", 3, 3) + text("/a")
    assert WatchedEvent(EventType.DATA_CHANGED, "/a").frame() == event
    assert WatchedEvent.read(JuteReader(event[16:])) == WatchedEvent(EventType.DATA_CHANGED, "/a")
    assert WatchedEvent.read(JuteReader(struct.pack(">ii", -1, 3) + text(""))) is None, "it is about the session"
    for number in (0, 5):
        with pytest.raises(Malformed, match=f"unknown type {number}"):
            WatchedEvent.read(JuteReader(struct.pack(">ii", number, 3) + text("/a")))


def test_watches_are_registered_again_in_requests_that_servers_take() -> None:
    (frame,) = set_watches(9, Watches(["/d"], ["/e", "/f"], []))
    assert frame == struct.pack(">iiq", -8, 101, 9) + b"\0\0\0\1" + text("/d") + b"\0\0\0\2" + text("/e") + text(
        "/f"
    ) + bytes(4)
    assert set_watches(9, Watches([], [], [])) == []
    long = "/" + "x" * (MOST_WATCHES_BYTES // 2 - 5)
    for paths, sizes in (([long], [1]), ([long] * 2, [2]), ([long] * 3, [2, 1]), ([long[:-1]] * 3, [3])):
        found = [struct.unpack_from(">i", frame, 16)[0] for frame in set_watches(9, Watches(paths, [], []))]
        assert found == sizes
    wide = ["/" + "\u20ac" * 1_000] * 100
    assert len(set_watches(9, Watches([], wide, []))) == -(-100 * 3_005 // MOST_WATCHES_BYTES)


def test_a_watch_fires_once_for_what_it_watches() -> None:
    def fired(kind: EventType, *operations: tuple[Any, Any]) -> tuple[bool, bool]:
        watching = Watching()
        for operation, result in operations:
            watching.answered(operation, result, "")
        event = WatchedEvent(kind, "/a")
        return watching.fired(event), watching.fired(event)

    data = (Get("/a", is_watched=True), Znode(b"", STAT))
    children = (GetChildren("/a", is_watched=True), ([], STAT))
    absent = (Exists("/a", is_watched=True), OperationFailed(error_codes.NO_NODE))
    there = (Exists("/a", is_watched=True), STAT)
    yes, no = (True, False), (False, False)
    for kind, expected in (
        (EventType.CREATED, (yes, no, yes, yes)),
        (EventType.DELETED, (yes, yes, yes, yes)),
        (EventType.DATA_CHANGED, (yes, no, yes, yes)),
        (EventType.CHILDREN_CHANGED, (no, yes, no, no)),
    ):
        assert tuple(fired(kind, each) for each in (data, children, absent, there)) == expected, kind
    assert fired(EventType.DELETED, (Get("/a", is_watched=True), OperationFailed(error_codes.NO_NODE))) == no
    assert fired(EventType.DELETED, (Get("/a"), Znode(b"", STAT))) == no
    assert fired(EventType.CREATED, (Exists("/a", is_watched=True), OperationFailed(-4))) == no
    assert fired(EventType.DELETED, (Set("/a", b""), STAT)) == no
    watching = Watching()
    for operation, result in (data, children, absent):
        watching.answered(operation, result, "/k")
    assert watching.registered() == Watches(["/k/a"], ["/k/a"], ["/k/a"])


# A session in time.


def connected(**more: Any) -> tuple[ZooKeeperSession, list[Any]]:
    session = ZooKeeperSession(9_000, 3, **more)
    seen: list[Any] = []
    session.on_event = session.on_state = seen.append
    session.connected(0)
    session.received(Welcome(6_000, 7, PASSWORD).frame(), 0)
    drained(session)
    return session, seen


def drained(session: ZooKeeperSession) -> list[bytes]:
    taken, session.frames = session.frames, []
    while session.calls:
        session.calls.popleft()()
    return taken


def test_a_silent_session_pings_after_a_third_of_its_timeout_and_ends_its_connection_after_two() -> None:
    session, _ = connected()
    assert session.next_tick_ms(0) == 2_000
    assert not session.tick(1_999)
    assert drained(session) == []
    assert not session.tick(2_000)
    assert drained(session) == [struct.pack(">ii", -2, 11)]
    assert session.next_tick_ms(2_000) == 2_000
    assert not session.tick(3_999)
    assert session.next_tick_ms(3_999) == 1.0
    assert session.tick(4_000)
    session.received(reply(-2, 5, 0).frame(), 3_999)
    assert not session.tick(4_000)
    session.submit(Get("/a"), lambda _: None, 5_000)
    drained(session)
    assert not session.tick(6_999)
    assert drained(session) == [], "a request is as good as a ping"


def test_a_long_timeout_does_not_mean_long_silence() -> None:
    session = ZooKeeperSession(90_000, 1)
    session.connected(0)
    session.received(Welcome(90_000, 7, PASSWORD).frame(), 0)
    assert session.next_tick_ms(0) == LONGEST_SILENCE_MS
    assert (session.read_timeout_ms, session.connect_timeout_ms) == (60_000, 90_000)


def test_a_server_has_its_share_of_the_timeout_to_greet() -> None:
    session = ZooKeeperSession(9_000, 3)
    assert not session.tick(10_000), "there is no connection"
    session.connected(0)
    assert session.next_tick_ms(1_000) == 2_000
    assert not session.tick(2_999)
    assert session.tick(3_000)


def test_only_so_many_requests_are_under_way() -> None:
    session, _ = connected(most_in_flight=2)
    results: list[Any] = []
    for number in range(3):
        session.submit(Exists(f"/{number}"), results.append, 0)
    assert len(drained(session)) == 2
    session.received(reply(1, 1, 0).frame() + STAT_BYTES, 1)
    assert [struct.unpack_from(">i", each)[0] for each in drained(session)] == [3]
    assert results == [STAT]


def test_numbers_of_requests_begin_again_at_1() -> None:
    session, _ = connected()
    session._xid = 0x7FFF_FFFE
    for _ in range(2):
        session.submit(Exists("/a"), lambda _: None, 0)
    assert [struct.unpack_from(">i", each)[0] for each in drained(session)] == [0x7FFF_FFFF, 1]


@pytest.mark.parametrize("code", [error_codes.SESSION_EXPIRED, error_codes.SESSION_MOVED])
def test_an_answer_that_the_session_is_elsewhere_ends_the_connection(code: int) -> None:
    session, _ = connected()
    session.submit(Exists("/a"), lambda _: None, 0)
    with pytest.raises(Malformed):
        session.received(reply(1, 1, code).frame(), 1)


def test_unrequested_answers_end_the_connection() -> None:
    session, _ = connected()
    with pytest.raises(Malformed):
        session.received(reply(1, 1, 0).frame() + STAT_BYTES, 1)
    session, _ = connected()
    session.submit(Exists("/a"), lambda _: None, 0)
    with pytest.raises(Malformed):
        session.received(reply(2, 1, 0).frame() + STAT_BYTES, 1)


def test_the_newest_change_that_was_seen_is_in_the_next_greeting() -> None:
    session, _ = connected()
    for zxid in (5, 3):
        session.submit(Exists("/a"), lambda _: None, 0)
        session.received(reply(session._xid, zxid, 0).frame() + STAT_BYTES, 1)
    session.received(reply(-2, 99, 0).frame(), 1)
    session.disconnected()
    session.connected(2)
    assert Greeting.of(drained(session)[-1]).last_zxid == 5


def test_an_end_is_an_end() -> None:
    session, seen = connected()
    session.disconnected()
    session.connected(1)
    session.received(Welcome(0, 0, bytes(16)).frame(), 1)
    drained(session)
    assert seen[-1] is SessionState.EXPIRED
    results: list[Any] = []
    session.submit(Exists("/a"), results.append, 2)
    session.connected(3)
    session.disconnected()
    session.received(b"", 3)
    assert drained(session)[1:] == []
    assert results == [Lost(False, SessionState.EXPIRED)]
    assert not session.tick(99_999)


def test_a_connection_that_ends_before_the_greeting_loses_no_request() -> None:
    session = ZooKeeperSession(9_000, 3)
    results: list[Any] = []
    session.submit(Exists("/a"), results.append, 0)
    session.connected(0)
    session.disconnected()
    assert drained(session) == []
    assert results == []
    session.connected(1)
    session.received(Welcome(6_000, 7, PASSWORD).frame(), 1)
    assert len(drained(session)) == 2


def test_closing_waits_for_the_server_or_its_connection() -> None:
    session, seen = connected()
    done: list[str] = []
    session.close(lambda: done.append("closed"), 5)
    assert drained(session) == [struct.pack(">ii", 1, -11)]
    session.submit(Exists("/a"), lambda _: None, 5)
    assert drained(session) == [], "nothing follows it"
    session.received(reply(1, 9, 0).frame(), 6)
    drained(session)
    assert (done, seen[-1]) == (["closed"], SessionState.CLOSED)
    session, seen = connected()
    session.close(lambda: done.append("lost"), 5)
    session.disconnected()
    drained(session)
    assert (done[-1], seen[-1]) == ("lost", SessionState.CLOSED)
    session = ZooKeeperSession(9_000, 3)
    session.close(lambda: done.append("never"), 5)
    drained(session)
    assert (done[-1], session.state) == ("never", SessionState.CLOSED)


# The login.


def challenged(answer: bytes) -> tuple[ZooKeeperSession, DigestMd5]:
    exchange = DigestMd5("ann", "secret", "cnonce")
    session = ZooKeeperSession(9_000, 3, new_exchange=lambda: exchange)
    session.connected(0)
    drained(session)
    session.received(Welcome(6_000, 7, PASSWORD).frame(), 0)
    assert drained(session) == [struct.pack(">iii", 1, 102, 0)]
    session.received(reply(1, 0, 0).frame() + struct.pack(">i", len(answer)) + answer, 1)
    return session, exchange


CHALLENGE = b'realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess'


def test_a_session_logs_in_before_anything_else() -> None:
    session, exchange = challenged(CHALLENGE)
    session.submit(Exists("/a"), lambda _: None, 1)
    (frame,) = drained(session)
    assert struct.unpack_from(">ii", frame) == (2, 102)
    assert session.state is SessionState.LOGGING_IN
    assert not exchange.is_complete
    assert not session.tick(4_000), "the login has the time of a connection"
    proof = f"rspauth={exchange._expected}".encode()
    session.received(reply(2, 0, 0).frame() + struct.pack(">i", len(proof)) + proof, 2)
    assert session.state is SessionState.CONNECTED
    assert exchange.is_complete
    assert len(drained(session)) == 1


@pytest.mark.parametrize(
    "challenge", [b"", b"realm=x", b'nonce="a",qop="auth-int"', b"{", b'nonce="' + b"x" * 4_096 + b'"']
)
def test_other_challenges_are_refused(challenge: bytes) -> None:
    session, _ = challenged(challenge)
    assert session.state is SessionState.REFUSED
    assert "DIGEST-MD5" in session.why_refused or "4096" in session.why_refused


def test_a_login_that_the_server_refuses_ends_the_session() -> None:
    session, _ = challenged(CHALLENGE)
    session.received(reply(2, 0, error_codes.AUTH_FAILED).frame(), 2)
    assert (session.state, session.why_refused) == (SessionState.REFUSED, "ZooKeeper answers AUTH_FAILED to the login")


def test_fields_of_a_challenge_may_be_quoted_and_the_first_of_a_name_counts() -> None:
    exchange = DigestMd5('a"n\\n', "secret", "cnonce")
    answer = exchange.respond(rb'NONCE = "a\"b", nonce=second , qop="auth,auth-int",realm=plain') or b""
    assert rb'username="a\"n\\n",realm="plain",nonce="a\"b",nc=00000001' in answer
    with pytest.raises(ZooKeeperLoginRefused, match="does not prove"):
        exchange.respond(b"rspauth=00")
    longest = b'nonce="' + b"x" * (4_096 - 8) + b'"'
    assert len(longest) == 4_096
    assert DigestMd5("a", "b", "c").respond(longest) is not None


def test_the_numbers_are_zookeepers() -> None:
    numbers = (frames.CREATE_SESSION, frames.CLOSE_SESSION, frames.PING, frames.SET_WATCHES, frames.SASL)
    assert numbers == (-10, -11, 11, 101, 102)
