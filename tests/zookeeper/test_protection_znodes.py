"""Quotas, credentials and passwords as contents of znodes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.config.zookeeper_configs import ZOOKEEPER_CONFIGS
from kpybroker.hosts.zookeeper.broker.encrypted_configs import EncryptedConfigs
from kpybroker.machines.config_def import Password
from kpybroker.machines.sasl.scram import ScramCredential
from kpybroker.machines.zookeeper.tree import client_quotas, configs, passwords
from kpybroker.machines.zookeeper.tree.acls import decode_acls
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode, encode
from kpybroker.machines.zookeeper.tree.credentials import decode_credential, encode_credential
from kpybroker.machines.zookeeper.tree.java_order import in_java_order
from kpybroker.machines.zookeeper.tree.passwords import Encoding, Undecodable

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name != "<default>"
)


def test_configs_stand_in_the_order_in_which_java_writes_them() -> None:
    """Each of these orders was seen in a znode that Kafka 3.9.2 wrote."""
    assert in_java_order(["SCRAM-SHA-256", "SCRAM-SHA-512"]) == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    names = ["retention.ms", "leader.replication.throttled.replicas"]
    assert in_java_order(names) == ["leader.replication.throttled.replicas", "retention.ms"]


@given(st.lists(st.text(max_size=6), unique=True, max_size=80))
def test_no_config_is_lost_by_ordering(names: list[str]) -> None:
    assert sorted(in_java_order(names)) == sorted(names)


@given(st.binary(min_size=1), st.binary(min_size=1), st.binary(min_size=1), st.integers(0, 999_999_999))
def test_a_credential_is_read_as_it_was_written(salt: bytes, stored: bytes, server: bytes, iterations: int) -> None:
    credential = ScramCredential(salt, stored, server, iterations)
    assert decode_credential("/config/users/alice", encode_credential(credential)) == credential


@given(st.text(max_size=60))
def test_a_damaged_credential_is_one_clear_line_without_the_credential(text: str) -> None:
    with pytest.raises(
        InvalidZnode, match=r"^The znode /config/users/a cannot be understood: it has a SCRAM credential"
    ):
        decode_credential("/config/users/a", text + ",salt=c2VjcmV0")


@given(st.dictionaries(st.sampled_from(["user", "client-id"]), st.none() | NAMES, min_size=1))
def test_an_entity_is_found_again_by_its_path(names: dict[str, str | None]) -> None:
    entity = client_quotas.config_entity(names)
    assert entity is not None
    assert dict(client_quotas.quota_entity(entity)) == names
    assert configs.decode_change("/x", configs.encode_change(entity)) == entity


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("LONG", 1024.0, "1024"),
        ("LONG", 10.5, None),
        ("LONG", 1e12, "1000000000000"),
        ("LONG", 1e30, None),
        ("LONG", -5.0, None),
        ("INT", 2.0**31, None),
        ("DOUBLE", 10.5, "10.5"),
        ("DOUBLE", 1e10, "1.0E10"),
        ("DOUBLE", 50.0, "50.0"),
        ("LONG", float("nan"), None),
        ("LONG", float("inf"), None),
    ],
)
def test_a_quota_is_written_as_java_prints_it(kind: str, value: float, text: str | None) -> None:
    assert client_quotas.quota_text(kind, value) == text


@pytest.mark.parametrize("text", ["", "ten", "10.5", "nan", "1_0", "9" * 30, "9" * 19, "0x10"])
def test_a_quota_that_is_no_number_is_one_clear_line(text: str) -> None:
    with pytest.raises(InvalidZnode, match=r"its producer_byte_rate .* is not a number of type LONG"):
        client_quotas.decode_quotas(ConfigEntity(configs.USERS, "alice"), {"producer_byte_rate": text})


@settings(max_examples=10)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.integers())
def test_a_password_is_decrypted_with_the_secret_alone(password: str, seed: int) -> None:
    rng = random.Random(seed)
    encoding = Encoding(Password("secret"), iterations=1_024)
    text = passwords.encode(password, encoding, rng.randbytes(passwords.SALT_BYTES), rng.randbytes(passwords.IV_BYTES))
    assert passwords.decode(text, Password("secret")) == password
    with pytest.raises(Undecodable, match=r"password\.encoder\.secret is another one"):
        passwords.decode(text, Password("another"))


@given(st.text(max_size=200))
def test_a_damaged_password_is_one_clear_line(text: str) -> None:
    with pytest.raises(Undecodable) as notified:
        passwords.decode(text, Password("secret"))
    assert "\n" not in str(notified.value)


def test_only_passwords_of_brokers_are_encrypted_and_one_that_cannot_be_read_is_left_out() -> None:
    broker, key = ConfigEntity(configs.BROKERS, "1"), "listener.name.secured.ssl.keystore.password"
    values = {key: "hush", "log.retention.ms": "5"}
    encrypted = EncryptedConfigs(Encoding(Password("secret"), iterations=1_024), random.Random(1))
    written = encrypted.encoded(broker, values)
    assert written["log.retention.ms"] == "5"
    assert "hush" not in written[key]
    assert encrypted.decoded(broker, written) == values
    assert EncryptedConfigs(None, random.Random(1)).decoded(broker, written) == {"log.retention.ms": "5"}
    topic = ConfigEntity(configs.TOPICS, "t")
    assert encrypted.encoded(topic, {"retention.ms": "5"}) == {"retention.ms": "5"}


def test_the_cipher_of_passwords_is_the_one_that_its_config_allows() -> None:
    assert ZOOKEEPER_CONFIGS["password.encoder.cipher.algorithm"].default == passwords.CIPHER


@pytest.mark.parametrize(
    ("permission", "operation"), [("Sometimes", "Read"), ("Allow", "Eat"), ("Sometimes", "Eat"), ("ALLOW", "Read")]
)
def test_an_acl_that_allows_or_denies_nothing_known_is_one_clear_line(permission: str, operation: str) -> None:
    entry = {"principal": "User:alice", "permissionType": permission, "host": "*", "operation": operation}
    with pytest.raises(InvalidZnode, match=f"{permission} of {operation} is no permission"):
        decode_acls("/kafka-acl/Topic/orders", encode({"acls": [entry], "version": 1}))
