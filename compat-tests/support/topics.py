"""Creating and deleting the topics of a test, by librdkafka's admin client.

A topic counts as created when every leader answers for it: Apache Kafka shows a new topic before that.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka.admin
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from support.waiting import eventually

PATIENCE_S = 30.0
requests: Any = confluent_kafka.admin


def create_topic(client: AdminClient, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic and return once each partition has a leader that answers.

    Records keep whatever timestamps the tests give them: retention by time is off unless ``configs`` says otherwise.
    """
    wanted = requests.NewTopic(name, partitions, config={"retention.ms": "-1", **(configs or {})})
    client.create_topics([wanted])[name].result(PATIENCE_S)
    wait_for_leaders(client, name, partitions)


def wait_for_leaders(client: AdminClient, name: str, partitions: int) -> None:
    """Return once every partition of the topic answers ListOffsets."""
    request = {TopicPartition(name, number): requests.OffsetSpec.latest() for number in range(partitions)}

    def all_answer() -> bool:
        client.list_topics(name, timeout=PATIENCE_S)  # or librdkafka goes on believing that there is no leader
        for answer in client.list_offsets(request, request_timeout=10).values():
            answer.result(PATIENCE_S)
        return True

    eventually(all_answer, f"leaders of {name}", despite=(KafkaException,))


def delete_topics(client: AdminClient, names: Iterable[str]) -> None:
    """Delete those of the topics that exist."""
    existing = client.list_topics(timeout=PATIENCE_S).topics.keys() & set(names)
    if not existing:
        return
    for answer in client.delete_topics(sorted(existing)).values():
        try:
            answer.result(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
