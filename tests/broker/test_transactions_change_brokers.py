"""One data directory, two programs: a transaction that one broker began is ended by the other; both read alike."""

from pathlib import Path
from typing import Any

import pytest
from test_groups_change_brokers import brokers_on

from kpywire import error_codes
from kpywire.messages.describe_transactions import TransactionState
from support.group_requests import offsets
from support.raw_client import RawClient, connect
from support.raw_requests import create
from support.raw_transactions import (
    ADDING,
    GROUP,
    Transactional,
    aborted_in,
    committed_values,
    fetch,
    find_coordinator,
    stable_end,
    values_in,
)
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]


def read(raw: RawClient) -> dict[str, Any]:
    """The records that readers and administrators see, in both generations of readers."""
    found: dict[str, Any] = {}
    for topic in ("t", "u"):
        answer = fetch(raw, topic, committed=True)
        found[topic] = (
            answer.last_stable_offset,
            aborted_in(answer),
            committed_values(raw, topic),
            values_in(fetch(raw, topic, committed=False)),
        )
    return found


def described(producer: Transactional) -> TransactionState:
    """An open transaction; Kafka names its topics in any order."""
    state = producer.until("Ongoing")
    state.topics.sort(key=lambda each: each.topic)
    return state


def test_transactions_stay_what_they_are_on_the_other_broker(tmp_path: Path) -> None:
    ours, kafka = brokers_on(tmp_path)
    producers = [Transactional(None, f"p{number}") for number in range(4)]  # type: ignore[arg-type]
    left: dict[str, Any] = {}
    open_state: Any = None
    for round_number, broker in enumerate((ours, kafka, ours)):
        with broker, connect(broker.bootstrap_servers) as raw:
            find_coordinator(raw, "p0")
            find_coordinator(raw, "g", GROUP)
            for producer in producers:
                producer.raw = raw
            if round_number == 0:
                for topic in ("t", "u"):
                    create(raw, topic, 1)
                for producer in producers:
                    assert producer.init().error_code == error_codes.NONE
            else:
                assert described(producers[0]) == open_state
                assert read(raw) == left
                zombie = Transactional(raw, "p1", producers[1].producer_id, producers[1].epoch - 1)
                assert zombie.produce("t", b"zombie", version=ADDING, sequence=1).error_code == 47
                end = producers[0].end(round_number == 1, 5)
                assert (end.error_code, end.producer_epoch) == (error_codes.NONE, round_number)
                eventually(lambda: stable_end(raw, "t") > left["t"][0], "the marker")  # noqa: B023
                eventually(lambda: offsets(raw, "g") == {"t": {0: (100, -1, "", 0)}}, "the commit")
                producers[0].until("CompleteCommit", "CompleteAbort")
            for number, producer in enumerate(producers[1:]):
                value = f"{round_number}-{number}".encode()
                assert producer.produce("t", value, version=ADDING).error_code == error_codes.NONE
                assert producer.produce("u", value, version=ADDING).error_code == error_codes.NONE
                assert producer.end(number % 2 == 0, 5).error_code == error_codes.NONE
                producer.until("CompleteCommit", "CompleteAbort")
            first = producers[0]
            assert first.produce("t", b"open", version=ADDING).error_code == error_codes.NONE
            assert first.commit_offsets("g", "t", 100 + round_number, version=5) == error_codes.NONE
            left, open_state = read(raw), described(first)
    assert len(left["u"][1]) == 3
    assert left["t"][2].count(b"open") == 1
