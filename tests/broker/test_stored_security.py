"""Quotas and credentials that another broker left in the metadata are described as Kafka describes them."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from running_node import RunningNode, start

from kpybroker.machines.metadata.image import QuotaEntity
from kpywire import error_codes
from kpywire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from support.raw_client import RawClient

EXACT, DEFAULT, ANY = range(3)
SHA_256, SHA_512 = 1, 2
QUOTAS: dict[QuotaEntity, dict[str, float]] = {
    (("user", "a"),): {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0},
    (("user", None),): {"producer_byte_rate": 3.0},
    (("client-id", "x"), ("user", "b")): {"producer_byte_rate": 4.0},
    (("client-id", None), ("user", "a")): {"producer_byte_rate": 5.0},
    (("client-id", "x"),): {"producer_byte_rate": 6.0},
    (("ip", "192.0.2.1"),): {"connection_creation_rate": 7.0},
}
A, UNKNOWN_USER, B_X, A_ANY, X, ADDRESS = QUOTAS


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """A client of a node whose metadata hold quotas and credentials."""
    node: RunningNode = start(tmp_path_factory.mktemp("stored"))

    def store() -> None:
        assert node.node.broker is not None
        image: Any = node.node.broker.image
        image.client_quotas.update(QUOTAS)
        for mechanism, user, iterations in ((SHA_512, "bob", 8192), (SHA_256, "bob", 4096), (SHA_256, "alice", 5000)):
            image.scram_credentials[mechanism, user] = SimpleNamespace(iterations=iterations)

    try:
        node.call(store)
        with RawClient(node.port) as raw:
            yield raw
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, set(QUOTAS)),
        ([], True, set()),
        ([("user", EXACT, "a")], False, {A, A_ANY}),
        ([("user", EXACT, "a")], True, {A}),
        ([("user", DEFAULT, None)], False, {UNKNOWN_USER}),
        ([("user", ANY, None)], False, {A, UNKNOWN_USER, B_X, A_ANY}),
        ([("client-id", EXACT, "x")], False, {B_X, X}),
        ([("client-id", EXACT, "x")], True, {X}),
        ([("user", ANY, None), ("client-id", ANY, None)], True, {B_X, A_ANY}),
        ([("user", EXACT, "a"), ("client-id", DEFAULT, None)], False, {A_ANY}),
        ([("ip", ANY, None)], True, {ADDRESS}),
        ([("ip", DEFAULT, None)], False, set()),
    ],
)
def test_a_filter_finds_the_entities_it_describes(
    client: RawClient, components: list[tuple[str, int, str | None]], strict: bool, expected: set[QuotaEntity]
) -> None:
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    response = client.call(DescribeClientQuotasRequest(components=wanted, strict=strict), 1)
    assert response.error_code == error_codes.NONE
    found = {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            quota.key: quota.value for quota in entry.values
        }
        for entry in response.entries
    }
    assert found == {entity: QUOTAS[entity] for entity in expected}


def test_credentials_are_described_without_their_secrets(client: RawClient) -> None:
    def described(*names: str) -> dict[str, tuple[int, str, list[tuple[int, int]]]]:
        users = [UserName(name=name) for name in names]
        results = client.call(DescribeUserScramCredentialsRequest(users=users), 0).results
        return {
            result.user: (
                result.error_code,
                result.error_message,
                [(info.mechanism, info.iterations) for info in result.credential_infos],
            )
            for result in results
        }

    alice = (error_codes.NONE, "", [(SHA_256, 5000)])
    bob = (error_codes.NONE, "", [(SHA_256, 4096), (SHA_512, 8192)])
    assert described() == {"alice": alice, "bob": bob}
    assert described("bob") == {"bob": bob}
    missing = "Attempt to describe a user credential that does not exist: eve"
    assert described("eve", "alice") == {"alice": alice, "eve": (error_codes.RESOURCE_NOT_FOUND, missing, [])}
