"""Logins before the second port's routes: who is admitted, and how little is learnt by guessing."""

import asyncio
from base64 import b64encode
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.calls.principal import ANONYMOUS
from kpybroker.http import gate as module
from kpybroker.http.gate import MOST_FAILURES_OF_HOST, Gate, credentials_in
from kpybroker.http.request import Refused, Request

OPEN = frozenset({"/live"})


def basic(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


def request(path: str = "/metrics", authorization: str | None = None, host: str = "10.0.0.1") -> Request:
    headers = {} if authorization is None else {"authorization": authorization}
    return Request("GET", path, "", headers, host=host)


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILURE_DELAY_S", 0.0)


class Users:
    """One user, and what was asked about users."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []
        self.gate = Gate(self, OPEN, lambda host, name: self.failed.append((host, name)))

    async def __call__(self, name: str, password: str) -> bool:
        self.asked.append((name, password))
        return (name, password) == ("ann", "a:b ö")


def admitted(users: Users, asked: Request) -> str:
    async def admit() -> str:
        try:
            return str(await users.gate.admit(asked))
        except Refused as refused:
            return f"{refused.status.value} {refused.headers.get('WWW-Authenticate', '')[:5]}".strip()

    return asyncio.run(admit())


@pytest.mark.parametrize(
    ("path", "header", "outcome"),
    [
        ("/metrics", basic("ann", "a:b ö"), "User:ann"),
        ("/metrics", basic("ann", "a:b ö").replace("Basic", "bAsIc"), "User:ann"),
        ("/metrics", basic("ann", "wrong"), "401 Basic"),
        ("/metrics", basic("", "a:b ö"), "401 Basic"),
        ("/metrics", None, "401 Basic"),
        ("/nowhere", None, "401 Basic"),
        ("/metrics", "Bearer abc", "401 Basic"),
        ("/metrics", "Basic !!!", "401 Basic"),
        ("/metrics", "Basic " + b64encode(b"\xff:\xff").decode(), "401 Basic"),
        ("/live", None, str(ANONYMOUS)),
        ("/live", basic("ann", "a:b ö"), "User:ann"),
        ("/live", basic("ann", "wrong"), "401 Basic"),
        ("/live/../metrics", None, "401 Basic"),
    ],
)
def test_a_sender_is_who_it_proves_to_be(path: str, header: str | None, outcome: str) -> None:
    assert admitted(Users(), request(path, header)) == outcome


def test_failures_of_a_host_wait_and_further_ones_are_not_even_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILURE_DELAY_S", 3600.0)
    users = Users()

    async def attack() -> None:
        guesses = [
            asyncio.ensure_future(users.gate.admit(request(authorization=basic("ann", str(number)))))
            for number in range(MOST_FAILURES_OF_HOST)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(users.asked) == MOST_FAILURES_OF_HOST
        with pytest.raises(Refused) as refused:
            await users.gate.admit(request(authorization=basic("ann", "a:b ö")))
        assert refused.value.status == HTTPStatus.TOO_MANY_REQUESTS
        assert len(users.asked) == MOST_FAILURES_OF_HOST
        other = request(authorization=basic("ann", "a:b ö"), host="10.0.0.2")
        assert (await users.gate.admit(other)).name == "ann"
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
        again = request(authorization=basic("ann", "a:b ö"))
        assert (await users.gate.admit(again)).name == "ann"

    asyncio.run(attack())
    assert users.failed == [("10.0.0.1", "ann")] * MOST_FAILURES_OF_HOST


@given(st.text())
def test_any_header_is_read(header: str) -> None:
    found = credentials_in(header)
    assert found is None or found[0]


@given(st.text(min_size=1).filter(lambda text: ":" not in text), st.text())
def test_every_name_and_password_is_read_as_it_was_written(name: str, password: str) -> None:
    assert credentials_in(basic(name, password)) == (name, password)
