"""An honest client in a process of its own: how long the event loop of a broker works while one request of it waits.

CPU time of the broker's first thread counts, so other load of the machine does not. It asks for metadata until its
standard input ends, and then writes the longest of these times.
"""

import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 120.0
PAUSE_S = 0.005
REQUEST = struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0)
"""Metadata of no topic."""


class Held:
    """The outcome, once the probe has ended."""

    longest_ms = 0.0
    requests = 0


@contextmanager
def probing(port: int, pid: int) -> Iterator[Held]:
    """Probe while something else is done."""
    held = Held()
    command = [sys.executable, __file__, str(port), str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield held
        finally:
            process.stdin.close()
            words = process.stdout.read().split()
    held.longest_ms, held.requests = float(words[0]), int(words[1])


def main(port: int, pid: int) -> None:
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    worked = Path(f"/proc/{pid}/schedstat")

    def worked_ms() -> float:
        return int(worked.read_text().split()[0]) / 1e6

    def ask() -> None:
        sock.sendall(REQUEST)
        left = 4
        size = b""
        while len(size) < left:
            size += sock.recv(left - len(size))
        left = struct.unpack(">i", size)[0]
        while left:
            left -= len(sock.recv(left))

    longest_ms, requests = 0.0, 0
    for _warm in range(20):
        ask()
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        began_ms = worked_ms()
        ask()
        longest_ms = max(longest_ms, worked_ms() - began_ms)
        requests += 1
    print(longest_ms, requests)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
