"""Prints what the worlds on simulated disks do with one seed, and what a start makes of it after a crash in the middle.

python worlds_trace.py SEED       # with these tests' directories in PYTHONPATH
"""

import sys
from hashlib import sha256
from typing import Any

from compaction_world import CompactionWorld
from crash_world import World
from moving_world import MovingWorld
from test_deletion_crashes import DeletingWorld

from kpystorage.sim_disk import SimDisk, SimulatedCrash

OPERATIONS = 60
trace: list[object] = []


def plain(argument: Any) -> object:
    """An argument of a call, without addresses of objects."""
    if isinstance(argument, dict):
        return [(name, None if node is None else node.number) for name, node in argument.items()]
    if isinstance(argument, bytes | bytearray | memoryview):
        return sha256(argument).hexdigest()
    return getattr(argument, "number", argument)


def traced(name: str) -> None:
    """Have every call of a disk's method noted."""
    call = getattr(SimDisk, name)

    def noting(disk: SimDisk, *arguments: Any) -> Any:
        trace.append((name, *map(plain, arguments)))
        return call(disk, *arguments)

    setattr(SimDisk, name, noting)


def play(world: Any, crash_at: int) -> None:
    world.disk.crash_at = crash_at
    try:
        world.run()
    except SimulatedCrash:
        trace.append("crash")


def worlds(seed: int) -> list[Any]:
    return [World(seed, OPERATIONS), CompactionWorld(seed), MovingWorld(seed, OPERATIONS), DeletingWorld(seed)]


def main(seed: int) -> None:
    for name in ("rename_entries", "change", "synchronize", "synchronize_all"):
        traced(name)
    for number, whole in enumerate(worlds(seed)):
        play(whole, 0)
        print(type(whole).__name__, whole.disk.calls, sha256(repr(trace).encode()).hexdigest())
        cut = worlds(seed)[number]
        play(cut, whole.disk.calls // 2)
        left = cut.disk.after_power_failure()
        if isinstance(cut, MovingWorld):
            cut.check(left, cut.model.promised_end)
        print(type(cut).__name__, left.calls, sha256(repr(trace).encode()).hexdigest())


if __name__ == "__main__":
    main(int(sys.argv[1]))
