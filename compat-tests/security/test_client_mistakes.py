"""Every usual client in every way of connecting: the right credentials work, and each mistake is reported as
docs/security.md says, by the client and by the broker's log."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kpybroker.cli.format import command as format_command
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from oracle import free_port
from oracle.asked import AskedOracle
from oracle.process import HOST
from support.mistakes import PASSWORD, PYTHON, RIGHT, USER, WRONG, Files, Reports, java
from support.targets import KpyBroker
from support.waiting import eventually

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "security.md"
HEADING = "What each client reports"
LOG, NOTHING = "the broker's log", "nothing"
PROTOCOLS = {
    "TLS": "SSL",
    "MTLS": "SSL",
    "ELSEWHERE": "SSL",
    "EXPIRED": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
}


class Talkative(KpyBroker):
    """A broker whose log suppresses nothing: it has a line for each mistake."""

    def command(self) -> Sequence[str]:
        words = (
            "from kpybroker.requests.server import complaints; complaints.QUIET_MS = 0; "
            "from kpybroker.__main__ import main"
        )
        return [sys.executable, "-c", f"{words}; main()", *super().command()[1:]]


class Secured(NamedTuple):
    """A broker with a listener of each kind, and the certificates."""

    broker: KpyBroker
    ports: dict[str, int]
    files: Files

    def log(self) -> str:
        return self.broker.output.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("mistakes")
    files = Files(directory)
    properties = {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{name}:{value}" for name, value in PROTOCOLS.items())]
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.certificates["broker"]),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authorities["right"]),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.elsewhere.ssl.keystore.location": str(files.certificates["elsewhere"]),
        "listener.name.expired.ssl.keystore.location": str(files.certificates["expired-broker"]),
    }
    for name in ("sasl", "sasltls"):
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        )
        properties[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    broker = Talkative(properties, directory=directory)
    ports = {"PLAINTEXT": broker.port, **{name: free_port() for name in PROTOCOLS}}
    for key, host in (("listeners", HOST), ("advertised.listeners", "localhost")):
        broker.properties[key] = ",".join(f"{name}://{host}:{port}" for name, port in ports.items())
    broker.prepare()
    user = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
    format_command.main(["-c", str(directory / "server.properties"), "--add-scram", user], standalone_mode=False)
    with broker:
        yield Secured(broker, ports, files)


@pytest.fixture(scope="module")
def oracle() -> Iterator[AskedOracle]:
    asked = AskedOracle("ClientLogins.java", "ClientLogins")
    yield asked
    asked.close()


CLIENTS = [*PYTHON, pytest.param("Java", marks=pytest.mark.java)]


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Reports:
    return PYTHON[request.param] if request.param in PYTHON else java(request.getfixturevalue("oracle"))


@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_a_client_with_the_right_credentials_is_served_in_every_way(secured: Secured, client: Reports) -> None:
    for name, way in RIGHT.items():
        assert (name, client(way, f"localhost:{secured.ports[way.listener]}", secured.files)) == (name, "")


def table() -> dict[str, dict[str, str]]:
    """The rows of the table in docs/security.md by their mistakes; the cells by the heads of their columns."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(f"### {HEADING}\n")[2].partition("\n#")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    heads, _, *further = rows
    return {row[0]: dict(zip(heads, row, strict=True)) for row in further}


def is_reported(cell: str, text: str) -> bool:
    """Whether a text has what a cell of the table says: one of the quoted texts, with anything in place of dots."""
    texts = re.findall(r"`([^`]+)`", cell)
    assert texts, cell
    return any(re.search(".*".join(map(re.escape, each.split("..."))), text) for each in texts)


def test_the_table_has_a_row_for_each_mistake() -> None:
    assert list(table()) == list(WRONG)


@pytest.mark.parametrize("mistake", WRONG)
@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_a_mistake_is_reported_as_the_document_says(
    secured: Secured, client: Reports, mistake: str, request: pytest.FixtureRequest
) -> None:
    way, row = WRONG[mistake], table()[mistake]
    known = len(secured.log())
    report = client(way, f"localhost:{secured.ports[way.listener]}", secured.files)
    assert is_reported(row[request.node.callspec.params["client"]], report), report
    if row[LOG] == NOTHING:
        assert not re.search(r"kpybroker\.(login|server)", secured.log()[known:])
    else:
        eventually(lambda: is_reported(row[LOG], secured.log()[known:]), f"the log to say {row[LOG]}", 5)
    assert "hidden-secret" not in secured.log() + report
