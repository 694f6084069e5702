"""No page holds the event loop, whatever there is to show: its longest step is counted in calls (`make budget`)."""

import asyncio

from console_node import console_node
from steps import EXCEPT, MOST, PIECE, Steps, crowded, longest_steps


def test_no_page_of_a_crowded_node_holds_the_loop() -> None:
    with crowded() as stage:
        found = longest_steps(stage)
    assert {path: calls for path, calls in found.items() if calls > EXCEPT.get(path, MOST)} == {}
    assert max(found.values()) > PIECE, "the node is crowded: some page has to give way"


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
