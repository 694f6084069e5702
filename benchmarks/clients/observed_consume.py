"""Reads COUNT records as `benchmarks.clients.confluent_consume` does, and prints what each of its threads did.

    python -m benchmarks.clients.observed_consume BOOTSTRAP TOPIC PARTITIONS COUNT [queued]

The loop runs on the main thread; librdkafka fetches and parses on a thread of its own. Linux counts for each how long
it ran and how long it waited for a core; the rest of the time it waited for something to do. With ``queued`` the time
begins when all records lie in the client's queue, so that no broker is part of it. librdkafka writes a line to stderr
for each answer.
"""

import json
import os
import re
import resource
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.clients.confluent_consume import assigned, opened, read

REST_S: Final = 0.3
REST_CPU_S: Final = 0.005
FETCHER: Final = "rdk:broker1"
"""The name of librdkafka's thread for the broker with id 1."""


class ThreadTimes(NamedTuple):
    """Seconds of a thread: on a core, and ready but without one. ``sleeps`` counts how often it had to wait."""

    running_s: float = 0.0
    ready_s: float = 0.0
    sleeps: int = 0


def of_threads() -> dict[str, ThreadTimes]:
    """The times of this process's threads so far, by their names; the main thread is ``loop``."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        name = "loop" if int(task.name) == os.getpid() else (task / "comm").read_text().strip()
        running_ns, ready_ns, _ = map(int, (task / "schedstat").read_text().split())
        sleeps = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)
        found[name] = ThreadTimes(running_ns / 1e9, ready_ns / 1e9, int(sleeps[1]) if sleeps else 0)
    return found


def wait_for_rest() -> None:
    """Wait until librdkafka's thread has nothing left to fetch."""
    before_s, now_s = -1.0, 0.0
    while now_s - before_s > REST_CPU_S:
        time.sleep(REST_S)
        before_s, now_s = now_s, of_threads().get(FETCHER, ThreadTimes()).running_s


def observe(bootstrap: str, topic: str, partitions: int, count: int, *, queued: bool) -> dict[str, object]:
    """The seconds of the loop and of both threads. Raises RuntimeError when the broker stops answering before."""
    consumer = opened(bootstrap, {"debug": "protocol"})
    consumer.list_topics(topic, 10)
    consumer.assign(assigned(topic, partitions))
    if queued:
        wait_for_rest()
    before, began_s, began_at_s = of_threads(), time.perf_counter(), time.time()
    read(consumer, count)
    seconds, after = time.perf_counter() - began_s, of_threads()
    taken = {}
    for name in ("loop", FETCHER):
        earlier, later = before.get(name, ThreadTimes()), after.get(name, ThreadTimes())
        taken[name] = [end - start for start, end in zip(earlier, later, strict=True)]
    consumer.close()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "began_at_s": began_at_s, "threads": taken, "peak_mb": peak_mb}


if __name__ == "__main__":
    seen = observe(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), queued="queued" in sys.argv[5:])
    print(json.dumps(seen))
