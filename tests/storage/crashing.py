"""Worlds on simulated disks, each played up to every call at which its disk may die.

A new world is made for each crash from the same seed, so that it comes to the same point on the same way.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Protocol, TypeVar

import pytest

from kpystorage.sim_disk import SimDisk, SimulatedCrash


class Playable(Protocol):
    """A workload and the disk it is for."""

    disk: SimDisk

    def run(self) -> Any:
        """Play it to its end, or until the disk dies."""


W = TypeVar("W", bound=Playable)


def blank_disk(seed: int, *directories: str) -> SimDisk:
    """A disk with these directories, of whose making no call counts."""
    disk = SimDisk(Random(seed))
    for path in directories:
        disk.make_directory(path)
    disk.synchronize_directory("/")
    disk.calls = 0
    return disk


def calls_of(make: Callable[[], W], enough: Callable[[W], object] | None = None) -> int:
    """How many calls a whole workload makes; ``enough`` is whether what it is for has happened in it."""
    world = make()
    world.run()
    assert enough is None or enough(world)
    return world.disk.calls


def crashed(world: W, call: int) -> W:
    """The world up to the death of its disk at a call."""
    world.disk.crash_at = call
    with pytest.raises(SimulatedCrash):
        world.run()
    return world


def crashes(
    make: Callable[[], W], enough: Callable[[W], object] | None = None, *, first: int = 1, step: int = 1
) -> Iterator[W]:
    """A world for every ``step``-th of its calls, whose disk died at it."""
    for call in range(first, calls_of(make, enough) + 1, step):
        yield crashed(make(), call)


def failing(make: Callable[[], W], enough: Callable[[W], object] | None = None) -> Iterator[W]:
    """A world for each of its calls, which will fail; it is not played yet."""
    for call in range(1, calls_of(make, enough) + 1):
        world = make()
        world.disk.fail_at = call
        yield world
