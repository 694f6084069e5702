"""A bound on topics per principal, as clients meet it: in CreateTopics, CreatePartitions and when topics create
themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import NewTopic

from kpybroker.cli import main
from kpybroker.requests.serving import refused_creations
from kpybroker.testing import Broker, Security, allow
from support.waiting import eventually

BOUNDS = {"kpybroker.max.topics.per.principal": 2, "kpybroker.max.partitions.per.principal": 5}


@pytest.fixture(params=[False, True], ids=["everybody", "authorizer"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    everything = [allow("alice", "CREATE", "ALTER", "DELETE", "WRITE", topic="*")] if request.param else None
    security = Security(["alice"], acls=everything)
    with Broker({**BOUNDS, "auto.create.topics.enable": True}, security=security, directory=tmp_path) as broker:
        yield broker


def admin_of(broker: Broker) -> AdminClient:
    return AdminClient({**broker.access.client("alice").confluent(), "log_level": 0})


def created(admin: AdminClient, name: str, partitions: int = 1) -> KafkaError | None:
    """The error for a new topic; None if it was created."""
    try:
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
    except KafkaException as error:
        found: KafkaError = error.args[0]
        return found
    return None


def test_a_client_hears_of_the_bound_wherever_it_creates_something(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_creations, "KEPT_MS", 300)
    admin = admin_of(broker)
    assert created(admin, "a", 4) is None
    refused = created(admin, "b", 2)
    assert refused is not None
    assert refused.code() == KafkaError.POLICY_VIOLATION
    assert "User:alice has 4 partitions; with 2 more" in refused.str()
    assert created(admin, "b") is None
    assert "User:alice has created 2 topics, and may have 2" in str(created(admin, "c"))
    with pytest.raises(KafkaException, match="more than 5"):
        admin.create_partitions([NewPartitions("b", 2)])["b"].result(20)
    producer = Producer({**broker.access.client("alice").confluent(), "log_level": 0})

    def code() -> int:
        error = producer.list_topics("by-itself", timeout=20).topics["by-itself"].error
        return 0 if error is None else int(error.code())

    eventually(lambda: code() == KafkaError.POLICY_VIOLATION, "the refusal of a topic that creates itself")
    admin.delete_topics(["a"])["a"].result(20)
    eventually(lambda: code() == 0, "a topic that creates itself, once there is room")


def test_topics_are_counted_after_a_restart_and_no_more_when_they_are_deleted(broker: Broker) -> None:
    admin = admin_of(broker)
    assert [created(admin, name) for name in ("a", "b")] == [None, None]
    broker.restart()
    admin = admin_of(broker)
    counted = CliRunner().invoke(main, ["quotas", "created", "alice", "bob", "-b", broker.bootstrap_servers])
    assert [line.split() for line in counted.output.splitlines()[1:]] == [["alice", "2", "2"], ["bob", "0", "0"]]
    assert created(admin, "c") is not None
    admin.delete_topics(["a"])["a"].result(20)
    assert created(admin, "c") is None


def test_super_users_have_no_bound() -> None:
    with Broker(BOUNDS, security=Security(acls=[])) as broker:
        for name in "abc":
            broker.create_topic(name)
        assert {*"abc"} <= {*broker.topics()}
