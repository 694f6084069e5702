"""The time that a broker's loop works for others while an honest request waits, in seconds of CPU.

An honest client in a process of its own asks for metadata every few milliseconds, and reads the CPU time of the
broker's thread (``/proc/PID/schedstat``) before it asks and when it is answered. Other load of the machine does not
count, except that an answer that is read late counts for what the loop did meanwhile.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from types import TracebackType

from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.raw_client import RawClient

PAUSE_S = 0.002
TOPIC = "honest"
METADATA_VERSION = 12


class HonestClient:
    """The client. ``topic`` must exist."""

    def __init__(self, port: int, pid: int, topic: str = TOPIC) -> None:
        words = [sys.executable, __file__, str(port), str(pid), topic]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.most_s()

    def __enter__(self) -> "HonestClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def most_s(self) -> float:
        """The longest time since the last call."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return float(process.stdout.readline())


def worked_s(pid: str) -> float:
    """The CPU time of a process's first thread."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def main(port: int, pid: str, topic: str) -> None:
    """Ask until standard input ends; each line of it is answered with a time."""
    with contextlib.suppress(PermissionError):  # read answers at once, also on a busy machine
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    most_s = 0.0
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with RawClient(port, timeout_s=300) as client:
        client.call(request, METADATA_VERSION)
        while True:
            if select.select([sys.stdin], [], [], 0)[0]:
                if not sys.stdin.readline():
                    return
                print(most_s, flush=True)
                most_s = 0.0
            before_s = worked_s(pid)
            client.call(request, METADATA_VERSION)
            most_s = max(most_s, worked_s(pid) - before_s)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
