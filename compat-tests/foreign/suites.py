"""Every suite there is, by its name."""

from collections.abc import Mapping
from typing import Final

from foreign.application_suites import AVRO, DEBEZIUM, FLINK, QUIX
from foreign.franz_go import FRANZ_GO, GO_SECURED, KADM
from foreign.kafka_python import KAFKA_PYTHON_2, KAFKA_PYTHON_3, KAFKA_PYTHON_SECURED
from foreign.librdkafka import (
    LIBRDKAFKA,
    LIBRDKAFKA_CLUSTER,
    LIBRDKAFKA_CLUSTER_NO_AUTO_CREATE,
    LIBRDKAFKA_CONSUMER,
    LIBRDKAFKA_NO_AUTO_CREATE,
    LIBRDKAFKA_SECURED,
    LIBRDKAFKA_SHARE,
)
from foreign.node_programs import KAFKAJS
from foreign.own_programs import AIOKAFKA, CONFLUENT_KAFKA, TRANSACTIONS
from foreign.suite import Suite

ALL: Final = (
    KAFKA_PYTHON_3,
    KAFKA_PYTHON_2,
    KAFKA_PYTHON_SECURED,
    AIOKAFKA,
    CONFLUENT_KAFKA,
    TRANSACTIONS,
    LIBRDKAFKA,
    LIBRDKAFKA_NO_AUTO_CREATE,
    LIBRDKAFKA_CLUSTER,
    LIBRDKAFKA_CLUSTER_NO_AUTO_CREATE,
    LIBRDKAFKA_SECURED,
    LIBRDKAFKA_CONSUMER,
    LIBRDKAFKA_SHARE,
    FRANZ_GO,
    KADM,
    GO_SECURED,
    KAFKAJS,
    AVRO,
    QUIX,
    FLINK,
    DEBEZIUM,
)
SUITES: Final[Mapping[str, Suite]] = {suite.name: suite for suite in ALL}
