"""Logins of a node at another one: the messages alone, with the server's halves and with servers that send anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played_sasl_server import PASSWORD, SERVED, USER, SaslServer, answered

from kpybroker.config.between_nodes import Credentials
from kpybroker.hosts.network.login import MOST_MESSAGES, LoginFailed, OutgoingLogin
from kpybroker.node.assembly.connecting import account_of
from kpywire import api, error_codes
from kpywire.header import decode_request_header
from kpywire.messages.api_versions import ApiVersionsResponse
from kpywire.messages.sasl_authenticate import SaslAuthenticateResponse
from kpywire.messages.sasl_handshake import SaslHandshakeResponse

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def new_login(mechanism: str = "PLAIN") -> OutgoingLogin:
    return account_of(Credentials(mechanism, USER, PASSWORD, by_token=False)).new_login("there")


def run(login: OutgoingLogin, server: SaslServer, frame: bytes | None = None) -> OutgoingLogin:
    """A login to its end."""
    frame = login.begin() if frame is None else frame
    while frame is not None:
        frame = login.answer(server.take(frame))
    return login


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_other_side_lets_a_node_in_by_each_mechanism(mechanism: str) -> None:
    server = SaslServer(tuple(MECHANISMS), lifetime_ms=60_000)
    login = run(new_login(mechanism), server)
    assert (login.is_complete, login.session_lifetime_ms) == (True, 60_000)
    messages = 1 if mechanism == "PLAIN" else 2
    assert server.keys == [api.API_VERSIONS, api.SASL_HANDSHAKE] + [api.SASL_AUTHENTICATE] * messages
    assert [each.api_version for each in server.asked[1:]] == [1] + [2] * messages


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_again_begins_with_the_handshake(mechanism: str) -> None:
    server = SaslServer(tuple(MECHANISMS))
    first = run(new_login(mechanism), server)
    server.asked.clear()
    again = new_login(mechanism)
    assert run(again, server, again.begin_again(first)).is_complete
    assert server.keys[0] == api.SASL_HANDSHAKE


def test_an_older_server_is_asked_in_its_version_and_gives_no_lifetime() -> None:
    server = SaslServer(lifetime_ms=60_000)
    server.served[api.SASL_AUTHENTICATE] = (0, 0)
    login = run(new_login(), server)
    assert (server.asked[-1].api_version, login.session_lifetime_ms) == (0, 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_reported_in_the_words_of_the_server_and_without_the_password(mechanism: str) -> None:
    with pytest.raises(LoginFailed, match="SASL_AUTHENTICATION_FAILED: 'Authentication failed") as caught:
        run(new_login(mechanism), SaslServer(tuple(MECHANISMS), password="another"))
    assert PASSWORD not in str(caught.value)


def test_a_mechanism_that_is_not_enabled_is_reported_with_those_that_are() -> None:
    with pytest.raises(LoginFailed, match=r"PLAIN is not enabled there .* enabled are: 'SCRAM-SHA-256, SCRAM-SHA-512'"):
        run(new_login(), SaslServer(("SCRAM-SHA-256", "SCRAM-SHA-512")))


@pytest.mark.parametrize("lacking", [api.SASL_HANDSHAKE, api.SASL_AUTHENTICATE])
def test_a_server_without_the_requests_of_a_login_is_named_as_such(lacking: int) -> None:
    server = SaslServer()
    del server.served[lacking]
    with pytest.raises(LoginFailed, match="does not serve"):
        run(new_login(), server)


def test_a_listener_without_login_is_named_as_such() -> None:
    server = SaslServer()
    login = new_login()
    shake = login.answer(server.take(login.begin()))
    assert shake is not None
    with pytest.raises(LoginFailed, match="expects no login now"):
        login.answer(answered(shake, SaslHandshakeResponse(error_code=error_codes.ILLEGAL_SASL_STATE, mechanisms=[])))


def test_a_server_that_only_pretends_to_know_the_password_is_not_believed() -> None:
    server = SaslServer(("SCRAM-SHA-256",))
    login = new_login("SCRAM-SHA-256")
    frame = login.begin()
    for _ in range(3):
        frame = login.answer(server.take(frame)) or b""
    with pytest.raises(LoginFailed, match="does not know the password"):
        login.answer(answered(frame, SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"v=AAAA")))
    assert not login.is_complete


@st.composite
def answers(draw: st.DrawFn, frame: bytes) -> bytes:
    """Any answer to a request: of its own kind, or any bytes."""
    header = decode_request_header(frame)
    code = draw(st.sampled_from([0, 0, 0, 33, 34, 35, 58, -1, 999]))
    if draw(st.integers(0, 9)) == 0:
        return draw(st.one_of(st.binary(max_size=40), st.binary(max_size=40).map(lambda data: frame[4:8] + data)))
    if header.api_key == api.API_VERSIONS:
        return SaslServer().take(frame) if code == 0 else answered(frame, ApiVersionsResponse(error_code=code))
    if header.api_key == api.SASL_HANDSHAKE:
        names = draw(st.lists(st.text(max_size=5), max_size=3))
        return answered(frame, SaslHandshakeResponse(error_code=code, mechanisms=names))
    message = draw(
        st.one_of(st.binary(max_size=60), st.sampled_from([b"e=other-error", b"v=AAAA", b"r=x,s=AAAA,i=4096"]))
    )
    text = draw(st.none() | st.text(max_size=300))
    lifetime_ms = draw(st.sampled_from([0, 1, -1, 2**63 - 1]))
    response = SaslAuthenticateResponse(
        error_code=code, error_message=text, auth_bytes=message, session_lifetime_ms=lifetime_ms
    )
    return answered(frame, response)


@given(st.data(), st.sampled_from(MECHANISMS))
def test_any_answers_end_in_success_or_in_one_line(data: st.DataObject, mechanism: str) -> None:
    login = new_login(mechanism)
    frame: bytes | None = login.begin()
    for _ in range(MOST_MESSAGES + 3):
        assert frame is not None
        assert decode_request_header(frame).api_key in SERVED
        try:
            frame = login.answer(data.draw(answers(frame)))
        except LoginFailed as error:
            text = str(error)
            assert text.isprintable()
            assert len(text) < 1_000
            assert PASSWORD not in text
            assert not login.is_complete
            return
        if frame is None:
            assert login.is_complete
            assert mechanism == "PLAIN", "SCRAM has the server's proof"
            assert login.session_lifetime_ms >= 0
            return
    raise AssertionError("it never ends")


def test_neither_an_account_nor_its_credentials_show_the_password() -> None:
    credentials = Credentials("PLAIN", USER, PASSWORD, by_token=False)
    assert PASSWORD not in repr(credentials) + str(credentials) + repr(account_of(credentials))
