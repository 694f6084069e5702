"""Logins by assertions: what is signed, what the provider is asked, and the line for each mistake."""

import json
import random
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from kpybroker.security.oauth.access_tokens import new_token
from kpybroker.security.oauth.assertions import ALGORITHM, FILE, ISSUER, KEY_FILE, PASSPHRASE, PREFIX, TEMPLATE
from kpybroker.security.oauth.fetching import FetchFailed
from kpybroker.security.oauth.token_login import (
    BEARER_RETRIEVER,
    CLIENT_ID,
    CLIENT_SECRET,
    RETRIEVER,
    SCOPE,
    TOKEN_URL,
    read_token_login,
)
from kpybroker.testing.oidc import ASSERTION_TYPE, JWT_BEARER, TOKEN, OidcProvider
from oracle.asked import AskedOracle

AUDIENCE, SUBJECT = f"{PREFIX}claim.aud", f"{PREFIX}claim.sub"
PASSWORD = "the passphrase"
Configs = dict[str, str]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has ``rsa.pem``, ``ec.pem`` and ``encrypted.pem``, the key of RSA behind `PASSWORD`."""
    found = tmp_path_factory.mktemp("assertions")
    rsa = RSAKey.generate_key(2048)
    (found / "rsa.pem").write_bytes(rsa.as_pem(private=True))
    (found / "encrypted.pem").write_bytes(rsa.as_pem(private=True, password=PASSWORD))
    (found / "ec.pem").write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
    (found / "p384.pem").write_bytes(ECKey.generate_key("P-384").as_pem(private=True))
    return found


@pytest.fixture(scope="module")
def provider(directory: Path) -> Iterator[OidcProvider]:
    with OidcProvider(algorithm="ES256") as provider:
        rsa, ec = (directory / f"{name}.pem" for name in ("rsa", "ec"))
        provider.issuers["RS256"] = RSAKey.import_key(rsa.read_bytes()).as_pem(private=False)
        provider.issuers["ES256"] = ECKey.import_key(ec.read_bytes()).as_pem(private=False)
        yield provider


def by_key(provider: OidcProvider, key: Path, algorithm: str = "RS256", **more: str) -> Configs:
    return {
        RETRIEVER: BEARER_RETRIEVER,
        TOKEN_URL: provider.token_url,
        ALGORITHM: algorithm,
        KEY_FILE: str(key),
        ISSUER: algorithm.upper(),
        SUBJECT: "node",
        AUDIENCE: provider.token_url,
        "sasl.login.retry.backoff.max.ms": "200",
        **more,
    }


def parts_of(assertion: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, payload = (json.loads(urlsafe_b64decode(part + "==")) for part in assertion.split(".")[:2])
    return header, payload


@pytest.mark.parametrize(
    ("key", "algorithm", "more"),
    [("rsa.pem", "RS256", {}), ("ec.pem", "es256", {}), ("encrypted.pem", "RS256", {PASSPHRASE: PASSWORD})],
)
def test_a_token_comes_for_a_signed_assertion(
    provider: OidcProvider, directory: Path, key: str, algorithm: str, more: Configs
) -> None:
    login = read_token_login(by_key(provider, directory / key, algorithm, **more).get, {}, None)
    assert new_token(login).principal == "node"
    assert provider.forms[-1].keys() == {"grant_type", "assertion"}
    assert provider.forms[-1]["grant_type"] == JWT_BEARER
    assert PASSWORD not in repr(login)


def test_each_token_is_asked_for_with_an_assertion_of_its_own(provider: OidcProvider, directory: Path) -> None:
    more = {f"{PREFIX}claim.jti.include": "true", f"{PREFIX}claim.exp.seconds": "20", f"{PREFIX}claim.nbf.seconds": "5"}
    login = read_token_login(by_key(provider, directory / "rsa.pem", **more, **{SCOPE: "a b"}).get, {}, None)
    for _ in range(2):
        new_token(login)
    (_, first), (_, second) = (parts_of(form["assertion"]) for form in provider.forms[-2:])
    assert first["jti"] != second["jti"]
    assert (first["exp"] - first["iat"], first["iat"] - first["nbf"]) == (20, 5)
    assert provider.forms[-1]["scope"] == "a b"


def test_a_key_that_is_replaced_counts_for_the_next_token(provider: OidcProvider, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    login = read_token_login(by_key(provider, file).get, {}, None)
    before, after = RSAKey.generate_key(2048), RSAKey.generate_key(2048)
    was = provider.issuers["RS256"]
    try:
        for key in (before, after):
            file.write_bytes(key.as_pem(private=True))
            provider.issuers["RS256"] = key.as_pem(private=False)
            assert new_token(login).principal == "node"
        provider.issuers["RS256"] = before.as_pem(private=False)
        with pytest.raises(FetchFailed, match=r"status 400.*invalid_grant") as caught:
            new_token(login)
    finally:
        provider.issuers["RS256"] = was
    assert provider.forms[-1]["assertion"] not in str(caught.value)


def test_an_assertion_may_come_from_a_file(provider: OidcProvider, directory: Path, tmp_path: Path) -> None:
    new_token(read_token_login(by_key(provider, directory / "rsa.pem").get, {}, None))
    file = tmp_path / "assertion"
    file.write_text(provider.forms[-1]["assertion"] + "\n")
    configured = {RETRIEVER: BEARER_RETRIEVER, TOKEN_URL: provider.token_url, FILE: str(file)}
    assert new_token(read_token_login(configured.get, {}, None)).principal == "node"


def test_an_assertion_takes_the_place_of_a_clients_secret(provider: OidcProvider, directory: Path) -> None:
    configured = by_key(provider, directory / "rsa.pem", **{CLIENT_ID: "me", CLIENT_SECRET: "unused"})
    del configured[RETRIEVER]
    assert new_token(read_token_login(configured.get, {}, None)).principal == "node"
    form = provider.forms[-1]
    assert (form["grant_type"], form["client_assertion_type"], form["client_id"]) == (
        "client_credentials",
        ASSERTION_TYPE,
        "me",
    )


def test_times_count_before_the_template_and_the_template_before_configs(
    provider: OidcProvider, directory: Path, tmp_path: Path
) -> None:
    template = tmp_path / "template.json"
    header = {"kid": "mine", "alg": "none", "typ": "other"}
    payload = {"sub": "of the template", "exp": 1, "roles": ["a"]}
    template.write_text(json.dumps({"header": header, "payload": payload}))
    new_token(read_token_login(by_key(provider, directory / "rsa.pem", **{TEMPLATE: str(template)}).get, {}, None))
    found, claims = parts_of(provider.forms[-1]["assertion"])
    assert found == {"kid": "mine", "alg": "RS256", "typ": "JWT"}
    assert (claims["sub"], claims["roles"], claims["exp"] > 1) == ("of the template", ["a"], True)


def written(path: Path, content: str) -> str:
    path.write_text(content)
    return str(path)


def test_a_file_that_cannot_be_used_is_named_in_one_line(
    provider: OidcProvider, directory: Path, tmp_path: Path
) -> None:
    rsa, bad = str(directory / "rsa.pem"), tmp_path / "bad"
    mistakes: list[tuple[Configs, str]] = [
        ({KEY_FILE: "/missing"}, f"{KEY_FILE}: /missing: No such file or directory"),
        ({KEY_FILE: str(tmp_path)}, "Is a directory"),
        ({KEY_FILE: written(bad, "no key")}, "holds no private key in PEM"),
        ({KEY_FILE: written(tmp_path / "damaged", "-----BEGIN PRIVATE KEY-----\nxx\n")}, "cannot be read"),
        ({KEY_FILE: str(directory / "encrypted.pem")}, f"cannot be read; compare {PASSPHRASE}"),
        ({KEY_FILE: str(directory / "encrypted.pem"), PASSPHRASE: "hunter2"}, "cannot be read"),
        ({KEY_FILE: rsa, PASSPHRASE: "hunter2"}, "cannot be read"),
        ({KEY_FILE: str(directory / "ec.pem")}, "is no key of RSA"),
        ({ALGORITHM: "ES256"}, "is no key on the curve P-256"),
        ({KEY_FILE: str(directory / "p384.pem"), ALGORITHM: "ES256"}, "is no key on the curve P-256"),
        ({TEMPLATE: str(bad)}, "is not JSON of the form"),
        ({TEMPLATE: written(tmp_path / "list", "[]")}, "is not JSON of the form"),
        ({TEMPLATE: written(tmp_path / "odd", '{"header": 5}')}, "is not JSON of the form"),
        ({TEMPLATE: written(tmp_path / "crit", '{"header": {"crit": 5}}')}, "has a header that cannot be signed"),
        ({FILE: str(bad)}, "holds no JWT of three parts"),
    ]
    asked = provider.requests.count(TOKEN)
    for more, words in mistakes:
        login = read_token_login({**by_key(provider, Path(rsa)), **more}.get, {}, None)
        with pytest.raises(FetchFailed, match=r"^[^\n]*$") as caught:
            new_token(login)
        assert words in str(caught.value)
        assert caught.value.is_final
        assert "hunter2" not in str(caught.value)
    assert provider.requests.count(TOKEN) == asked


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({KEY_FILE: ""}, f"{KEY_FILE} is missing"),
        ({ALGORITHM: "HS256"}, "known are RS256 and ES256"),
        ({f"{PREFIX}claim.exp.seconds": "-1"}, "not a number of seconds from 0 to 86400"),
        ({f"{PREFIX}claim.nbf.seconds": "3601"}, "not a number of seconds from 0 to 3600"),
        ({TOKEN_URL: "file:///x"}, "needs an https URL"),
    ],
)
def test_configs_that_cannot_be_used_are_refused_in_one_line(more: Configs, words: str) -> None:
    configured = {RETRIEVER: BEARER_RETRIEVER, TOKEN_URL: "https://x/token", KEY_FILE: "/key", **more}
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        read_token_login(configured.get, {}, None)
    assert words in str(caught.value)


class Choices:
    """Random configs of assertions."""

    def __init__(self, rng: random.Random, provider: OidcProvider, directory: Path) -> None:
        self._rng = rng
        self._provider = provider
        self._directory = directory
        self._template = directory / "template.json"

    def configs(self) -> Configs:
        rng = self._rng
        algorithm, key = rng.choice([("RS256", "rsa.pem"), ("ES256", "ec.pem")])
        found = by_key(self._provider, self._directory / key, algorithm)
        more = {
            ISSUER: ("", "nobody", " RS256 "),
            SUBJECT: ("", "ünï"),
            AUDIENCE: ("", self._provider.issuer, "other"),
            SCOPE: ("a b", " ü*~ ", "a&b=c"),
            CLIENT_ID: ("me", "a b&c"),
            f"{PREFIX}claim.exp.seconds": ("0", "60", "86400"),
            f"{PREFIX}claim.nbf.seconds": ("0", "3600"),
            f"{PREFIX}claim.jti.include": ("true", "false"),
            KEY_FILE: (str(self._directory / "rsa.pem"), "/missing"),
        }
        found.update({name: rng.choice(values) for name, values in more.items() if rng.random() < 0.2})
        if rng.random() < 0.4:
            header = rng.choice([{}, {"kid": "k"}, {"alg": "none", "typ": "x"}])
            payload = rng.choice([{}, {"sub": "t", "iss": "ES256"}, {"exp": 1, "roles": ["a", {"b": None}]}])
            self._template.write_text(json.dumps({"header": header, "payload": payload}))
            found[TEMPLATE] = str(self._template)
        return {name: value for name, value in found.items() if value}


def comparable(form: Mapping[str, str]) -> dict[str, Any]:
    """A form with what its assertion says. Times are related to ``iat``."""
    found: dict[str, Any] = dict(form)
    for name in ("assertion", "client_assertion"):
        if name in form:
            header, claims = parts_of(form[name])
            times = {key: claims[key] - claims["iat"] for key in ("exp", "nbf")}
            found[name] = (header, {**claims, **times, "iat": 0, **({"jti": "new"} if "jti" in claims else {})})
    return found


@pytest.mark.java
def test_kafkas_own_classes_ask_the_same_of_the_provider(
    provider: OidcProvider, directory: Path, request: pytest.FixtureRequest
) -> None:
    kafka = AskedOracle("AssertionOracle.java", "AssertionOracle")
    request.addfinalizer(kafka.close)
    choices = Choices(random.Random(int(request.config.getoption("--seed", 1))), provider, directory)
    granted = 0
    for _ in range(40):
        configured = choices.configs()
        is_bearer = choices._rng.random() < 0.6
        del provider.forms[:]
        answer = kafka.ask_for_line(
            "bearer" if is_bearer else "credentials",
            *(f"{name}={value}" for name, value in configured.items() if name != RETRIEVER),
        )
        theirs = [comparable(form) for form in provider.forms]
        del provider.forms[:]
        if not is_bearer:
            del configured[RETRIEVER]
        try:
            ours = f"token\t{new_token(read_token_login(configured.get, {}, None)).principal}"
        except (ValueError, FetchFailed):
            ours = "failed"
        assert [comparable(form) for form in provider.forms] == theirs, configured
        assert ours.split("\t")[0] == answer.split("\t")[0], (configured, ours, answer)
        granted += ours != "failed"
    assert granted > 5
