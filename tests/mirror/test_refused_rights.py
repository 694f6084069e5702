"""A source refuses its mirror a right: what lacks is named, and the rest is mirrored."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_held_transactions import A, B, commit_in_both
from two_clusters import client_of, two_clusters

from kpybroker.cli.mirror import command
from kpybroker.client import acl_requests
from kpybroker.client.acl_requests import AclBinding
from kpybroker.machines.mirror.mirror import Mirror
from kpybroker.machines.mirror.planning import TopicHere, TopicThere, plan_topics
from support.waiting import eventually
from tests.mirror.test_mirror_node import create, produce

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC, LITERAL = 2, 3
ALL, READ, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 8, 10
DENY, ALLOW = 2, 3
HIDDEN = TopicThere("orders", b"i" * 16, 3, 5, None)


def acl(topic: str, operation: int, permission: int) -> AclBinding:
    return AclBinding(TOPIC, topic, LITERAL, "User:ANONYMOUS", "*", operation, permission)


def test_a_topic_whose_configs_are_refused_is_named_and_the_others_are_mirrored(tmp_path: Path, caplog: Any) -> None:
    with two_clusters(tmp_path, AUTHORIZED) as made:
        for topic in ("h-a", "h-b"):
            create(made.source, topic)
            produce(made.source, topic, 2)
        with client_of(made.source) as client:
            acl_requests.create(client, [acl("h-a", ALL, ALLOW), acl("h-a", DESCRIBE_CONFIGS, DENY)])
        made.create_mirror("dr:h-*")
        eventually(lambda: "h-b" in made.mirror.node.image.topics, "the other topic is there")
        made.wait_for("h-b")
        assert "h-a" not in made.mirror.node.image.topics
        assert "Topic h-a is not mirrored: the source does not let its user describe its configs" in caplog.text


@pytest.mark.parametrize("operation", [READ, DESCRIBE])
def test_an_authorizer_that_refuses_the_transactions_is_named_by_status(tmp_path: Path, operation: int) -> None:
    with two_clusters(tmp_path, AUTHORIZED) as made:
        for spot in (A, B):
            create(made.source, spot.topic)
        commit_in_both(made.source, b"x")
        with client_of(made.source) as client:
            acl_requests.create(client, [acl("__transaction_state", operation, DENY)])
        made.create_mirror("dr:h-*")

        def words() -> str:
            """The output of ``status``."""
            return CliRunner().invoke(command, ["status", "-b", f"127.0.0.1:{made.mirror.port}"]).output

        eventually(lambda: "does not let its user read __transaction_state" in words(), "status says it")
        made.wait_for(A.topic)


def test_a_topic_whose_configs_are_hidden_later_keeps_them_and_grows() -> None:
    plan = plan_topics(Mirror("dr", ["*"]), [HIDDEN], {"orders": TopicHere(HIDDEN.id, 2, 5000, "dr", {"a": "b"})})
    assert (plan.grow, plan.configure, plan.unfed) == ([("orders", 3)], [], {})
    assert plan_topics(Mirror("dr", ["*"]), [HIDDEN], {}).create == []
