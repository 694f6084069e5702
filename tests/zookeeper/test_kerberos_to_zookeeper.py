"""Brokers that log in to ZooKeeper by Kerberos: the options that say so, and a real ZooKeeper with a real KDC."""

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kpybroker.machines.sasl.gssapi import OFFER, GssapiClient, GssFailure
from kpybroker.machines.sasl.jaas import KRB5_MODULE
from kpybroker.machines.sasl.krb5_login import Krb5Login
from kpybroker.machines.zookeeper.client.jaas_file import BrokenJaasFile, JaasSection, login_of, place_of
from kpybroker.machines.zookeeper.client.session import ZooKeeperLoginRefused
from kpybroker.node.assembly.zookeeper_login import PreparedGssapi
from oracle.zookeeper import ZooKeeper
from support.kdc import MISSING, REALM, WHY_MISSING, Kdc
from support.zookeeper_clusters import KpyOnZooKeeper

REGISTRATION = "/secured/brokers/ids/4"
FILE = "-Djava.security.auth.login.config=/a"
KEYS = f'Client {{ {KRB5_MODULE} required useKeyTab=true keyTab="/k" principal="kafka/h@R" serviceName="x"; }};'


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", JaasSection("/a", "Client", "zookeeper", "")),
        ("-Dzookeeper.sasl.client.username=zk", JaasSection("/a", "Client", "zk", "")),
        ("-Dzookeeper.server.principal=zk/h.example@R", JaasSection("/a", "Client", "zk", "h.example")),
        (
            "-Dzookeeper.server.principal=zk/h -Dzookeeper.sasl.client.username=x",
            JaasSection("/a", "Client", "zk", "h"),
        ),
    ],
)
def test_the_principal_of_the_servers_is_in_the_options_of_the_jvm(options: str, expected: JaasSection) -> None:
    assert place_of(f"{FILE} {options}") == expected


def test_a_section_names_a_keytab_or_tickets() -> None:
    assert login_of(KEYS, "Client", "zk") == Krb5Login("kafka/h@R", use_keytab=True, keytab="/k", service="zk")
    tickets = f'Client {{ {KRB5_MODULE} required useTicketCache=true ticketCache="/t"; }};'
    assert login_of(tickets, "Client") == Krb5Login(ticket_cache="/t", service="zookeeper")


def test_a_section_without_keys_and_tickets_is_one_clear_line() -> None:
    with pytest.raises(BrokenJaasFile, match="neither a keytab"):
        login_of(f"Client {{ {KRB5_MODULE} required principal=a; }};", "Client")


class FakeContext:
    """A security context that is complete after the second token; wrapped is what begins with a ``!``."""

    is_complete = False

    def step(self, token: bytes) -> bytes:
        self.is_complete = bool(token)
        return b"" if token else b"first"

    def initiator(self) -> str:
        return ""

    def wrap(self, message: bytes) -> bytes:
        return b"!" + message

    def unwrap(self, message: bytes) -> bytes:
        if message[:1] != b"!":
            raise GssFailure("not wrapped")
        return message[1:]


def prepared() -> PreparedGssapi:
    client = GssapiClient(FakeContext)
    return PreparedGssapi(client, client.first())


def test_the_tokens_of_a_login_end_with_an_answer_of_the_server() -> None:
    login = prepared()
    assert login.first() == b"first"
    assert login.respond(b"second") == b"", "an empty token, after which the server offers layers"
    assert login.respond(b"!" + OFFER) == b"!" + OFFER
    assert not login.is_complete
    assert login.respond(b"") is None
    assert login.is_complete


def test_a_server_that_cannot_prove_itself_is_refused() -> None:
    login = prepared()
    login.respond(b"second")
    with pytest.raises(ZooKeeperLoginRefused, match="Kerberos: not wrapped"):
        login.respond(OFFER)


@pytest.mark.java
@pytest.mark.skipif(bool(MISSING), reason=WHY_MISSING)
def test_a_broker_owns_its_znodes_by_its_principal(tmp_path: Path) -> None:
    pytest.importorskip("gssapi", reason="gssapi is not installed: pip install 'kpybroker[kerberos]'")
    with Kdc(tmp_path) as kdc:
        server, client = kdc.add("zookeeper/localhost"), kdc.add("kafka/localhost")
        (tmp_path / "server.jaas").write_text(section("Server", "zookeeper/localhost", server))
        (tmp_path / "client.jaas").write_text(section("Client", "kafka/localhost", client))
        (tmp_path / "other.jaas").write_text(section("Client", "mallory", client))
        properties = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
        jvm = [f"-Djava.security.auth.login.config={tmp_path / 'server.jaas'}"]
        jvm.append(f"-Djava.security.krb5.conf={kdc.configuration}")
        with ZooKeeper(properties, directory=tmp_path / "zookeeper", jvm=jvm) as zookeeper:
            connect = f"localhost:{zookeeper.port}/secured"
            configs = {"zookeeper.set.acl": "true", "zookeeper.connection.timeout.ms": "60000"}

            def broker(jaas: str, **changed: str) -> KpyOnZooKeeper:
                options = f"KAFKA_OPTS=-Djava.security.auth.login.config={tmp_path / jaas}"
                words = ["env", options, *(f"{name}={value}" for name, value in kdc.environment.items())]
                made = KpyOnZooKeeper(
                    4, connect, {**configs, **changed}, directory=tmp_path / jaas.partition(".")[0], launcher=words
                )
                made.start_timeout_s = 120
                made.directory.mkdir()
                made.prepare()
                return made

            refused = broker("other.jaas", **{"zookeeper.connection.timeout.ms": "2000"})
            refused.launch()
            assert refused.process is not None
            assert refused.process.wait(60) == 1
            assert "Kerberos: no ticket for mallory" in refused.output.read_text()
            with broker("client.jaas"):
                tree = KazooClient(zookeeper.bootstrap_servers)
                tree.start()
                owners = sorted((each.id.scheme, each.id.id, each.perms) for each in tree.get_acls(REGISTRATION)[0])
                tree.stop()
                tree.close()
    assert owners == [("sasl", f"kafka/localhost@{REALM}", 31), ("world", "anyone", 1)]


def section(name: str, principal: str, keytab: Path) -> str:
    return (
        f'{name} {{ {KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
        f'principal="{principal}@{REALM}"; }};\n'
    )
