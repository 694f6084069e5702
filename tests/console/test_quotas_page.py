"""The page of quotas: which there are, what their clients use, and who waits."""

from collections.abc import Iterator

import pytest
from console_node import ConsoleNode, console_node

from kpywire.record import Record


@pytest.fixture
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        yield made


def test_a_quota_is_shown_with_what_its_clients_use_and_how_long_they_wait(node: ConsoleNode) -> None:
    assert node.get("/api/quotas").json == {"quotas": [], "hidden": None, "used": [], "throttled": 0}
    node.create("flights")
    node.limit("producer_byte_rate", 1.0)
    node.produce("flights", [Record(value=b"x" * 5_000)])
    found = node.get("/api/quotas").json
    assert found["quotas"] == [{"entity": "client-id (default)", "name": "producer_byte_rate", "value": 1.0}]
    (used,) = found["used"]
    assert (used["quota"], used["user"]) == ("producer_byte_rate", "")
    assert used["per_second"] > 1
    assert used["throttle_ms"] > 0
    page = node.get("/quotas").text
    assert "client-id (default)" in page
    assert used["client_id"] in page


def test_a_share_of_the_loop_is_shown_in_percent(node: ConsoleNode) -> None:
    node.create("flights")
    node.limit("request_percentage", 50.0)
    node.produce("flights", [Record(value=b"x")])
    assert [each["quota"] for each in node.get("/api/quotas").json["used"]] == ["request_percentage"]
    assert " %</td>" in node.get("/quotas").text
