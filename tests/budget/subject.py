"""The broker that is counted: a node in a process of its own, told by lines on its standard input what to count.

``calls`` and ``memory`` begin to count, ``stop`` answers with one line of JSON; ``mark`` makes one system call that
nothing else makes, for who traces them. In between, requests come by a socket as in life. Calls are counted on the
event loop's thread alone, so what threads do in the background does not disturb.
"""

import asyncio
import gc
import json
import logging
import os
import re
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import Node
from kpybroker.requests.dispatching import dispatcher
from kpybroker.requests.handlers import produce
from kpybroker.requests.server import connection
from kpybroker.runtime.fairness import debtor, line
from kpybroker.runtime.io.event_loop import new_event_loop
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "kpybroker.http.listener": "",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
OPEN_FILES = 512
NUMBER = re.compile(r" \d+>$")
TIMES = {
    dispatcher: ("PIECE_NS", "WAITED_NS"),
    connection: ("PIECE_NS",),
    debtor: ("PIECE_NS",),
    line: ("SLICE_NS", "BRIEF_SLICE_NS"),
    produce: ("AT_ONCE_MS",),
}
"""Limits of time above which work is done otherwise: on a busy machine, or under a profiler, that may be anything."""
FOREVER_NS = 10**15
ROOT = str(Path(__file__).resolve().parents[2])


class Calls:
    """Calls of Python functions, by file and name, and of functions in C, by name."""

    def __init__(self) -> None:
        self.python: Counter[Any] = Counter()
        self.c: Counter[str] = Counter()
        sys.setprofile(self._see)

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.python[frame.f_code] += 1
        elif event == "c_call":
            self.c[argument.__qualname__] += 1

    def stop(self) -> dict[str, Any]:
        sys.setprofile(None)
        named: Counter[str] = Counter()
        for code, count in self.python.items():
            named[f"{place(code.co_filename)} {code.co_qualname}"] += count
        return {"python": named, "c": self.c}


def place(filename: str) -> str:
    """A file of the project by its path in it, another by its last two parts, compiled text without its number."""
    if filename.startswith("<"):
        return NUMBER.sub(">", filename)
    inside = filename.removeprefix(ROOT + "/")
    return inside if inside != filename else "/".join(Path(filename).parts[-2:])


class Memory:
    """The most memory that is taken at any moment, and what is still held at the end, in bytes."""

    def __init__(self) -> None:
        gc.collect()
        tracemalloc.start()
        tracemalloc.reset_peak()
        self.before, _ = tracemalloc.get_traced_memory()

    def stop(self) -> dict[str, Any]:
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return {"peak": peak - self.before, "held": after - self.before}


async def serve(directory: str) -> None:
    """Until standard input ends."""
    logging.disable(logging.WARNING)
    for module, names in TIMES.items():
        for name in names:
            setattr(module, name, FOREVER_NS)
    loop = asyncio.get_running_loop()
    config = BrokerConfig.load(None, {**SETTINGS, "log.dirs": directory})
    node = Node(config, loop, lambda line: print(line, file=sys.stderr))
    await node.start(RealDisk(Descriptors(OPEN_FILES)))
    gc.collect()
    gc.freeze()
    gc.disable()
    print(node.ports["PLAINTEXT"], flush=True)
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    counting: Calls | Memory | None = None
    while command := (await commands.readline()).decode().strip():
        if command == "stop":
            assert counting is not None
            print(json.dumps(counting.stop()), flush=True)
        elif command == "mark":
            print(os.getppid(), flush=True)
        else:
            counting = Calls() if command == "calls" else Memory()
            print("counting", flush=True)
    await node.stop()


if __name__ == "__main__":
    running = new_event_loop()
    asyncio.set_event_loop(running)
    running.run_until_complete(serve(sys.argv[1]))
