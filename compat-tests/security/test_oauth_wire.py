"""Apache Kafka sees what `oauth_wire` says of listeners with OAUTHBEARER; tests/broker/test_oauth_logins.py asks
kpybroker."""

from collections.abc import Iterator, Mapping

import pytest

from kpybroker.testing.oidc import OidcProvider
from oracle import SMALL_JVM, ApacheKafka, free_port
from oracle.process import HOST
from support import oauth_wire


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def ports(provider: OidcProvider) -> Iterator[Mapping[str, int]]:
    """Apache Kafka with the listeners."""
    numbers = {name: free_port() for name in oauth_wire.LISTENERS}
    jvm = (*SMALL_JVM, f"-D{oauth_wire.ALLOWED}={provider.jwks_url}")
    kafka = ApacheKafka(oauth_wire.properties(provider), jvm=jvm)
    for key in ("listeners", "advertised.listeners"):
        further = [f"{name}://{HOST}:{port}" for name, port in numbers.items()]
        kafka.properties[key] = ",".join([kafka.properties[key], *further])
    with kafka:
        yield numbers


@pytest.mark.java
@pytest.mark.parametrize("case", oauth_wire.CASES, ids=lambda case: case.name)
def test_apache_kafka_answers_so(case: oauth_wire.Case, ports: Mapping[str, int], provider: OidcProvider) -> None:
    assert oauth_wire.seen(case, ports, provider) == case.expected
