"""What a process and its descendants cost, read from Linux's ``/proc``.

CPU seconds have a resolution of 10 ms and include children that ended, so a difference over a round of a second or more
is exact enough. Memory is resident set size, as ``ps`` shows it.
"""

import os
from pathlib import Path
from typing import Final

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
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
    ticks = 0
    for member in tree(pid):
        try:
            text = Path(f"/proc/{member}/stat").read_text()
        except FileNotFoundError:
            continue
        ticks += sum(map(int, stat_fields(text)[11:15]))
    return ticks / TICKS_PER_SECOND


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
