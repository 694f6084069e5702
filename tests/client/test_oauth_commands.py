"""Commands that log in by OAUTHBEARER, at a broker of our own: where their token comes from, and the line for each
mistake."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result
from joserfc.jwk import ECKey

from kpybroker.cli import main
from kpybroker.client.security import security_of
from kpybroker.machines.sasl.jaas import OAUTHBEARER_MODULE
from kpybroker.security.oauth import assertions, token_login
from kpybroker.testing import Broker, OidcProvider
from kpybroker.testing.oidc import LISTENER

SECRET = "hunter2"
LISTED = "\nt "


class Place(NamedTuple):
    """A broker, its provider, and a directory."""

    provider: OidcProvider
    server: str
    directory: Path

    def run(self, *words: str, stdin: str = "", **properties: str) -> Result:
        file = self.directory / "client.properties"
        reported = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **properties}
        file.write_text("".join(f"{key}={value}\n" for key, value in reported.items()))
        found = CliRunner().invoke(main, [*words, "-b", self.server, "--command-config", str(file)], input=stdin)
        assert SECRET not in found.output
        assert "eyJ" not in found.output
        return found

    @property
    def credentials(self) -> dict[str, str]:
        return {
            token_login.TOKEN_URL: self.provider.token_url,
            token_login.CLIENT_ID: "me",
            token_login.CLIENT_SECRET: SECRET,
            "sasl.login.retry.backoff.max.ms": "300",
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with (
        OidcProvider(algorithm="ES256", clients={"me": SECRET}) as provider,
        Broker(provider.broker_config()) as broker,
    ):
        broker.create_topic("t")
        yield Place(provider, broker.servers_of(LISTENER), tmp_path_factory.mktemp("client"))


def test_commands_log_in_by_client_credentials(place: Place) -> None:
    listed = place.run("topics", "list", **place.credentials)
    assert (listed.exit_code, LISTED in listed.output) == (0, True)
    assert place.run("produce", "t", stdin="x\n", **place.credentials).exit_code == 0
    read = place.run("consume", "t", "-c", "1", "-o", "beginning", **place.credentials)
    assert (read.exit_code, read.output) == (0, "x\n")


def test_librdkafkas_names_are_understood(place: Place) -> None:
    names = {
        token_login.CLIENT_ID: "sasl.oauthbearer.client.id",
        token_login.CLIENT_SECRET: "sasl.oauthbearer.client.secret",
    }
    properties = {names.get(name, name): value for name, value in place.credentials.items()}
    listed = place.run("topics", "list", **properties, **{"sasl.oauthbearer.method": "oidc"})
    assert LISTED in listed.output


def test_commands_log_in_by_a_signed_assertion(place: Place) -> None:
    key, file = ECKey.generate_key("P-256"), place.directory / "assertions.pem"
    file.write_bytes(key.as_pem(private=True, password=SECRET))
    place.provider.issuers["me"] = key.as_pem(private=False)
    properties = {
        token_login.RETRIEVER: token_login.BEARER_RETRIEVER,
        token_login.TOKEN_URL: place.provider.token_url,
        assertions.KEY_FILE: str(file),
        assertions.PASSPHRASE: SECRET,
        assertions.ALGORITHM: "ES256",
        **{f"{assertions.PREFIX}claim.{name}": "me" for name in ("iss", "sub")},
        f"{assertions.PREFIX}claim.aud": place.provider.issuer,
        f"{assertions.PREFIX}claim.jti.include": "true",
        f"{assertions.PREFIX}claim.exp.seconds": "60",
    }
    listed = place.run("topics", "list", **properties)
    assert (listed.exit_code, LISTED in listed.output) == (0, True)
    place.provider.issuers.clear()
    refused = place.run("topics", "list", **properties)
    assert (refused.exit_code, "invalid_grant" in refused.output) == (1, True)


def test_a_token_may_be_in_a_file(place: Place) -> None:
    file = place.directory / "token"
    file.write_text(place.provider.token("alice"))
    assert LISTED in place.run("topics", "list", **{token_login.TOKEN_URL: f"file://{file}"}).output


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({token_login.CLIENT_SECRET: "wrong"}, 1, "no token to log in with: http://127.0.0.1"),
        ({token_login.CLIENT_SECRET: "wrong"}, 1, "answers with status 401"),
        ({token_login.TOKEN_URL: "http://127.0.0.1:1/token"}, 1, "Connection refused"),
        ({token_login.TOKEN_URL: "http://keys.example/token"}, 2, "use https"),
        ({token_login.TOKEN_URL: ""}, 2, "token.endpoint.url is a text that is not empty"),
        ({token_login.CLIENT_ID: ""}, 2, "client.id is a text that is not empty"),
        ({token_login.HANDLER: "org.example.Mine"}, 2, "is a Java class"),
        ({"sasl.oauthbearer.method": "azure"}, 2, "use oidc"),
        ({"sasl.mechanism": "PLAIN"}, 2, "needs a user"),
    ],
)
def test_a_mistake_is_one_line(place: Place, changes: dict[str, str], code: int, words: str) -> None:
    failed = place.run("topics", "list", **{**place.credentials, **changes})
    assert (failed.exit_code, words in failed.output) == (code, True), failed.output
    assert "Traceback" not in failed.output


def test_a_token_that_the_broker_refuses_is_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place.provider, "audience", "another")
    for words, stdin in ((("topics", "list"), ""), (("produce", "t"), "x\n")):
        failed = place.run(*words, stdin=stdin, **place.credentials)
        assert failed.exit_code == 1
        assert "refuses the login of client 'me' by OAUTHBEARER" in failed.output
        assert "check the reason in the log of the broker" in failed.output


def test_without_a_source_of_tokens_the_properties_to_set_are_named(place: Place) -> None:
    failed = place.run("topics", "list")
    assert failed.exit_code == 2
    assert "unsecuredLoginStringClaim_sub is missing" in failed.output


def test_secrets_are_in_no_repr(place: Place) -> None:
    jaas = f'{OAUTHBEARER_MODULE} required clientId="me" clientSecret="{SECRET}";'
    reported = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
    security = security_of({**reported, token_login.TOKEN_URL: place.provider.token_url})
    assert security.protocol == "SASL_SSL"
    assert SECRET not in json.dumps(repr(security))
