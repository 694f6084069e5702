"""A search that does not end by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from console_node import ConsoleNode

from kpybroker.machines.console.record_tasks import Answer, RecordTask, work
from kpybroker.monitoring.console import searches
from kpystorage.disk import Disk
from support.waiting import eventually

NEVER = b"never"


@contextmanager
def running_search(node: ConsoleNode, topic: str) -> Iterator[str]:
    """Search a topic for a text until the end of the context. Yields the address of the search."""
    may_end = Event()

    def endless(disk: Disk, task: RecordTask) -> Iterator[Answer]:
        if task.filter is not None and any(needle.data == NEVER for needle in task.filter.needles):
            may_end.wait(120)
        yield from work(disk, task)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searches, "work", endless)
        see = node.post("/searches", topic=topic, text=NEVER.decode()).json["see"]
        eventually(lambda: node.get(f"/api{see}").json["state"] == "running", "the search runs")
        try:
            yield see
        finally:
            may_end.set()
