"""Clients that ask for transactions are told at once that there are none, and do not wait for them for ever.

Only for kpybroker while it has no transactions. The answer is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, already when the
coordinator is looked for: on others, such as UNSUPPORTED_VERSION or INVALID_REQUEST, librdkafka retries without end.
"""

import confluent_kafka
import kafka
import kafka.errors
import pytest

from java_tools import JavaTools

TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53


@pytest.fixture(autouse=True)
def _only_where_transactions_are_missing(target: str) -> None:
    if target != "kpybroker":
        pytest.skip("the broker has transactions")


def test_kafka_python_raises(bootstrap_servers: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap_servers, transactional_id="wanted", max_block_ms=30_000, request_timeout_ms=20_000
    )
    with pytest.raises(kafka.errors.TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=5)


def test_librdkafka_fails_fatally_and_shows_the_reason(bootstrap_servers: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "wanted"})
    with pytest.raises(confluent_kafka.KafkaException) as refusal:
        producer.init_transactions(30)
    error = refusal.value.args[0]
    assert (error.code(), error.fatal()) == (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True)
    assert "transactions" in error.str()


@pytest.mark.java
def test_the_java_producer_raises(bootstrap_servers: str, java_tools: JavaTools) -> None:
    finished = java_tools.run("transactional-producer", bootstrap_servers, "wanted")
    assert "TransactionalIdAuthorizationException" in finished.out, finished.text
