"""The cost of a process and its descendants, read from Linux's ``/proc``.

CPU seconds come from each process's CPU clock, in nanoseconds, with all its threads, ended ones too; children that
ended between two readings add to their parent in steps of 10 ms. Memory is resident set size, as ``ps`` shows it.
"""

import os
import time
from pathlib import Path
from typing import Final

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
SCHEDULER_CLOCK: Final = 2
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """The process and all its living descendants; empty if it is gone."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{current}/task")
        except FileNotFoundError:
            continue
        found.append(current)
        for thread in threads:
            try:
                children = Path(f"/proc/{current}/task/{thread}/children").read_text()
            except FileNotFoundError:
                continue
            waiting += map(int, children.split())
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the process tree, ended children included."""
    seconds = 0.0
    for member in tree(pid):
        try:
            text = Path(f"/proc/{member}/stat").read_text()
            seconds += time.clock_gettime(process_cpu_clock(member))
        except OSError:
            continue
        seconds += sum(map(int, stat_fields(text)[13:15])) / TICKS_PER_SECOND
    return seconds


def process_cpu_clock(pid: int) -> int:
    """The result of clock_getcpuclockid(3): the clock that runs while any thread of the process does."""
    return ~pid << 3 | SCHEDULER_CLOCK


def rss_bytes(pid: int) -> int:
    """Resident memory of the process tree; pages shared between its processes are counted once in each."""
    pages = 0
    for member in tree(pid):
        try:
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
        except FileNotFoundError:
            continue
    return pages * PAGE_BYTES


def stat_fields(text: str) -> list[str]:
    """The fields of ``/proc/PID/stat`` after the program's name, which may itself hold spaces and parentheses."""
    return text[text.rindex(")") + 2 :].split()
