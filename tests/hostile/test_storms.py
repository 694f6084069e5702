"""Requests in order by the hundred, each of which makes the broker work or remember: all answered, nobody else hurt."""

from collections.abc import Iterator

import pytest
from attacker import Attacker
from storms import MAY_WAIT, PACKED, STORMS, WAIT_S, WIDE, blow, prepare
from watched import PATIENCE_S, WatchedBroker

from kpywire import error_codes
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

REQUESTS = 15


@pytest.fixture(scope="module")
def prepared(broker: WatchedBroker) -> Iterator[None]:
    with Attacker(broker.port) as client:
        prepare(client)
        yield
        topics = [DeleteTopicState(name=name) for name in (WIDE, PACKED)]
        deleted = client.call(DeleteTopicsRequest(topics=topics, timeout_ms=30_000), 6)
        assert all(each.error_code == error_codes.NONE for each in deleted.responses)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("name", STORMS)
def test_a_storm_is_answered_and_over(target: WatchedBroker, name: str, rounds: int) -> None:
    storm, connections = STORMS[name]
    count = REQUESTS * rounds
    wait_s = WAIT_S if name in MAY_WAIT else PATIENCE_S
    settled = blow(target.port, storm, connections, iter(range(count)), wait_s)
    assert settled == count or name in MAY_WAIT
