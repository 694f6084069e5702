"""Fetching over HTTP: what is followed, what is bounded, and what is said of a failure."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kpybroker.security.oauth import fetching
from kpybroker.security.oauth.access_tokens import context_of
from kpybroker.security.oauth.endpoints import ALLOWED_URLS, BadUrl, check_allowed, parse_endpoint
from kpybroker.security.oauth.fetching import LARGEST_BYTES, AnswerTimeouts, FetchFailed, fetch, retrying
from kpybroker.testing.oidc import JWKS, OidcProvider
from support.certificates import Authority

NAME = "sasl.oauthbearer.jwks.endpoint.url"
SOON = AnswerTimeouts(500, 300)


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider(algorithm="ES256") as provider:
        yield provider


def get(url: str, limits: AnswerTimeouts = AnswerTimeouts()) -> bytes:  # noqa: B008 - a tuple of constants
    return fetch(parse_endpoint(NAME, url), ssl.create_default_context, limits=limits)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://keys.example/jwks", "http is possible to this machine only"),
        ("http://127.0.0.1.evil.example/jwks", "http is possible to this machine only"),
        ("ftp://127.0.0.1/jwks", "only https, http and file URLs"),
        ("jwks", "only https, http and file URLs"),
        ("https://", "only https, http and file URLs"),
        ("https://me:secret@keys.example/jwks", "must hold neither a user"),
        ("https://keys.example/jwks\nX: y", "white space or control characters"),
        ("https://keys.example:99999/jwks", "not a URL"),
        ("file://server/keys.json", "a file is written as file:///path"),
    ],
)
def test_a_url_that_is_not_accepted_is_named_with_its_config(url: str, words: str) -> None:
    with pytest.raises(BadUrl, match=f"^{NAME}") as caught:
        parse_endpoint(NAME, url)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_url_has_to_be_in_the_list_as_it_is() -> None:
    endpoint = parse_endpoint(NAME, "https://keys.example/jwks")
    check_allowed(NAME, endpoint, ("https://other", "https://keys.example/jwks"))
    with pytest.raises(BadUrl, match=f"add this URL to {ALLOWED_URLS}"):
        check_allowed(NAME, endpoint, ("https://keys.example",))


def test_redirects_are_followed_on_the_same_host_only(provider: OidcProvider) -> None:
    provider.redirects["/moved"] = JWKS
    assert b"keys" in get(f"{provider.issuer}/moved")
    with OidcProvider(algorithm="ES256") as other:
        for place in (other.jwks_url, provider.jwks_url.replace("127.0.0.1", "localhost"), "file:///etc/passwd"):
            provider.redirects["/moved"] = place
            with pytest.raises(FetchFailed, match="redirect") as caught:
                get(f"{provider.issuer}/moved")
            assert caught.value.is_final
        assert not other.requests
    provider.redirects["/moved"] = "/moved"
    with pytest.raises(FetchFailed, match="redirects more than 3 times"):
        get(f"{provider.issuer}/moved")


def test_a_post_is_not_redirected(provider: OidcProvider) -> None:
    provider.redirects["/token"] = JWKS
    with pytest.raises(FetchFailed, match="answers with status 302"):
        fetch(parse_endpoint(NAME, provider.token_url), ssl.create_default_context, body=b"secret")
    assert provider.requests == ["/token"]


class Server:
    """A server that does what a test says, for one connection."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._serve = serve
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/"

    def _run(self) -> None:
        try:
            with self._listening.accept()[0] as accepted:
                self._serve(accepted)
        except OSError:
            return

    def close(self) -> None:
        self._listening.close()
        self._thread.join(5)


def drip(accepted: socket.socket) -> None:
    """A byte now and then, without end."""
    accepted.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(1_000):
        accepted.sendall(b"x")
        time.sleep(0.02)


def drip_body(accepted: socket.socket) -> None:
    accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    drip(accepted)


def never(accepted: socket.socket) -> None:
    b"".join(iter(lambda: accepted.recv(1 << 16), b""))


def flood(accepted: socket.socket) -> None:
    accepted.recv(1 << 16)
    accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(2 * LARGEST_BYTES >> 16):
        accepted.sendall(bytes(1 << 16))


def garbage(accepted: socket.socket) -> None:
    accepted.sendall(b"\x15\x03\x03\x00\x02\x02\x50")


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (drip, "no answer in time"),
        (drip_body, "no answer in time"),
        (never, "no answer in time"),
        (flood, "larger than 1048576 bytes"),
        (garbage, "http://127.0.0.1"),
    ],
)
def test_an_answer_is_bounded_in_time_and_size(serve: Callable[[socket.socket], None], words: str) -> None:
    server = Server(serve)
    try:
        with pytest.raises(FetchFailed, match=words):
            get(server.url, SOON if serve is not flood else AnswerTimeouts())
    finally:
        server.close()


def test_a_tls_handshake_is_bounded_too() -> None:
    server = Server(never)
    try:
        with pytest.raises(FetchFailed, match="no answer in time"):
            get(server.url.replace("http", "https"), SOON)
    finally:
        server.close()


def test_a_server_must_have_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    authority = Authority()
    keys = authority.issue().save_pem(tmp_path / "server.pem")
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.save(tmp_path / "ca.pem"))}
    with OidcProvider(algorithm="ES256", certificate=keys) as provider:
        endpoint = parse_endpoint(NAME, provider.jwks_url)
        assert b"keys" in fetch(endpoint, lambda: context_of(trusted))
        with pytest.raises(FetchFailed, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            fetch(endpoint, ssl.create_default_context)
        with pytest.raises(FetchFailed, match="the ssl options of the JAAS config"):
            fetch(endpoint, lambda: context_of({**trusted, "ssl.truststore.location": "/none"}))


def test_files_are_read_and_bounded(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(bytes(LARGEST_BYTES + 1))
    with pytest.raises(FetchFailed, match="larger than"):
        get(f"file://{file}")
    file.write_bytes(b"{}")
    assert get(f"file://{file}") == b"{}"
    with pytest.raises(FetchFailed, match="No such file"):
        get(f"file://{file}.old")


def test_a_failure_is_tried_again_with_growing_pauses_and_some_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    pauses: list[float] = []
    monkeypatch.setattr(fetching.time, "monotonic", lambda: now_s)

    def sleep(pause_s: float) -> None:
        nonlocal now_s
        pauses.append(round(pause_s, 3))
        now_s += pause_s

    def fail(*, is_final: bool) -> Callable[[], None]:
        def work() -> None:
            raise FetchFailed(f"failure {len(pauses)}", is_final=is_final)

        return work

    with pytest.raises(FetchFailed, match="failure 0"):
        retrying(fail(is_final=False), 100, 1_000, sleep)
    assert pauses == [0.1, 0.2, 0.4, 0.3]
    pauses.clear()
    with pytest.raises(FetchFailed, match="failure 0"):
        retrying(fail(is_final=True), 100, 1_000, sleep)
    assert pauses == []
