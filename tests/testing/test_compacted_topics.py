"""A test has a topic compacted when it wants, and moves the clock over what waits for time."""

from pathlib import Path

import pytest

from kpybroker.testing import Broker, BrokerFailed

COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": 60_000}


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "directory"])
def test_compaction_keeps_the_newest_record_of_each_key(tmp_path: Path, in_memory: bool) -> None:
    with Broker(directory=None if in_memory else tmp_path) as broker:
        broker.create_topic("users", config=COMPACTED)
        for number in range(20):
            broker.produce("users", (f"user {number % 4}", f"{number}"))
        broker.produce("users", ("user 3", None))
        broker.compact_topic("users")
        assert [(one.key, one.value) for one in broker.records("users")] == [
            (b"user 0", b"16"), (b"user 1", b"17"), (b"user 2", b"18"), (b"user 3", None),
        ]  # fmt: skip
        broker.clock.advance(seconds=61)
        broker.produce("users", ("user 0", "new"))
        broker.compact_topic("users")
        assert {one.key: one.value for one in broker.records("users")} == {
            b"user 0": b"new", b"user 1": b"17", b"user 2": b"18",
        }  # fmt: skip
        broker.restart()
        assert [one.value for one in broker.records("users")] == [b"17", b"18", b"new"]


def test_a_topic_that_cannot_be_compacted_gives_the_reason() -> None:
    with Broker() as broker:
        broker.create_topic("plain")
        with pytest.raises(BrokerFailed, match="topic plain is not compacted"):
            broker.compact_topic("plain")
        with pytest.raises(BrokerFailed, match="no topic other"):
            broker.compact_topic("other")
