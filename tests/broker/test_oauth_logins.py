"""Logins by OAUTHBEARER on a node: what the wire sees, as on Apache Kafka (compat-tests/test_oauth_wire.py), what the
log says, and how the keys of a provider are kept."""

from collections.abc import Iterator

import pytest
from running_node import RunningNode

import oauth_wire
from kpybroker.testing.oidc import OidcProvider


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, provider: OidcProvider) -> Iterator[RunningNode]:
    listeners = [f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *oauth_wire.LISTENERS)]
    directory = str(tmp_path_factory.mktemp("oauth"))
    further = {"log.dirs": directory, "connection.failed.authentication.delay.ms": "5"}
    node = RunningNode({**oauth_wire.properties(provider), "listeners": ",".join(listeners), **further})
    try:
        yield node
    finally:
        node.stop()


@pytest.mark.parametrize("case", oauth_wire.CASES, ids=lambda case: case.name)
def test_the_wire_sees_what_apache_kafka_shows(
    case: oauth_wire.Case, node: RunningNode, provider: OidcProvider
) -> None:
    assert oauth_wire.seen(case, node.node.ports, provider) == case.expected
