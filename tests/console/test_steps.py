"""No page holds the event loop, whatever there is to show: its longest step is counted in calls (`make budget`)."""

import asyncio
from unittest.mock import patch

import pytest
from console_node import console_node
from steps import EXCEPT, MOST, PIECE, Steps, crowded, longest_steps

from kpybroker.hosts.replicas import upkeep
from kpybroker.monitoring.console import pace


def test_no_page_of_a_crowded_node_holds_the_loop() -> None:
    with crowded() as stage:
        found = longest_steps(stage)
    assert {path: calls for path, calls in found.items() if calls > EXCEPT.get(path, MOST)} == {}
    assert max(found.values()) > PIECE, "the node is crowded: some page has to give way"


@pytest.mark.slow
def test_a_topic_of_thousands_of_partitions_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FLUSH_CHECK_MS", 3_600_000)  # a look at each partition, which is not the console's
    with console_node(kpybroker_console_write_enable="true") as node:
        node.create("wide", 5_000)
        node.commit("readers", "wide", 0)
        steps = Steps()
        with patch.object(pace, "perf_counter_ns", steps.now_ns):
            for path in ("/topics", "/topics?sort=-size", "/topics?sort=-lag", "/topics?sort=state", "/topics/wide"):
                found = []
                for _ in range(3):  # the node has work of its own, too
                    assert node.get(path).status == 200
                    node.call(steps.start)
                    assert node.get(path).status == 200
                    found.append(node.call(steps.stop))
                assert min(found) <= MOST, path


def test_work_that_does_not_give_way_is_found() -> None:
    async def work(pause_after: int) -> None:
        for number in range(2 * MOST):
            abs(number)
            if number % pause_after == pause_after - 1:
                await asyncio.sleep(0)

    with console_node() as node:
        longest = []
        for pause_after in (100, 2 * MOST):
            steps = Steps()
            node.call(steps.start)
            node.run(work(pause_after))
            longest.append(node.call(steps.stop))
    assert longest[0] < MOST < longest[1]
