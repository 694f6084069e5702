"""SCRAM: the examples of the RFCs, both halves against each other, and what a server refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.exchange import AuthenticationFailed, InvalidCredentials
from kpybroker.machines.sasl.made_up_credentials import MadeUpCredentials
from kpybroker.machines.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential, ScramMechanism
from kpybroker.machines.sasl.scram_client import ScramClient
from kpybroker.machines.sasl.scram_server import ScramLogin, ScramServer

SALT = b"sixteen bytes it"


def stranger(name: str, _by_token: bool) -> ScramCredential:
    return MadeUpCredentials(lambda: b"secret").of(SCRAM_SHA_256, name)


def login(mechanism: ScramMechanism, password: str, name: str) -> ScramLogin:
    salted = mechanism.salted_password(password, SALT, scram.MIN_ITERATIONS)
    return ScramLogin(mechanism.credential(salted, SALT, scram.MIN_ITERATIONS), name)


def test_the_example_of_rfc_7677() -> None:
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    answer = client.respond(b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert answer == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.is_complete


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_both_halves_agree_on_a_right_password_alone(mechanism: ScramMechanism) -> None:
    for password in ("pencil", "wrong"):
        server = ScramServer(mechanism, lambda _name, _token: login(mechanism, "pencil", "alice"), "more", stranger)
        client = ScramClient(mechanism, "al,i=ce", password, "once")
        proof = client.respond(server.respond(client.first()))
        assert proof is not None
        if password == "wrong":
            with pytest.raises(AuthenticationFailed, match="invalid credentials") as failed:
                server.respond(proof)
            assert "wrong password" in failed.value.reason
            continue
        assert client.respond(server.respond(proof)) is None
        assert client.is_complete
        assert server.is_complete
        assert server.authorization_id == "alice"


def test_a_user_that_does_not_exist_is_refused_whatever_the_proof() -> None:
    """Even one that matches the made-up credential."""
    made_up = login(SCRAM_SHA_256, "guessed", "").credential
    for password in ("guessed", "wrong"):
        for by_token, kind in ((False, "SCRAM-SHA-256 credential"), (True, "delegation token")):
            server = ScramServer(SCRAM_SHA_256, lambda _name, _token: None, "more", lambda _name, _token: made_up)
            client = ScramClient(SCRAM_SHA_256, "bob", password, "once", by_token=by_token)
            proof = client.respond(server.respond(client.first()))
            assert proof is not None
            with pytest.raises(AuthenticationFailed) as failed:
                server.respond(proof)
            assert f"no such {kind}" in failed.value.reason
            assert not server.is_complete
            assert server.authorization_id == ""


def test_challenges_do_not_reveal_which_users_exist() -> None:
    known = {"alice": login(SCRAM_SHA_256, "pencil", "alice")}
    texts = []
    for name in ("alice", "bob"):
        server = ScramServer(SCRAM_SHA_256, lambda name, _token: known.get(name), "more", stranger)
        client = ScramClient(SCRAM_SHA_256, name, "wrong", "once")
        proof = client.respond(server.respond(client.first()))
        assert proof is not None
        with pytest.raises(AuthenticationFailed) as failed:
            server.respond(proof)
        texts.append(failed.value.text)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("nonce", ["", "once", "oncemoreandmore", "other"])
def test_a_nonce_that_is_not_the_one_given_is_refused(nonce: str) -> None:
    server = ScramServer(SCRAM_SHA_256, lambda _name, _token: login(SCRAM_SHA_256, "p", "alice"), "more", stranger)
    client = ScramClient(SCRAM_SHA_256, "alice", "p", "once")
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    with pytest.raises(AuthenticationFailed):
        server.respond(proof.replace(b"r=oncemore", b"r=" + nonce.encode()))


@pytest.mark.parametrize("name", ["x" * 500_000, "=2C" * 160_000, "é" * 5_000])
def test_a_message_that_is_too_long_is_refused_and_not_kept(name: str) -> None:
    server = ScramServer(SCRAM_SHA_256, lambda _name, _token: None, "more", stranger)
    with pytest.raises(AuthenticationFailed) as failed:
        server.respond(f"n,,n={name},r=once".encode())
    assert "invalid credentials" in failed.value.text
    assert len(failed.value.reason) < 100
    assert server._first is None


def test_a_proof_a_binding_and_an_extension_that_are_not_right_are_refused() -> None:
    """A proof of another length or none, a header other than the first one, and extensions that must be understood."""
    for change in (
        (b"p=", b"p=AAAA"),
        (b",p=", b",p=AAAA="),
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=bixhPWFkbWluLA=="),
        (b"c=biws,", b"m=must,c=biws,"),
    ):
        server = ScramServer(SCRAM_SHA_256, lambda _name, _token: login(SCRAM_SHA_256, "p", "alice"), "more", stranger)
        client = ScramClient(SCRAM_SHA_256, "alice", "p", "once")
        proof = client.respond(server.respond(client.first()))
        assert proof is not None
        with pytest.raises(AuthenticationFailed):
            server.respond(proof.replace(*change))
        assert not server.is_complete
    for first in (b"y,,n=alice,r=once", b"p=tls-unique,,n=alice,r=once", b"n,,m=must,n=alice,r=once", b"n,,n=,r=once"):
        with pytest.raises(AuthenticationFailed):
            ScramServer(SCRAM_SHA_256, lambda _name, _token: None, "more", stranger).respond(first)


@pytest.mark.parametrize("iterations", ["0", "1", "4095", "1000001", "999999999", "9999999999"])
def test_a_client_does_not_work_for_a_server_that_asks_for_too_little_or_too_much(iterations: str) -> None:
    """Too few would make the password cheap to guess, too many would stop the client (CVE-2026-10143)."""
    client = ScramClient(SCRAM_SHA_256, "alice", "p", "once")
    client.first()
    with pytest.raises((AuthenticationFailed, scram.MalformedScram)):
        client.respond(f"r=oncemore,s=c2FsdA==,i={iterations}".encode())


@pytest.mark.parametrize("nonce", ["once", "twicemore", "onc", "other"])
def test_a_client_proves_nothing_to_a_server_whose_nonce_does_not_continue_its_own(nonce: str) -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "p", "once")
    client.first()
    with pytest.raises(AuthenticationFailed, match="does not continue"):
        client.respond(f"r={nonce},s=c2FsdA==,i=4096".encode())


def test_a_server_that_has_proved_nothing_has_logged_no_client_in() -> None:
    server = ScramServer(SCRAM_SHA_256, lambda _name, _token: login(SCRAM_SHA_256, "p", "alice"), "more", stranger)
    for message in (None, b"n,,n=alice,r=once"):
        if message is not None:
            server.respond(message)
        assert (server.is_complete, server.token_authenticated, server.expires_ms) == (False, False, None)


def test_an_authorization_id_of_another_is_refused_before_any_challenge() -> None:
    def begun(authorization_id: str) -> bytes:
        server = ScramServer(SCRAM_SHA_256, lambda _name, _token: login(SCRAM_SHA_256, "p", "alice"), "more", stranger)
        return server.respond(scram.ClientFirst("alice", "once", authorization_id).encode())

    assert begun("alice").startswith(b"r=oncemore")
    with pytest.raises(AuthenticationFailed, match="different from username"):
        begun("admin")


@given(st.binary(max_size=80))
def test_any_bytes_are_answered_or_refused(data: bytes) -> None:
    server = ScramServer(SCRAM_SHA_256, lambda _name, _token: None, "more", stranger)
    for _ in range(2):
        try:
            server.respond(data)
        except AuthenticationFailed:
            return


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_every_name_survives_its_escapes(name: str) -> None:
    assert scram.decode_client_first(scram.ClientFirst(name, "once").encode()).user == name


@pytest.mark.parametrize("iterations", [4_096, 1_000_000])
def test_a_client_works_for_a_server_that_asks_for_what_is_allowed(iterations: int) -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "p", "once")
    client.first()
    assert client.respond(f"r=oncemore,s=c2FsdA==,i={iterations}".encode()) is not None


def test_each_refusal_of_a_proof_has_its_own_reason() -> None:
    for change, reason in (
        ((b",p=", b",p=AAAA"), "user 'alice': the proof has a wrong length"),
        ((b"c=biws", b"c=eSws"), "user 'alice': the channel binding is not the one of its first message"),
        ((b"r=once", b"r=other"), "user 'alice': the nonce is not the one that it got"),
    ):
        server = ScramServer(SCRAM_SHA_256, lambda _name, _token: login(SCRAM_SHA_256, "p", "alice"), "more", stranger)
        client = ScramClient(SCRAM_SHA_256, "alice", "p", "once")
        proof = client.respond(server.respond(client.first()))
        assert proof is not None
        with pytest.raises(InvalidCredentials) as refused:
            server.respond(proof.replace(*change))
        assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("final", "text"),
    [
        (b"e=other-error", "the server refuses the login: other-error"),
        (b"v=AAAA", "the server does not know the password either"),
    ],
)
def test_a_client_says_why_its_login_failed(final: bytes, text: str) -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "p", "once")
    client.first()
    client.respond(b"r=oncemore,s=c2FsdA==,i=4096")
    assert not client.is_complete
    with pytest.raises(AuthenticationFailed) as refused:
        client.respond(final)
    assert refused.value.text == text
    assert not client.is_complete
