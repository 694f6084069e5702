"""Apache Kafka sees what `sasl_wire` says of a listener with SASL; tests/broker/test_logins.py asks kpybroker."""

from collections.abc import Iterator

import pytest

from oracle import ApacheKafka, free_port
from oracle.process import HOST
from support import sasl_wire


@pytest.fixture(scope="module")
def ports() -> Iterator[sasl_wire.Ports]:
    """Apache Kafka with the listeners."""
    numbers = {name: free_port() for name in sasl_wire.LISTENERS}
    scram = f"SCRAM-SHA-256=[name={sasl_wire.USER},password={sasl_wire.PASSWORD}]"
    kafka = ApacheKafka(sasl_wire.properties(), formatting=("--standalone", "--add-scram", scram))
    for key in ("listeners", "advertised.listeners"):
        further = [f"{name}://{HOST}:{port}" for name, port in numbers.items()]
        kafka.properties[key] = ",".join([kafka.properties[key], *further])
    with kafka:
        yield numbers


@pytest.mark.java
@pytest.mark.parametrize("case", sasl_wire.CASES, ids=lambda case: case.name)
def test_apache_kafka_answers_so(case: sasl_wire.Case, ports: sasl_wire.Ports) -> None:
    assert sasl_wire.seen(case, ports) == case.expected
