"""Logins before the second port's routes: who is admitted, and how little is learnt by guessing."""

import asyncio
from base64 import b64encode
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.runtime.http.gate import FAILURE_DELAY_S, Gate, OpenGate, credentials_in
from kpybroker.runtime.http.request import HttpRefused, Request

OPEN = frozenset({"/live"})


def basic(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


def request(path: str = "/metrics", authorization: str | None = None, host: str = "10.0.0.1") -> Request:
    headers = {} if authorization is None else {"authorization": authorization}
    return Request("GET", path, "", headers, host=host)


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
        except HttpRefused as refused:
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
def test_a_sender_is_identified_by_its_authenticated_principal(path: str, header: str | None, outcome: str) -> None:
    assert admitted(Users(), request(path, header)) == outcome


def test_a_right_password_is_admitted_however_many_wrong_ones_its_host_has_sent() -> None:
    users = Users()

    async def attack() -> None:
        for number in range(100):
            with pytest.raises(HttpRefused) as refused:
                await users.gate.admit(request(authorization=basic("ann", str(number))))
            assert refused.value.status == HTTPStatus.UNAUTHORIZED
        assert (await users.gate.admit(request(authorization=basic("ann", "a:b ö")))).name == "ann"

    asyncio.run(attack())
    assert users.failed == [("10.0.0.1", "ann")] * 100


def test_the_answer_to_a_wrong_password_is_late() -> None:
    async def guess() -> float:
        with pytest.raises(HttpRefused) as refused:
            await Users().gate.admit(request(authorization=basic("ann", "guess")))
        return refused.value.delay_s

    assert asyncio.run(guess()) == FAILURE_DELAY_S > 0


@pytest.mark.parametrize("path", ["/", "/metrics", "/leases", "/api/topics", "/static/console.css", "/nowhere"])
def test_without_users_all_but_the_open_paths_are_served_on_loopback_only(path: str) -> None:
    def admitted_on(*, is_loopback: bool, path: str) -> int:
        try:
            asyncio.run(OpenGate(OPEN, is_loopback=is_loopback).admit(request(path)))
        except HttpRefused as refused:
            return refused.status.value
        return 200

    assert admitted_on(is_loopback=True, path=path) == 200
    assert admitted_on(is_loopback=False, path=path) == 403
    assert admitted_on(is_loopback=False, path="/live") == 200


@given(st.text())
def test_any_header_is_read(header: str) -> None:
    found = credentials_in(header)
    assert found is None or found[0]


@given(st.text(min_size=1).filter(lambda text: ":" not in text), st.text())
def test_every_name_and_password_is_read_as_it_was_written(name: str, password: str) -> None:
    assert credentials_in(basic(name, password)) == (name, password)
