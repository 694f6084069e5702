"""The state machine of a login and its session, beside a model of Kafka's rules."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kpybroker.machines.sasl.exchange import AuthenticationFailed, InvalidCredentials
from kpybroker.machines.sasl.login import (
    REAUTHENTICATES_EVERY_MS,
    Login,
    LoginAnswer,
    LoginState,
    LoginTerms,
    Now,
    Verdict,
)
from kpywire import api
from kpywire.error_codes import NONE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM

API_KEYS = [*api.API_KEYS, -1, 999]
LOGIN_KEYS = (api.SASL_HANDSHAKE, api.SASL_AUTHENTICATE)


class Words:
    """A mechanism of two messages: any first one, then the name of the user; "nobody" is refused."""

    token_authenticated = False

    def __init__(self, expires_ms: int | None = None) -> None:
        self.is_complete = False
        self.authorization_id = ""
        self.expires_ms = expires_ms
        self._has_begun = False

    def respond(self, message: bytes) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            return b"who"
        if message == b"nobody":
            raise InvalidCredentials("WORDS", "user 'nobody': no such user")
        if message == b"said":
            raise AuthenticationFailed("this is said to the client")
        self.authorization_id = message.decode()
        self.is_complete = True
        return b"welcome"


def login(reauth_ms: int = 0, expires_ms: int | None = None) -> Login:
    return Login(LoginTerms({"WORDS": lambda: Words(expires_ms), "OTHER": Words}, {"WORDS": reauth_ms}))


def logged_in(reauth_ms: int = 0, expires_ms: int | None = None, now: Now = Now(0, 0)) -> tuple[Login, LoginAnswer]:  # noqa: B008
    made = login(reauth_ms, expires_ms)
    made.handshake(1, "WORDS", now.monotonic_ms)
    made.authenticate(b"", now)
    return made, made.authenticate(b"alice", now)


def again(made: Login, user: bytes, now: Now) -> LoginAnswer:
    assert made.judge(api.SASL_HANDSHAKE, now.monotonic_ms) is Verdict.HANDSHAKE
    assert made.handshake(1, "WORDS", now.monotonic_ms) == LoginAnswer()
    assert made.authenticate(b"", now) == LoginAnswer(token=b"who")
    return made.authenticate(user, now)


@pytest.mark.parametrize("version", [0, 1])
def test_a_login_takes_a_handshake_and_the_messages_of_the_mechanism(version: int) -> None:
    made = login()
    assert made.judge(api.API_VERSIONS, 0) is Verdict.SERVE
    assert made.judge(api.SASL_HANDSHAKE, 0) is Verdict.HANDSHAKE
    assert made.handshake(version, "WORDS", 0) == LoginAnswer()
    assert made.state is (LoginState.CHOSEN if version else LoginState.RAW)
    assert made.authenticate(b"", Now(0, 0)) == LoginAnswer(token=b"who")
    assert made.authenticate(b"alice", Now(0, 0)) == LoginAnswer(token=b"welcome")
    assert (made.state, made.user, made.has_session) == (LoginState.DONE, "alice", False)


def test_a_mechanism_that_is_not_enabled_ends_the_login() -> None:
    made = login()
    answer = made.handshake(1, "GSSAPI", 0)
    assert answer.error_code == UNSUPPORTED_SASL_MECHANISM
    assert "WORDS, OTHER" in answer.failure
    assert made.state is LoginState.ENDED


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"nobody", "Authentication failed during authentication due to invalid credentials with SASL mechanism WORDS"),
        (b"said", "this is said to the client"),
    ],
)
def test_a_client_learns_no_more_than_the_mechanism_tells_it(message: bytes, text: str) -> None:
    made = login()
    made.handshake(1, "WORDS", 0)
    made.authenticate(b"", Now(0, 0))
    answer = made.authenticate(message, Now(0, 0))
    assert (answer.error_code, answer.text, made.state) == (SASL_AUTHENTICATION_FAILED, text, LoginState.ENDED)
    assert answer.failure


@pytest.mark.parametrize(
    ("reauth_ms", "expires_ms", "lifetime_ms", "ends_ms"),
    [
        (0, None, 0, None),
        (5_000, None, 5_000, 15_000),
        (0, 107_000, 7_000, 17_000),
        (5_000, 107_000, 5_000, 15_000),
        (9_000, 107_000, 7_000, 17_000),
        (5_000, 100_000, 0, 10_000),
        (0, 1, 0, 10_000),
    ],
)
def test_a_session_ends_with_the_limit_or_the_credential(
    reauth_ms: int, expires_ms: int | None, lifetime_ms: int, ends_ms: int | None
) -> None:
    made, answer = logged_in(reauth_ms, expires_ms, Now(10_000, 100_000))
    assert answer.lifetime_ms == lifetime_ms
    assert made.has_session is (ends_ms is not None)
    if ends_ms is None:
        assert made.judge(api.METADATA, 10**12) is Verdict.SERVE
    else:
        assert ends_ms == 10_000 or made.judge(api.METADATA, ends_ms - 1) is Verdict.SERVE
        assert made.judge(api.METADATA, ends_ms) is Verdict.EXPIRED


def test_a_limit_of_a_millisecond_is_one() -> None:
    made, answer = logged_in(1)
    assert answer.lifetime_ms == 1
    assert (made.judge(api.METADATA, 0), made.judge(api.METADATA, 1)) == (Verdict.SERVE, Verdict.EXPIRED)


def test_a_session_of_a_new_credential_has_that_ones_end() -> None:
    credentials = [Words(10_000), Words(None), Words(30_000)]
    made = Login(LoginTerms({"WORDS": lambda: credentials.pop(0)}, {}))
    made.handshake(1, "WORDS", 0)
    made.authenticate(b"", Now(0, 0))
    assert made.authenticate(b"alice", Now(0, 0)).lifetime_ms == 10_000
    assert again(made, b"alice", Now(5_000, 5_000)).lifetime_ms == 0
    assert not made.has_session
    assert made.judge(api.METADATA, 10**12) is Verdict.SERVE


def test_a_login_has_no_reason_to_be_closed_at_first_and_then_names_it() -> None:
    made = login()
    assert (made.reason, made.has_session, made.token_authenticated) == ("", False, False)
    assert made.judge(api.METADATA, 0) is Verdict.CLOSE
    assert made.reason == "Metadata is its first request, but it has to log in first"
    assert made.judge(api.METADATA, 0) is Verdict.CLOSE
    assert made.reason == "its login has failed"


@pytest.mark.parametrize(("late_ms", "error_code"), [(-1, NONE), (0, SASL_AUTHENTICATION_FAILED), (5_000, 58)])
def test_a_delegation_token_that_has_expired_does_not_log_in(
    monkeypatch: pytest.MonkeyPatch, late_ms: int, error_code: int
) -> None:
    monkeypatch.setattr(Words, "token_authenticated", True)
    made, answer = logged_in(expires_ms=100_000, now=Now(10_000, 100_000 + late_ms))
    assert (answer.error_code, answer.lifetime_ms) == (error_code, 1 if late_ms < 0 else 0)
    assert made.state is (LoginState.DONE if late_ms < 0 else LoginState.ENDED)
    if late_ms >= 0:
        assert f"'alice' expired {late_ms} ms ago" in answer.failure
        assert "expired" not in answer.text, "the client learns what it learns about a token that was removed"
        assert made.judge(api.METADATA, 10_000) is Verdict.CLOSE


def test_a_reauthentication_begins_the_next_session_even_after_the_end_of_the_last() -> None:
    made, _ = logged_in(5_000)
    assert made.judge(api.METADATA, 60_000) is Verdict.EXPIRED
    answer = again(made, b"alice", Now(60_000, 0))
    assert (answer.error_code, answer.lifetime_ms) == (NONE, 5_000)
    assert made.judge(api.METADATA, 64_999) is Verdict.SERVE


def test_a_reauthentication_cannot_change_the_principal() -> None:
    made, _ = logged_in(5_000)
    answer = again(made, b"admin", Now(1, 1))
    assert answer.text == "Cannot change principals during re-authentication from User.alice: User.admin"
    assert (answer.error_code, made.state) == (SASL_AUTHENTICATION_FAILED, LoginState.ENDED)


def test_a_failed_reauthentication_says_so() -> None:
    made, _ = logged_in(5_000)
    text = "Authentication failed during re-authentication due to invalid credentials with SASL mechanism WORDS"
    assert again(made, b"nobody", Now(1, 1)).text == text


@pytest.mark.parametrize("api_key", API_KEYS)
def test_a_reauthentication_cannot_change_the_mechanism(api_key: int) -> None:
    made, _ = logged_in(5_000)
    assert made.handshake(1, "OTHER", 0) == LoginAnswer()
    assert made.judge(api_key, 0) is Verdict.CLOSE
    assert "from WORDS to OTHER" in made.reason


def test_a_second_reauthentication_has_to_wait() -> None:
    made, _ = logged_in(5_000)
    again(made, b"alice", Now(100, 0))
    assert made.judge(api.SASL_HANDSHAKE, 99 + REAUTHENTICATES_EVERY_MS) is Verdict.SERVE
    assert made.judge(api.SASL_HANDSHAKE, 100 + REAUTHENTICATES_EVERY_MS) is Verdict.HANDSHAKE


def test_without_a_limit_no_reauthentication_begins() -> None:
    made, _ = logged_in()
    assert made.judge(api.SASL_HANDSHAKE, 10**9) is Verdict.SERVE


class AnyOrder(RuleBasedStateMachine):
    """Any requests at any time: what a client may do next depends on what it has done, as in Kafka."""

    def __init__(self) -> None:
        super().__init__()
        self.login = login(3_000)
        self.now_ms = 0
        self.sessions_end_ms: float | None = None

    @rule(
        api_key=st.sampled_from(API_KEYS) | st.sampled_from((*LOGIN_KEYS, api.API_VERSIONS)),
        version=st.integers(0, 1),
        mechanism=st.sampled_from(["WORDS", "WORDS", "WORDS", "OTHER", "GSSAPI"]),
        token=st.sampled_from([b"alice", b"alice", b"bob", b"nobody"]),
    )
    @precondition(lambda self: self.login.state is not LoginState.RAW)
    def request(self, api_key: int, version: int, mechanism: str, token: bytes) -> None:
        before, known = self.login.state, self.login.user
        verdict = self.login.judge(api_key, self.now_ms)
        if verdict is Verdict.SERVE:
            assert before is LoginState.DONE or (before is LoginState.FIRST and api_key == api.API_VERSIONS)
            if before is LoginState.DONE:
                assert self.sessions_end_ms is not None
                assert self.now_ms < self.sessions_end_ms
        elif verdict is Verdict.HANDSHAKE:
            assert api_key == api.SASL_HANDSHAKE
            assert before in (LoginState.FIRST, LoginState.DONE)
            self.login.handshake(version, mechanism, self.now_ms)
            assert self.login.state is not LoginState.DONE
        elif verdict is Verdict.AUTHENTICATE:
            assert (api_key, before) == (api.SASL_AUTHENTICATE, LoginState.CHOSEN)
            self.say(token, known)
        elif verdict is Verdict.REFUSE:
            assert before is LoginState.CHOSEN
            assert api_key != api.SASL_AUTHENTICATE
            self.login.refuse(api_key)
            assert self.login.state is LoginState.ENDED
        elif verdict is Verdict.EXPIRED:
            assert before is LoginState.DONE
            assert self.sessions_end_ms is not None
            assert self.now_ms >= self.sessions_end_ms
        else:
            assert verdict is Verdict.CLOSE
            assert self.login.state is LoginState.ENDED
            assert self.login.reason

    @rule(token=st.sampled_from([b"alice", b"alice", b"bob", b"nobody"]))
    @precondition(lambda self: self.login.state is LoginState.RAW)
    def raw(self, token: bytes) -> None:
        self.say(token, self.login.user)

    def say(self, token: bytes, known: str) -> None:
        answer = self.login.authenticate(token, Now(self.now_ms, self.now_ms))
        assert (self.login.state is LoginState.ENDED) is bool(answer.failure)
        if self.login.state is LoginState.DONE:
            assert known in ("", self.login.user)
            self.sessions_end_ms = self.now_ms + 3_000 if self.login.mechanism == "WORDS" else float("inf")
        assert self.login.user in ((known,) if known else ("", "alice", "bob"))

    @rule(ms=st.sampled_from([1, 400, 1_000, 3_000]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @invariant()
    def a_login_that_has_failed_serves_nothing(self) -> None:
        if self.login.state is LoginState.ENDED:
            assert all(self.login.judge(key, self.now_ms) is Verdict.CLOSE for key in API_KEYS)


TestAnyOrder = AnyOrder.TestCase


@pytest.mark.parametrize("api_key", API_KEYS)
def test_before_the_login_only_versions_and_handshakes_are_served(api_key: int) -> None:
    expected = {api.API_VERSIONS: Verdict.SERVE, api.SASL_HANDSHAKE: Verdict.HANDSHAKE}
    assert login().judge(api_key, 0) is expected.get(api_key, Verdict.CLOSE)
