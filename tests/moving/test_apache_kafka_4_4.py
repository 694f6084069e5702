"""Directories that Apache Kafka 4.4 formats, and its features, beside 4.4.0 and 4.3.1."""

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from tenant import Tenant, check

from kpybroker.cli import main
from kpybroker.client import acl_requests
from kpybroker.client.acl_requests import AclBinding
from kpybroker.client.client import Client
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from oracle import ApacheKafka, BrokerProcess, BrokerProcessError, java
from oracle.jars import KAFKA_BEFORE, KAFKA_VERSION
from support.upgrading import finalized

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

KAFKA_4_4, KAFKA_4_3 = KAFKA_VERSION, KAFKA_BEFORE
SALT = base64.b64encode(b"salt of some bytes").decode()
BOB = f'SCRAM-SHA-256=[name=bob,password=secret of bob,salt="{SALT}"]'
ANN = f'SCRAM-SHA-512=[name=ann,password=secret of ann,salt="{SALT}",iterations=8192]'
USERS = {"ann": [(2, 8192)], "bob": [(1, 4096)]}
LEVELS = {
    "metadata.version": 30,
    "kraft.version": 1,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def users(node: BrokerProcess) -> dict[str, list[tuple[int, int]]]:
    with Client(node.bootstrap_servers) as client:
        results = client.call(DescribeUserScramCredentialsRequest(users=None)).results
    return {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] for each in results}


def formatted(directory: Path, *formatting: str, properties: Mapping[str, str] | None = None) -> ApacheKafka:
    """A node of 4.4.0 that is formatted and was never started."""
    kafka = ApacheKafka(properties, directory=directory, release=KAFKA_4_4, formatting=("--standalone", *formatting))
    kafka.start_timeout_s = Tenant.start_timeout_s
    kafka.prepare()
    return kafka


def test_a_directory_that_4_4_formatted_and_kpybroker_leads_first_stays_whole(tmp_path: Path) -> None:
    kafka = formatted(tmp_path, "--release-version", "4.3", "-S", BOB, "-S", ANN)
    assert not (kafka.data / "bootstrap.checkpoint").exists()
    before = ApacheKafka(kafka.properties, directory=tmp_path, port=kafka.port, release=KAFKA_4_3)
    before.start_timeout_s = Tenant.start_timeout_s
    turns: list[BrokerProcess] = [Tenant(kafka), kafka, before, Tenant(kafka), kafka]
    for number, node in enumerate(turns):
        with node:
            assert finalized(node.port) == LEVELS
            assert users(node) == USERS
            if number % 2:
                node.kill()
        check(kafka.data)


def test_dead_letters_are_raised_and_lowered_where_either_leads(tmp_path: Path) -> None:
    """Kafka at the level of 4.3 has them where that is asked for."""
    kafka = formatted(tmp_path, "--release-version", "4.3", "--feature", "share.version=2")
    turns: list[tuple[BrokerProcess, str, int]] = [
        (kafka, "downgrade", 1),
        (Tenant(kafka), "upgrade", 2),
        (Tenant(kafka), "downgrade", 1),
        (kafka, "upgrade", 2),
    ]
    for node, verb, level in turns:
        with node:
            assert finalized(node.port)["share.version"] == 3 - level
            words = (node.bootstrap_servers, verb, "--feature", f"share.version={level}")
            done = java("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", *words, release=KAFKA_4_4)
            assert done.returncode == 0, done.stdout + done.stderr
    with Tenant(kafka) as ours:
        assert finalized(ours.port) == {**LEVELS, "share.version": 2}


NETWORK = AclBinding(2, "orders", 3, "User:ann", "10.0.0.0/8", 3, 3)


def acls(node: BrokerProcess) -> list[AclBinding]:
    with Client(node.bootstrap_servers) as client:
        return acl_requests.describe(client)


def test_a_directory_at_the_level_of_4_4_moves_both_ways_and_no_4_3_opens_it(tmp_path: Path) -> None:
    """kpybroker formats and leads first; Kafka is killed at the end of its turns."""
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    kafka = ApacheKafka(authorizer, directory=tmp_path)
    kafka.start_timeout_s = Tenant.start_timeout_s
    kafka.write_properties()
    file = str(kafka.properties_file)
    done = CliRunner().invoke(main, ["format", "-c", file, "--standalone", "-S", BOB, "-S", ANN])
    assert done.exit_code == 0, done.output
    assert not (kafka.data / "bootstrap.checkpoint").exists()
    turns: list[BrokerProcess] = [Tenant(kafka), kafka, Tenant(kafka), kafka]
    for number, node in enumerate(turns):
        with node:
            assert finalized(node.port) == {**LEVELS, "metadata.version": 33, "share.version": 2}
            assert users(node) == USERS
            with Client(node.bootstrap_servers) as client:
                acl_requests.create(client, [NETWORK._replace(resource_name=f"of-turn-{number}")])
            assert len(acls(node)) == number + 1
            if node is kafka:
                node.kill()
        check(kafka.data)
    before = ApacheKafka(kafka.properties, directory=tmp_path, port=kafka.port, release=KAFKA_4_3)
    with pytest.raises(BrokerProcessError):
        before.start()
