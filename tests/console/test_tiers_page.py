"""The page of tiered storage: what it says of each partition, its order, and that others do not have it."""

from collections.abc import Iterator

import pytest
from console_node import ConsoleNode, console_node

from kpybroker.hosts.remote_log.figures import ThrottleTimes
from kpybroker.machines.remote_log.copying import CopyLag, Wait
from support.tier_states import FixedTiers, tier_state

TRANSACTION = "waits for the transaction of producer 7 since offset 90"


def tiers_of_a_node() -> FixedTiers:
    view = FixedTiers(
        tier_state("flights", 0, copied=99, end=120, local_log_start=50, remote_bytes=4096, segments=2),
        tier_state(
            "flights", 1, copy_lag=CopyLag(2048, 3), wait=Wait.TRANSACTION, reason=TRANSACTION, local_bytes=2048
        ),
        tier_state("flights", 2, copy_lag=CopyLag(10, 1), wait=Wait.LAG, reason="a lag of 1 h is configured"),
        tier_state("flights", 3, wait=None, reason="", is_ready=False),
        store="s3://bucket/<prefix>",
        store_error="put orders: the bucket does not exist",
    )
    view.throttled = ThrottleTimes(12.0, 30, 0.0, 0)
    return view


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        view = tiers_of_a_node()
        made.call(lambda: setattr(made.node.broker, "remote_log", view))
        yield made


def test_the_partition_furthest_behind_comes_first_with_its_reason(node: ConsoleNode):
    found = node.get("/api/tiers").json
    rows = [(row["partition"], row["reason"]) for row in found["partitions"]]
    assert rows[:2] == [(1, TRANSACTION), (2, "a lag of 1 h is configured")]
    assert (3, "the metadata of the partition are still being read") in rows
    assert (found["total"], found["lag_bytes"], found["lag_segments"], found["remote_bytes"]) == (4, 2058, 4, 4096)


def test_a_viewer_sorts_by_another_column(node: ConsoleNode):
    assert node.get("/api/tiers", sort="-remote").json["partitions"][0]["partition"] == 0
    assert node.get("/api/tiers", sort="partition").json["partitions"][3]["partition"] == 3


def test_the_page_names_the_store_and_its_last_failure(node: ConsoleNode):
    text = node.get("/tiers").text
    assert "s3://bucket/&lt;prefix&gt;" in text
    assert "The last call to the store failed: put orders: the bucket does not exist" in text
    assert "made copies wait for 12 ms on average" in text
    assert TRANSACTION in text


def test_the_time_until_a_wait_ends_is_shown(node: ConsoleNode):
    broker = node.node.broker
    before = broker.remote_log
    until_ms = int(broker.scheduler.monotonic_ms()) + 600_000
    waiting = FixedTiers(tier_state("flights", wait=Wait.LAG, reason="a lag", until_ms=until_ms))
    node.call(lambda: setattr(broker, "remote_log", waiting))
    try:
        (row,) = node.get("/api/tiers").json["partitions"]
        assert 500 < row["until_s"] <= 600
        assert "at most" in node.get("/tiers").text
    finally:
        node.call(lambda: setattr(broker, "remote_log", before))


def test_the_menu_has_the_page_only_where_tiered_storage_is_configured(node: ConsoleNode):
    assert 'href="/tiers"' in node.get("/").text
    with console_node() as plain:
        assert 'href="/tiers"' not in plain.get("/").text
        assert plain.get("/api/tiers").json["is_on"] is False
        assert "remote.log.storage.system.enable" in plain.get("/tiers").text
