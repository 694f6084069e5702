"""Users, quotas and tokens live in the metadata log: both programs use and change what the other has written, snapshots
included. So do topics whose creator is counted."""

from pathlib import Path

import pytest
from moved_security import PROPERTIES, Moved
from tenant import Tenant

from kpybroker.client.client import Client
from kpybroker.machines.metadata.creator import creator_in, mark_of
from kpywire.error_codes import POLICY_VIOLATION
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oracle import ApacheKafka, BrokerProcess, free_port
from oracle.process import HOST
from support.waiting import becomes

pytestmark = [pytest.mark.java, pytest.mark.slow]

WITHOUT = ("transaction.version",)


def create(node: BrokerProcess, name: str) -> int:
    """The error code for a new topic."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    with Client(node.bootstrap_servers) as client:
        (result,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
        return int(result.error_code)


def counted(node: BrokerProcess) -> set[str]:
    """The topics that count for the clients without a login."""
    mark = mark_of("User:ANONYMOUS")
    with Client(node.bootstrap_servers) as client:
        return {each.name or "" for each in client.topics() if creator_in(each.topic_id) == mark}


def test_users_quotas_and_tokens_stay_what_they_are_in_both_directions(tmp_path: Path) -> None:
    port = free_port()
    options = [part for name in WITHOUT for part in ("--feature", f"{name}=0")]
    kafka = ApacheKafka(
        {
            **PROPERTIES,
            "kpybroker.max.topics.per.principal": "2",
        },
        directory=tmp_path,
        formatting=("--standalone", *options),
    )
    for key in ("listeners", "advertised.listeners"):
        kafka.properties[key] += f",SECURED://{HOST}:{port}"
    protocols = kafka.properties.get("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")
    kafka.properties["listener.security.protocol.map"] = f"{protocols},SECURED:SASL_PLAINTEXT"
    ours, moved = Tenant(kafka), Moved(port)

    def turn(node: BrokerProcess, name: str) -> None:
        moved.check(node)
        moved.change(node, name)
        moved.check(node)

    with kafka:
        turn(kafka, "kafka")
        assert create(kafka, "of-kafka") == 0
        kafka.stop()
        with ours:
            turn(ours, "ours")
            assert [create(ours, name) for name in ("a", "b", "c")] == [0, 0, POLICY_VIOLATION]
        ours.start()  # from the snapshot that a clean stop leaves
        turn(ours, "ours again")
        ours.stop()
        kafka.start()
        turn(kafka, "kafka again")
        becomes(lambda: counted(kafka), {"a", "b"})
        assert create(kafka, "d") == 0
    with ours:
        moved.check(ours)
        becomes(lambda: counted(ours), {"a", "b"})
        assert create(ours, "e") == POLICY_VIOLATION
