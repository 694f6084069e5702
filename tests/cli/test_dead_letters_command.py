"""``kpybroker share dead-letters``: the records that a group rejected are listed, and replayed to their topic."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from kpybroker.testing import Broker
from kpywire.record import Header

TOPIC = "dlq.g"
REJECT = ("share", "consume", "g", "t", "-q", "--timeout-ms", "20000", "--ack", "reject", "-c")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config={"errors.deadletterqueue.auto.create.topics.enable": "true"}) as running:
        running.create_topic("t")
        for setting in ("share.auto.offset.reset=earliest", f"errors.deadletterqueue.topic.name={TOPIC}"):
            run(running, "configs", "alter", "--group", "g", "--set", setting)
        yield running


def tried(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "-b", broker.bootstrap_servers])


def run(broker: Broker, *words: str) -> str:
    result = tried(broker, *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def listed(broker: Broker) -> list[Any]:
    found: list[Any] = json.loads(run(broker, "share", "dead-letters", "list", "g", "--json"))
    return found


def records(broker: Broker) -> list[tuple[bytes | None, tuple[Header, ...]]]:
    return [(each.value, each.headers) for each in broker.records("t")]


def test_dead_letters_are_listed_and_replayed_with_their_headers(broker: Broker) -> None:
    broker.produce("t", "a", "b", "c")
    assert run(broker, *REJECT, "2") == "a\nb\n"
    broker.wait_for_records(TOPIC, 2)
    first, second = listed(broker)
    assert first["place"] == f"{TOPIC}-0@0"
    assert (first["topic"], first["partition"], first["offset"], first["deliveries"]) == ("t", 0, 0, 1)
    assert (second["offset"], second["reason"]) == (1, "Offset rejected by client.")
    (group,) = json.loads(run(broker, "groups", "describe", "g", "--json"))
    assert group["dead_letters"] == {"topic": TOPIC, "records": 2, "refusal": None}
    assert f"dead letters: 2 records in {TOPIC}" in run(broker, "groups", "describe", "g")

    reported = run(broker, "share", "dead-letters", "replay", "g", second["place"])
    assert reported == f"{TOPIC}-0@1: t-0 offset 1 was written again\n"
    value, headers = records(broker)[-1]
    assert value == b"b"
    assert ("__dlq.errors.offset", b"1") in headers
    assert len(run(broker, "share", "dead-letters", "replay", "g", "--all").splitlines()) == 2


@pytest.mark.parametrize(
    ("topic", "reason"),
    [("letters", "does not comply with the DLQ topic prefix"), ("dlq.closed", "DLQ is not enabled")],
)
def test_a_group_says_why_its_topic_gets_no_dead_letters(broker: Broker, topic: str, reason: str) -> None:
    broker.create_topic(topic, config={"errors.deadletterqueue.group.enable": str(topic == "letters").lower()})
    run(broker, "configs", "alter", "--group", "g", "--set", f"errors.deadletterqueue.topic.name={topic}")
    broker.produce("t", "a")
    assert run(broker, *REJECT, "1") == "a\n"
    described = run(broker, "groups", "describe", "g")
    assert f"dead letters: 0 records in {topic}; none are written: " in described
    assert reason in described


def test_a_replay_names_records_that_are_gone_and_were_not_copied(broker: Broker) -> None:
    broker.produce("t", "a", "b")
    assert run(broker, *REJECT, "1") == "a\n"
    broker.wait_for_records(TOPIC, 1)
    run(broker, "offsets", "delete-records", "t", "--all")
    refused = tried(broker, "share", "dead-letters", "replay", "g", "--all")
    assert refused.exit_code == 1
    assert f"{TOPIC}-0@0: t-0 offset 0 is gone, and was not copied" in refused.stderr
    copies = "errors.deadletterqueue.copy.record.enable=true"
    run(broker, "configs", "alter", "--group", "g", "--set", copies)
    broker.produce("t", "c")
    assert run(broker, *REJECT, "1") == "c\n"
    broker.wait_for_records(TOPIC, 2)
    run(broker, "offsets", "delete-records", "t", "--all")
    run(broker, "share", "dead-letters", "replay", "g", f"{TOPIC}-0@1")
    assert [value for value, _ in records(broker)] == [b"c"]


def test_a_group_without_a_dead_letter_topic_and_a_place_without_a_dead_letter_are_named(broker: Broker) -> None:
    refused = tried(broker, "share", "dead-letters", "list", "h")
    assert "h has no dead-letter topic: errors.deadletterqueue.topic.name is not set" in refused.stderr
    refused = tried(broker, "share", "dead-letters", "replay", "g", "x-0@7")
    assert "There is no dead letter of g at x-0@7" in refused.stderr
    assert tried(broker, "share", "dead-letters", "replay", "g").exit_code == 2
    assert tried(broker, "share", "dead-letters", "list", "g").stderr == "No dead letters.\n"
