"""The longest step of the event loop while a page of the console is made: ``make budget`` prints them.

A step is what the loop runs before it serves clients again. It is counted in calls of functions, and the clock of the
console's pace counts calls, too: so machine and load do not matter.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from unittest.mock import patch

from console_node import ConsoleNode, Reply, console_node
from stage import Stage

from kpybroker.monitoring.console import pace
from kpybroker.monitoring.console.pages import PAGES
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.raw_client import RawClient
from support.waiting import eventually

CALL_NS = 200
"""The time that a call takes on the counted clock, about that of a call on a slow machine."""
PIECE = pace.PIECE_NS // CALL_NS
"""The calls after which the console gives way."""
MOST = 2 * PIECE
"""The calls of a step that are allowed: a piece, and the last thing of it."""
EXCEPT = dict.fromkeys(("/configs", "/api/configs"), 16_000)
"""The pages that ask for the configs of a broker with all their texts. That request is one step for clients as well."""
SORTED = {"/topics": ("/topics?sort=-lag", "/topics?sort=-size", "/topics?sort=-rate", "/topics?sort=state")}
"""Further addresses of a page: these need a value of every topic."""
TOPICS, CLIENTS = 500, 100
TRIES = 3


class Steps:
    """Counts the calls of each step of a loop, in whose thread it must be started and stopped."""

    def __init__(self) -> None:
        self.longest = self._calls = self._passed = 0

    def start(self) -> None:
        """Begin."""
        self.longest = self._calls = self._passed = 0
        sys.setprofile(self._see)

    def stop(self) -> int:
        """End. Return the calls of the longest step."""
        sys.setprofile(None)
        return max(self.longest, self._calls)

    def now_ns(self) -> int:
        """The time: it goes on with each call."""
        return (self._passed + self._calls) * CALL_NS

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname == "Handle._run":
            self.longest = max(self.longest, self._calls)
            self._passed += self._calls
            self._calls = 0
        elif event in ("call", "c_call"):
            self._calls += 1


@contextmanager
def crowded() -> Iterator[Stage]:
    """A node with much of everything that pages list."""
    with console_node(kpybroker_console_write_enable="true") as node:
        stage = Stage(node)
        port = node.node.ports["PLAINTEXT"]
        clients = [RawClient(port, client_id=f"client-{number}") for number in range(CLIENTS)]
        names = [f"topic-{number}" for number in range(TOPICS)]
        wanted = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in names
        ]
        clients[0].call(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 5)
        eventually(lambda: len(node.node.image.topics) > TOPICS, "all topics")
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in names]
        clients[0].call(OffsetCommitRequest(group_id="readers", topics=topics), 2)
        yield stage
        for client in clients:
            client.sock.close()
        stage.close()


def longest_steps(stage: Stage) -> dict[str, int]:
    """The calls of the longest step of each page, and of its JSON, by path."""
    found: dict[str, int] = {}
    for page in PAGES:
        for path in {page.path, page.api_path}:
            for address in (stage.address(page, path), *SORTED.get(path, ())):
                calls = longest_of(stage.node, partial(stage.node.get, address), 200)
                found[path] = max(found.get(path, 0), calls)
    return found


def longest_of(node: ConsoleNode, ask: Callable[[], Reply], status: int) -> int:
    """The calls of the longest step while a request is answered. It is tried again, since the node has work of its
    own; before that once more, for what is imported."""
    steps = Steps()
    least = sys.maxsize
    with patch.object(pace, "perf_counter_ns", steps.now_ns):
        assert ask().status == status
        for _ in range(TRIES):
            node.call(steps.start)
            assert ask().status == status
            least = min(least, node.call(steps.stop))
            if least <= MOST:
                break
    return least


if __name__ == "__main__":
    with crowded() as made:
        print("Calls in the longest step of the event loop, and those allowed:")
        for path, calls in sorted(longest_steps(made).items(), key=lambda each: -each[1]):
            print(f"{calls:8} {EXCEPT.get(path, MOST):8}  {path}")
