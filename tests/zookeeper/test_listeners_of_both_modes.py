"""Listeners are protected in the same way in KRaft mode and in ZooKeeper mode, whatever their configuration."""

import asyncio
import socket
import ssl
from pathlib import Path

import both_modes
import pytest
from both_modes import never
from test_second_port_of_both_modes import with_user

from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.sasl.jaas import PLAIN_MODULE
from kpybroker.node.node import Node
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.metadata import MetadataRequest
from support import sasl_wire
from support.certificates import Authority
from support.raw_client import RawClient

PASSWORD = "keystore-secret"
KINDS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture(params=both_modes.MODES)
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


class Site:
    """The keys of listeners, and the configs of one listener of each kind beside the plain one."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority()
        self.store = str(self.authority.issue("broker").save_pkcs12(directory / "broker.p12", PASSWORD))
        self.ca = str(self.authority.save(directory / "ca.pem"))
        self.alice = str(self.authority.issue("alice", ()).save_pem(directory / "alice.pem"))

    def configs(self, **more: str) -> dict[str, str]:
        """``more`` are further configs, ``_`` for ``.``; None leaves one out."""
        found = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *KINDS)),
            "ssl.keystore.location": self.store,
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "sasl.enabled.mechanisms": "PLAIN",
        }
        for name in KINDS[1:]:
            key = f"listener.name.{name.lower()}.plain.sasl.jaas.config"
            found[key] = f'{PLAIN_MODULE} required user_alice="wonder";'
        return found | {name.replace("_", "."): value for name, value in more.items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("keys"))


def answer_over_tls(site: Site, port: int, certificate: str = "") -> bool:
    """Whether a broker serves Metadata to a client of this certificate."""
    context = ssl.create_default_context(cafile=site.ca)
    if certificate:
        context.load_cert_chain(certificate)
    with RawClient(port) as raw:
        try:
            raw.sock = context.wrap_socket(raw.sock, server_hostname="localhost")
            raw.sock.settimeout(30)
            return bool(raw.call(MetadataRequest(topics=[]), 12).brokers)
        except (ConnectionError, ssl.SSLError):
            return False


def code_of_plain(port: int) -> int:
    """The error code of ApiVersions without TLS; -1 if the broker closes the connection."""
    with RawClient(port) as raw:
        try:
            code: int = raw.call(VERSIONS, 3).error_code
        except ConnectionError:
            return -1
        return code


def seen(node: Node, listener: str) -> set[str]:
    """The principals of the clients that are connected to a listener."""
    assert node.server is not None
    return {str(each.client.principal) for each in node.server.connections if each.client.listener_name == listener}


def test_each_listener_speaks_its_protocol(mode: str, site: Site) -> None:
    async def story(node: Node) -> None:
        assert node.ports.keys() == {"PLAINTEXT", *KINDS}
        codes = [await asyncio.to_thread(code_of_plain, node.ports[name]) for name in ("PLAINTEXT", *KINDS)]
        assert codes == [0, -1, 0, -1]
        assert await asyncio.to_thread(answer_over_tls, site, node.ports["SSL"])
        assert not await asyncio.to_thread(answer_over_tls, site, node.ports["SASL_SSL"]), "it has not logged in"

    both_modes.played(mode, story, site.configs())


def test_a_certificate_is_demanded_where_that_is_configured(mode: str, site: Site) -> None:
    async def story(node: Node) -> None:
        assert not await asyncio.to_thread(answer_over_tls, site, node.ports["SSL"])
        assert await asyncio.to_thread(answer_over_tls, site, node.ports["SSL"], site.alice)

    both_modes.played(mode, story, site.configs(ssl_client_auth="required"))


@pytest.mark.parametrize("case", sasl_wire.CASES, ids=lambda case: case.name)
def test_logins_are_answered_as_by_apache_kafka(mode: str, case: sasl_wire.Case) -> None:
    async def story(node: Node) -> None:
        with_user(node, sasl_wire.USER, sasl_wire.PASSWORD)
        assert await asyncio.to_thread(sasl_wire.seen, case, node.ports) == case.expected

    listeners = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *sasl_wire.LISTENERS))
    quick = {"connection.failed.authentication.delay.ms": "5"}
    both_modes.played(mode, story, {**sasl_wire.properties(), "listeners": listeners, **quick})


REFUSED = {
    "no key store": ({"ssl_keystore_location": "", "ssl_keystore_password": ""}, "no key store is set"),
    "a key store that is missing": (
        {"ssl_keystore_location": "/no/such.p12"},
        "ssl.keystore.location=/no/such.p12 cannot be read: No such file",
    ),
    "a password without a key store": ({"ssl_keystore_location": ""}, "key store is not specified, but key store pass"),
    "a key store of another type": ({"ssl_keystore_type": "PEM"}, "password cannot be specified with PEM format"),
    "another password": ({"ssl_keystore_password": "wrong"}, "cannot be read as PKCS12: its password"),
    "a trust store that is missing": ({"ssl_truststore_location": "/no/ca.pem"}, "/no/ca.pem cannot be read"),
    "rules that are none": ({"ssl_principal_mapping_rules": "nonsense"}, "Invalid rule: `nonsense`"),
    "an address that is none of this machine": ({"listeners": "PLAINTEXT://192.0.2.1:0"}, "cannot listen on"),
}
"""Configs, and words of the line that refuses the start."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_start_that_cannot_be_protected_as_configured_is_refused(mode: str, name: str, site: Site) -> None:
    changed, words = REFUSED[name]
    configs = site.configs(**changed)
    for key in [key for key, value in configs.items() if not value]:
        del configs[key]
    with pytest.raises(StartRefused) as caught:
        both_modes.played(mode, never, configs)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_listener_whose_port_is_taken_refuses_the_start(mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartRefused, match="cannot listen on"):
        both_modes.played(mode, never, {"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"})


def test_a_stopped_node_has_released_its_ports(mode: str, site: Site) -> None:
    ports: dict[str, int] = {}

    async def story(node: Node) -> None:
        ports.update(node.ports)
        assert node.http_port is not None
        ports["HTTP"] = node.http_port

    both_modes.played(mode, story, site.configs(kpybroker_http_listener="127.0.0.1:0"))
    for port in ports.values():
        socket.create_server(("127.0.0.1", port)).close()
