"""Logins on a node: what the wire sees, as on Apache Kafka (compat-tests/test_sasl_wire.py), and what the log says."""

from collections.abc import Iterator

import pytest
from running_node import RunningNode

import sasl_wire
from kpybroker.sasl import scram
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord


def add_scram_user(node: RunningNode, mechanism: scram.ScramMechanism, name: str, password: str) -> None:
    """Put a user into the metadata as this node knows them."""
    salt = scram.salt_of(b"any salt is right")
    credential = mechanism.credential(mechanism.salted_password(password, salt, 4096), salt, 4096)
    record = UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.code,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=4096,
    )
    node.call(lambda: node.node.image.scram_credentials.update({(mechanism.code, name): record}))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    listeners = [f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *sasl_wire.LISTENERS)]
    directory = str(tmp_path_factory.mktemp("logins"))
    node = RunningNode({**sasl_wire.properties(), "listeners": ",".join(listeners), "log.dirs": directory})
    try:
        add_scram_user(node, scram.SCRAM_SHA_256, sasl_wire.USER, sasl_wire.PASSWORD)
        yield node
    finally:
        node.stop()


@pytest.mark.parametrize("case", sasl_wire.CASES, ids=lambda case: case.name)
def test_the_wire_sees_what_apache_kafka_shows(case: sasl_wire.Case, node: RunningNode) -> None:
    assert sasl_wire.seen(case, node.node.ports) == case.expected
