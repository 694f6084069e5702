"""Logins that fail, never end, or are no logins: nobody gets in, they cost little, and others are served."""

import os
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from attacker import Attacker, create_topic
from bystander import Bystander
from hypothesis import given, settings
from hypothesis import strategies as st
from login_crowds import (
    FENCE_ID,
    METADATA_VERSION,
    TOKEN_ID,
    client_hello,
    converse,
    frame,
    frames_of,
    half_open,
    handshake,
    metadata,
    plain_guess,
    play,
    scram_beginning,
    token,
)
from secured_broker import BOTH, ENCRYPTED, LOGIN, PASSWORD, USER, SecuredBroker
from under_attack import UnderAttack
from watched import PATIENCE_S

from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.runtime.io.limits import raise_open_files
from kpywire import api
from kpywire.codec import decode
from kpywire.error_codes import SASL_AUTHENTICATION_FAILED
from kpywire.header import decode_response_header
from kpywire.messages.sasl_authenticate import SaslAuthenticateResponse
from support.waiting import eventually

KIB, MIB = 1024, 1024 * 1024
MOST_LOGIN_BYTES = 524_288
"""``sasl.server.max.receive.size``."""
LONG_ROUNDS = 10
"""From this many rounds on, a suite is the long form."""
HALF_OPEN_BYTES = {LOGIN: 6 * KIB, ENCRYPTED: 56 * KIB, BOTH: 56 * KIB}
"""The most memory for a connection that stops in its login."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    raise_open_files()
    with SecuredBroker(directory=tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="module")
def honest(secured: SecuredBroker) -> Iterator[Bystander]:
    with Attacker(secured.port) as client:
        create_topic(client, "honest")
    bystander = Bystander(secured.port, "honest", PATIENCE_S)
    # Its connection is one of those that are there before an attack.
    eventually(lambda: bystander.turns > 0 or bystander.failure is not None, "the honest client is served")
    yield bystander
    bystander.stop()


@pytest.fixture
def attacked(secured: SecuredBroker, honest: Bystander) -> Iterator[SecuredBroker]:
    """The broker; what must hold afterwards is checked when the test is over."""
    with UnderAttack(secured, honest).holds():
        yield secured


def count_of(rounds: int, brief: int, long: int) -> int:
    return long if rounds >= LONG_ROUNDS else brief


def token_answer(data: bytes) -> SaslAuthenticateResponse:
    """The answer to a message of a mechanism."""
    (body,) = [body for number, body in frames_of(data) if number == TOKEN_ID]
    return decode(SaslAuthenticateResponse, 2, b"\0" * 4 + body, _body_at(2))


def _body_at(version: int) -> int:
    """The position of the body behind a correlation id and the header's tagged fields."""
    return decode_response_header(api.SASL_AUTHENTICATE, version, bytes(5))[1]


def test_failed_logins_by_the_thousand_are_all_refused_and_say_little_in_the_log(
    attacked: SecuredBroker, rounds: int
) -> None:
    """A hundred thousand of them in the long form."""
    count, position = count_of(rounds, 600, 100_000), attacked.log_position()
    before = attacked.memory_bytes()
    attacked.forget_peak()
    answers = play(attacked.ports[LOGIN], plain_guess, iter(range(count)), at_once=200)
    refused = [token_answer(each) for each in answers]
    assert [each.error_code for each in refused] == [SASL_AUTHENTICATION_FAILED] * count
    assert {each.error_message for each in refused} == {"Authentication failed: Invalid username or password"}
    assert attacked.peak_memory_bytes() - before < 32 * MIB
    lines = [line for line in attacked.log_since(position) if "login failed" in line]
    assert 0 < len(lines) <= 2 + count / 100
    assert "guess" not in "".join(lines), "a password is in the log"


@pytest.mark.parametrize("listener", [LOGIN, ENCRYPTED, BOTH])
@pytest.mark.parametrize("stops", ["at once", "in a frame", "after its first message"])
def test_half_open_connections_by_the_thousand_hold_little_memory(
    attacked: SecuredBroker, listener: str, stops: str, rounds: int
) -> None:
    """Ten thousand in the long form: silent ones, ones with half a frame or hello, and ones that wait for no answer."""
    count = count_of(rounds, 300, 10_000)
    hello = client_hello()
    beginnings = {
        "at once": lambda _number: b"",
        "in a frame": lambda _number: hello[:100] if listener != LOGIN else struct.pack(">i", MOST_LOGIN_BYTES) + b"x",
        "after its first message": lambda number: hello if listener != LOGIN else scram_beginning(number),
    }
    with half_open(attacked.ports[listener], beginnings[stops], 20):
        time.sleep(0.1)  # whatever is made once is there
    before = attacked.memory_bytes()
    with half_open(attacked.ports[listener], beginnings[stops], count), Attacker(attacked.port) as other:
        assert other.drain()
        assert attacked.memory_bytes() - before < count * HALF_OPEN_BYTES[listener] + 4 * MIB


@pytest.mark.parametrize(
    "size", [MOST_LOGIN_BYTES + 1, 100 * MIB, 2**31 - 1, -1, -(2**31), 0, 0x16030100], ids=lambda size: f"{size}"
)
def test_a_size_that_no_login_has_ends_the_connection_before_its_bytes_come(attacked: SecuredBroker, size: int) -> None:
    assert play(attacked.ports[LOGIN], lambda _number: struct.pack(">i", size), iter([0]), 1) == [b""]
    chosen = play(attacked.ports[LOGIN], lambda _number: handshake() + struct.pack(">i", size), iter([0]), 1)
    assert [number for number, _ in frames_of(chosen[0])] == [1], "only the handshake is answered"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_token_of_half_a_megabyte_is_refused_like_any_other(attacked: SecuredBroker, mechanism: str) -> None:
    large = [b"x" * 500_000, b"\0" * 500_000, b"n,," + b"a=1," * 120_000, b"n,,n=" + b"=2C" * 160_000 + b",r=x"]
    before = attacked.memory_bytes()
    attacked.forget_peak()
    answers = play(attacked.ports[LOGIN], lambda number: handshake(mechanism) + token(large[number]), iter(range(4)), 4)
    assert {token_answer(each).error_code for each in answers} == {SASL_AUTHENTICATION_FAILED}
    assert attacked.peak_memory_bytes() - before < 32 * MIB


DAMAGES = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, 400), st.just(0)),
    st.tuples(st.just("flip"), st.integers(0, 400), st.integers(0, 7)),
    st.tuples(st.just("insert"), st.integers(0, 400), st.integers(0, 255)),
    st.tuples(st.just("repeat"), st.integers(0, 400), st.integers(1, 40)),
)


def damaged(data: bytes, damage: tuple[str, int, int]) -> bytes:
    kind, where, what = damage
    where %= len(data)
    if kind == "cut":
        return data[:where]
    if kind == "flip":
        return data[:where] + bytes([data[where] ^ 1 << what]) + data[where + 1 :]
    if kind == "insert":
        return data[:where] + bytes([what]) + data[where:]
    return data[: where + what] + data[where:]


def is_served(data: bytes) -> bool:
    """Whether a request that needs a login was served."""
    for number, body in frames_of(data):
        if number == FENCE_ID:
            with suppress(Exception):  # of damaged requests the answer may be any
                response = decode(api.response_class(api.METADATA), METADATA_VERSION, b"\0" * 4 + body, 5)
                if response.brokers:
                    return True
    return False


@pytest.mark.parametrize("begin", [plain_guess, scram_beginning])
def test_damaged_login_frames_are_refused(attacked: SecuredBroker, begin: object, rounds: int) -> None:
    """Cut, flipped, inserted and repeated bytes, with a request behind them that only a user may make."""

    @settings(max_examples=count_of(rounds, 12, 400), deadline=None)
    @given(st.lists(DAMAGES, min_size=10, max_size=10))
    def attack(damages: list[tuple[str, int, int]]) -> None:
        def sent(number: int) -> bytes:
            return damaged(begin(1), damages[number]) + metadata()  # type: ignore[operator]

        answers = play(attacked.ports[LOGIN], sent, iter(range(10)), 10, ends=True)
        assert not any(map(is_served, answers))

    attack()


def test_the_same_request_is_served_after_a_login(attacked: SecuredBroker) -> None:
    """The tests above would see a request that is served."""
    login = handshake() + token(PlainClient(USER, PASSWORD).first())
    assert is_served(converse(attacked.ports[LOGIN], login + metadata(), 3))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_damaged_hellos_of_tls_end_their_connections(
    attacked: SecuredBroker, version: ssl.TLSVersion, rounds: int
) -> None:
    hello = client_hello(version)

    @settings(max_examples=count_of(rounds, 12, 400), deadline=None)
    @given(st.lists(DAMAGES, min_size=10, max_size=10))
    def attack(damages: list[tuple[str, int, int]]) -> None:
        port = attacked.ports[ENCRYPTED]
        answers = play(port, lambda number: damaged(hello, damages[number]), iter(range(10)), 10, ends=True)
        assert len(answers) == 10
        assert all(not each or each[0] in (0x15, 0x16) for each in answers), "an alert, a hello, or nothing"

    attack()


def secured_socket(broker: SecuredBroker, listener: str, version: ssl.TLSVersion) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = version
    context.load_verify_locations(cadata=broker.authority.pem)
    raw = socket.create_connection(("127.0.0.1", broker.ports[listener]), timeout=PATIENCE_S)
    return context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_bytes_that_were_not_encrypted_end_an_open_tls_connection(
    attacked: SecuredBroker, version: ssl.TLSVersion
) -> None:
    """A plain frame, a handshake in the middle, and a record that is too long: none is answered as a request."""
    intruded = [
        metadata(),
        client_hello(),
        b"\x17\x03\x03" + struct.pack(">H", 16 * KIB + 2048 + 1) + os.urandom(16 * KIB + 2049),
        b"\x17\x03\x03\x00\x20" + os.urandom(32),
        b"\x15\x03\x03\x00\x02\x02\x50",
        b"\x14\x03\x03\x00\x01\x01" * 100,
    ]
    for data in intruded:
        sock = secured_socket(attacked, ENCRYPTED, version)
        sock.sendall(metadata())
        assert is_served(sock.recv(1 << 16)), "it is open"
        raw = socket.socket(fileno=sock.detach())
        raw.settimeout(PATIENCE_S)
        received = bytearray()
        with raw, suppress(ConnectionError):
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while more := raw.recv(1 << 16):
                received += more
        assert len(received) < 200, "an alert at most"


def test_renegotiation_is_refused(attacked: SecuredBroker) -> None:
    """TLS 1.2 lets a client demand a new handshake, which costs a server much and the client little."""
    port, before = attacked.ports[ENCRYPTED], attacked.cpu_s()
    asked = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2", "-legacy_renegotiation"],
        input="R\n" * 20,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    notified = asked.stdout + asked.stderr
    assert "RENEGOTIATING" in notified, notified
    assert "no renegotiation" in notified, notified
    assert attacked.cpu_s() - before < 1


@pytest.mark.parametrize("listener", [LOGIN, ENCRYPTED])
def test_a_byte_now_and_then_costs_no_processor_time(attacked: SecuredBroker, listener: str) -> None:
    whole = client_hello() if listener == ENCRYPTED else plain_guess(0)
    with half_open(attacked.ports[listener], lambda _number: whole[:1], 100) as socks:
        before = attacked.cpu_s()
        for position in range(1, 20):
            for sock in socks:
                sock.sendall(whole[position : position + 1])
            time.sleep(0.02)
        eventually(lambda: attacked.is_alive, "the broker lives")
        assert attacked.cpu_s() - before < 1.5, "a crumb costs a millisecond or so at most"


def test_a_connection_that_only_asks_for_versions_again_and_again_is_answered(attacked: SecuredBroker) -> None:
    """ApiVersions is served before the login; asking again and again gains nothing."""
    versions = frame(struct.pack(">hhih", api.API_VERSIONS, 0, FENCE_ID, -1))
    with socket.create_connection(("127.0.0.1", attacked.ports[LOGIN]), 30) as connection:
        connection.sendall(versions * 500)
        answer = b""
        while len(list(frames_of(answer))) < 500:
            received = connection.recv(1 << 20)
            assert received, "the broker closed the connection"
            answer += received


def test_handshakes_of_many_clients_are_done_and_others_are_served_meanwhile(
    attacked: SecuredBroker, honest: Bystander, rounds: int
) -> None:
    hello, turns = client_hello(), honest.turns
    count = count_of(rounds, 150, 5_000)
    answers = play(attacked.ports[ENCRYPTED], lambda _number: hello, iter(range(count)), 100, ends=True)
    assert len(answers) == count
    assert honest.turns > turns


def test_the_password_of_another_is_not_found_by_its_length(attacked: SecuredBroker) -> None:
    """Guesses of every length are refused in the same words."""
    guesses = [
        *(PASSWORD[:length] for length in range(1, len(PASSWORD))),
        PASSWORD + "x",
        PASSWORD + "\0",
        " " + PASSWORD,
    ]
    frames = [handshake() + token(f"\0{USER}\0{guess}".encode()) for guess in guesses if "\0" not in guess]
    answers = play(attacked.ports[LOGIN], lambda number: frames[number], iter(range(len(frames))), 50)
    found = {(each.error_code, each.error_message) for each in map(token_answer, answers)}
    assert found == {(SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password")}
