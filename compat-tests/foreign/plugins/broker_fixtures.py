"""A pytest plugin for the programs in applications/: the broker they talk to, and names of their own on it.

It imports nothing of this project, since the programs run in the environments of the applications.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka.admin import AdminClient

PATIENCE_S = 60.0
requests: Any = confluent_kafka.admin


@pytest.fixture(scope="session")
def bootstrap_servers() -> str:
    return os.environ["FOREIGN_BOOTSTRAP_SERVERS"]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for groups and transactional ids."""
    return f"{request.node.name.replace('_', '-')}-{secrets.token_hex(3)}"


def _is_led(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Whether the broker shows every partition with a leader: Apache Kafka does so a while after its answer."""
    shown = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
    return len(shown) == partitions and all(partition.leader >= 0 for partition in shown)


@pytest.fixture
def new_topic(bootstrap_servers: str, name: str) -> Iterator[Callable[[int], str]]:
    """Creates topics with some partitions, each shown with its leaders by then; they are deleted at the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    created: list[str] = []

    def create(partitions: int) -> str:
        topic = f"{name}-{len(created)}"
        wanted = requests.NewTopic(topic, num_partitions=partitions, replication_factor=1)
        admin.create_topics([wanted])[topic].result(PATIENCE_S)
        created.append(topic)
        deadline = time.monotonic() + PATIENCE_S
        while not _is_led(admin, topic, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has no leaders after {PATIENCE_S:g} s")
            time.sleep(0.05)
        return topic

    yield create
    for answer in admin.delete_topics(created).values() if created else ():
        answer.result(PATIENCE_S)
