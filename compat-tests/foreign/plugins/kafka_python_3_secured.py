"""For kafka-python 3's own tests of TLS and SASL: their fixture attaches to the broker that the environment names,
where it would start Kafka's scripts, and lists topics with kafka-python, where it would call ``kafka-topics.sh``.

It imports nothing of this project, since it runs in the suite's own environment.
"""

import os
from typing import Any

import kafka_python_3  # noqa: F401  makes the modules that the fixtures import
from kafka import KafkaAdminClient
from test.integration.fixtures import KafkaFixture, client_params


class Attached(KafkaFixture):  # type: ignore[misc]
    """The broker of the environment, by one of its listeners."""

    @classmethod
    def instance(
        cls, broker_id: int, *, transport: str, sasl_mechanism: str | None = None, **_others: Any
    ) -> "Attached":
        host, _, port = os.environ[f"FOREIGN_{transport}"].rpartition(":")
        found = cls(host, int(port), broker_id, transport=transport, sasl_mechanism=sasl_mechanism, external=True)
        found.ssl_dir = os.path.dirname(os.environ["FOREIGN_CA"])
        return found

    def start(self) -> None:
        """It runs."""

    def get_topic_names(self) -> list[str]:
        admin = KafkaAdminClient(**client_params(self, "topics"))
        try:
            return list(admin.list_topics())
        finally:
            admin.close()


KafkaFixture.instance = Attached.instance
KafkaFixture.broker_user = os.environ["FOREIGN_USER"]
KafkaFixture.broker_password = os.environ["FOREIGN_PASSWORD"]
