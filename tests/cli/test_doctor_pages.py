"""``kpybroker doctor`` reads second ports behind https and a login, and names files that others may read."""

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kpybroker.cli import broker_looks, main, scrape
from kpybroker.cli.exposed_files import exposed, secrets_in
from kpybroker.cli.scrape import PageLogin, PageRefused, Way
from kpybroker.security.tls.issuing import Authority
from tests.broker.running_node import RunningNode

NOW = datetime.now(UTC)
AUTHORITY = Authority.made("an authority", NOW)
PASSWORD = "sees-all"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def node(directory: Path) -> Iterator[RunningNode]:
    """A node whose second port speaks https and demands a login."""
    keys, users = directory / "port.pem", directory / "users.properties"
    keys.write_text(AUTHORITY.issue("port", ["127.0.0.1"], NOW).pem)
    users.write_text(f"prometheus={PASSWORD}\n")
    users.chmod(0o600)
    settings = {"kpybroker.http.ssl.keystore.location": str(keys), "kpybroker.http.users": str(users)}
    running = RunningNode({"log.dirs": str(directory / "data"), **settings})
    yield running
    running.stop()


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.issued.certificate)


def page(node: RunningNode, way: Way) -> scrape.MetricsPage | None:
    port = node.node.http_port
    assert port is not None
    return scrape.fetch("127.0.0.1", port, 10.0, way)


def test_a_page_is_read_by_https_with_a_login(node: RunningNode) -> None:
    found = page(node, Way(trusting, PageLogin("prometheus", PASSWORD)))
    assert found is not None
    assert any(each.name.startswith("kpybroker_") for each in found.named_from(""))


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (Way(trusting), "demands a login; name a file"),
        (
            Way(trusting, PageLogin("prometheus", "guessed")),
            "refuses the login of 'prometheus': wrong name or password",
        ),
        (Way(), "its certificate is not accepted"),
    ],
)
def test_a_page_that_is_not_shown_says_why(node: RunningNode, way: Way, words: str) -> None:
    with pytest.raises(PageRefused) as refused:
        page(node, way)
    assert words in str(refused.value)
    assert "guessed" not in repr(way)


def test_a_page_beyond_loopback_says_what_opens_it(tmp_path: Path) -> None:
    running = RunningNode({"log.dirs": str(tmp_path), "kpybroker.http.listener": "0.0.0.0:0"})
    try:
        with pytest.raises(PageRefused, match=r"beyond loopback this needs a login: set kpybroker\.http\.users"):
            page(running, Way())
    finally:
        running.stop()


def doctor(node: RunningNode, *words: str) -> list[dict[str, Any]]:
    place = f"https://127.0.0.1:{node.node.http_port}"
    command = ["doctor", "-b", f"127.0.0.1:{node.port}", "--http", place, "--patience", "0", "--json", *words]
    result = CliRunner().invoke(main, command)
    assert PASSWORD not in result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_the_doctor_says_why_a_page_is_not_read_and_which_files_others_may_read(
    node: RunningNode, directory: Path
) -> None:
    client, login = directory / "client.properties", directory / "login.properties"
    client.write_text("proxy.password=hush\n")
    login.write_text(f"prometheus={PASSWORD}\n")
    client.chmod(0o644)
    login.chmod(0o600)
    found = doctor(node, "--http-login", str(login), "--command-config", str(client))
    (named,) = [each for each in found if each["check"] == "files with secrets"]
    assert named["message"] == f"other users can read {client}, which holds proxy.password"
    assert named["remedy"] == f"chmod 600 {client}"
    (unread,) = [each for each in found if each["check"] == "metrics page"]
    assert "its certificate is not accepted" in unread["message"]


def test_files_with_secrets_are_those_of_owners_alone(tmp_path: Path) -> None:
    key, config = tmp_path / "key.pem", tmp_path / "client.properties"
    files = secrets_in(str(config), {"ssl.keystore.location": str(key), "ssl.truststore.location": "/ca.pem"})
    assert files == {str(key): "ssl.keystore.location"}
    files = secrets_in(str(config), {"sasl.jaas.config": "x", "ssl.key.password": "y", "security.protocol": "SSL"})
    assert files == {str(config): "sasl.jaas.config, ssl.key.password"}
    assert exposed(files) == []
    config.write_text("")
    config.chmod(0o640)
    assert exposed(files) == []
    config.chmod(0o604)
    assert [path for path, _ in exposed(files)] == [str(config)]


@pytest.mark.parametrize(
    ("broker", "configured", "is_sent"),
    [
        ("kafka-1", "0.0.0.0:9404", True),
        ("kafka-1", "kafka-1:9404", True),
        ("127.0.0.1", "localhost:9404", True),
        ("kafka-1", "127.0.0.1:9404", False),
        ("kafka-1", "elsewhere.example:443", False),
        ("::1", "[::1]:9404", True),
    ],
)
def test_a_login_is_for_the_hosts_of_brokers_whatever_their_configs_name(
    broker: str, configured: str, *, is_sent: bool
) -> None:
    way = Way(login=PageLogin("prometheus", PASSWORD))
    assert (broker_looks.way_to_configured(broker, configured, way).login is not None) is is_sent
