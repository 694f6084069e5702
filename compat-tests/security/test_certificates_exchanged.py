"""Certificates are exchanged while clients write and read: for clients, between brokers and between controllers.

A new authority takes the place of the former one in three steps (docs/security.md): all trust both, all get keys of the
new one, all trust the new one alone. No connection ends, and each new one gets the new certificates.
"""

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from cryptography import x509

from failover.faults import wait_for_in_sync
from failover.run import TOPIC
from oracle import BrokerProcess
from oracle.process import API_VERSIONS_V0, HOST
from support.access import Access
from support.certificates import Authority, Certificate
from support.clusters import PROGRAMS, Cluster
from support.secured import secured_access, secured_cluster
from support.upgrade_load import Load, assert_nothing_lost, create_topics
from support.waiting import eventually

pytestmark = pytest.mark.timeout(600)
LISTENERS: Final = ("SECURED", "INTERNAL", "CONTROLLER")
BETWEEN_NODES: Final = ("INTERNAL", "CONTROLLER")
"""They demand certificates of those that connect, so that it can be seen whom they trust."""
ESTABLISHED: Final = "01"
PATIENCE_S: Final = 60.0


class Site:
    """A cluster, two authorities, and the files of its nodes."""

    def __init__(self, directory: Path, target: str) -> None:
        self.former, self.new = Authority("Former authority"), Authority("New authority")
        self.both = directory / "both.pem"
        self.both.write_text(self.former.pem + self.new.pem)
        required = {f"listener.name.{name.lower()}.ssl.client.auth": "required" for name in BETWEEN_NODES}
        self.cluster = secured_cluster(PROGRAMS[target], directory, properties=required)
        for node in self.cluster.nodes.values():
            node.directory.mkdir()
            self.write(node, "keys", self.former.issue().save_pem)
            self.write(node, "trust", self.former.save)
            properties(node)["ssl.keystore.location"] = str(node.directory / "keys.pem")
            properties(node)["ssl.truststore.location"] = str(node.directory / "trust.pem")
        self.access: Access = secured_access(list(self.cluster.nodes.values()), self.both)
        self.cluster.access = self.access

    def write(self, node: BrokerProcess, name: str, save: Callable[[Path], object], suffix: str = "") -> Path:
        """A file of a node, in place of one that may be there."""
        path, unfinished = node.directory / f"{name}{suffix}.pem", node.directory / "unfinished.pem"
        save(unfinished)
        unfinished.replace(path)
        return path

    def ports(self, node_id: int) -> dict[str, int]:
        """The port of each listener."""
        listeners = properties(self.cluster.nodes[node_id])["listeners"].split(",")
        found = (each.split("://") for each in listeners)
        return {name: int(address.rpartition(":")[2]) for name, address in found}

    def all_ports(self) -> list[tuple[str, int]]:
        """The listeners of all nodes that exchange certificates."""
        listeners = (each for node_id in self.cluster.nodes for each in self.ports(node_id).items())
        return [(name, port) for name, port in listeners if name in LISTENERS]

    def connections(self) -> set[tuple[int, int]]:
        """The ports of both ends of each open connection to the listeners."""
        ports = {port for _, port in self.all_ports()}
        return {(local, remote) for local, remote in established() if local in ports}


def properties(node: BrokerProcess) -> dict[str, str]:
    found: dict[str, str] = node.properties  # type: ignore[attr-defined]
    return found


def established() -> Iterator[tuple[int, int]]:
    """The ports of all established connections of this machine (Linux)."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if Path(table).exists():
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, remote, state, *_ = line.split()
                if state == ESTABLISHED:
                    yield int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16)


def issuer_at(port: int, trusted: Path, own: Certificate | None = None, directory: Path | None = None) -> str:
    """The issuer of the certificate that a new connection gets, if the listener also takes ``own`` for good.

    The listener has to answer: with TLS 1.3 it refuses a certificate only after the handshake. Raises OSError.
    """
    context = ssl.create_default_context(cafile=str(trusted))
    if own is not None:
        assert directory is not None
        context.load_cert_chain(own.save_pem(directory / "own.pem"))
    plain = socket.create_connection((HOST, port), timeout=10)
    with closing(context.wrap_socket(plain, server_hostname=HOST)) as connection:
        connection.sendall(struct.pack(">i", len(API_VERSIONS_V0)) + API_VERSIONS_V0)
        if not connection.recv(1):
            raise ConnectionError("closed")
        certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
    return certificate.issuer.rfc4514_string().removeprefix("CN=")


def is_trusted(port: int, site: Site, own: Certificate, directory: Path) -> bool:
    """Whether a listener takes this certificate."""
    try:
        issuer_at(port, site.both, own, directory)
    except OSError:
        return False
    return True


Exchange = Callable[[Site, int, str, Callable[[Path], object]], None]
"""(site, node, ``keys`` or ``trust``, the function that writes the file)"""


def by_files(site: Site, node_id: int, name: str, save: Callable[[Path], object]) -> None:
    """Other content under the same name: kpybroker sees it."""
    site.write(site.cluster.nodes[node_id], name, save)


def by_configs(site: Site, node_id: int, name: str, save: Callable[[Path], object]) -> None:
    """Another file, which AlterConfigs names for each listener; and the file that a start reads."""
    node = site.cluster.nodes[node_id]
    key = {"keys": "ssl.keystore.location", "trust": "ssl.truststore.location"}[name]
    path = site.write(node, name, save, f"-{len(list(node.directory.iterdir()))}")
    entries = [
        ConfigEntry(f"listener.name.{each.lower()}.{key}", str(path), incremental_operation=AlterConfigOpType.SET)
        for each in LISTENERS
    ]
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id), incremental_configs=entries)
    admin = AdminClient(site.access.librdkafka)
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    properties(node)[key] = str(path)


def exchange_all(site: Site, exchange: Exchange, directory: Path) -> None:
    """The three steps, each on all nodes, one after the other."""
    former, new = site.former.issue(), site.new.issue()

    def on_all(name: str, save: Callable[[Path], object], holds: Callable[[str, int], bool]) -> None:
        for node_id in site.cluster.nodes:
            exchange(site, node_id, name, save)
        for listener, port in site.all_ports():
            eventually(partial(holds, listener, port), f"other {name} at {listener}", PATIENCE_S, every_s=0.2)

    def trusts_both(listener: str, port: int) -> bool:
        return listener not in BETWEEN_NODES or is_trusted(port, site, new, directory)

    def shows_new(listener: str, port: int) -> bool:
        own = former if listener in BETWEEN_NODES else None
        return issuer_at(port, site.both, own, directory) == "New authority"

    def trusts_new_only(listener: str, port: int) -> bool:
        return listener not in BETWEEN_NODES or not is_trusted(port, site, former, directory)

    both = site.both.read_text()
    on_all("trust", lambda path: path.write_text(both), trusts_both)
    on_all("keys", lambda path: site.new.issue().save_pem(path), shows_new)
    on_all("trust", site.new.save, trusts_new_only)


@pytest.mark.parametrize("exchange", [by_configs, pytest.param(by_files, marks=pytest.mark.slow)])
def test_no_connection_ends_while_certificates_are_exchanged_and_new_ones_get_the_new(
    exchange: Exchange, target: str, tmp_path: Path
) -> None:
    if target not in PROGRAMS:
        pytest.skip("configures the nodes of a cluster, and the target is one of somebody else")
    if target == "apache-kafka" and exchange is by_files:
        pytest.skip("Apache Kafka reads changed files only when AlterConfigs asks for it")
    site = Site(tmp_path, target)
    with site.cluster as cluster:
        create_topics(cluster)
        load = Load(site.access)
        try:
            load.start()
            eventually(lambda: load.is_under_way, "all clients to have begun", PATIENCE_S)
            before = site.connections()
            assert {name for name, port in site.all_ports() if port in dict(before)} == {*LISTENERS}
            exchange_all(site, exchange, tmp_path)
            lost = before - site.connections()
            restarted(cluster)
        finally:
            load.stop()
        assert lost == set()
        assert_nothing_lost(load, site.access)


def restarted(cluster: Cluster) -> None:
    """A node starts again: all its connections to others are new, and theirs to it."""
    node = cluster.nodes[1]
    node.stop()
    node.prepare()
    node.launch()
    wait_for_in_sync(cluster, TOPIC, len(cluster.nodes))
