"""A controller alone that starts with a metadata log on its disk: its memory, and the time until it is active.

Runs in a process of its own, so that its memory is that of a controller: ``python -m tests.scale.cold FOLDER``.
"""

import gc
import json
import sys
from collections import Counter
from pathlib import Path
from time import process_time_ns
from typing import Any

from .controllers import ControllerNetwork
from .meter import Meter, MeteredScheduler

MIB = 1 << 20


def resident_bytes() -> int:
    """The memory of this process that is in RAM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def bytes_by_class(*roots: object) -> Counter[str]:
    """The bytes of everything that these objects hold, by class."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    left = list(roots)
    while left:
        found = left.pop()
        if id(found) in seen or isinstance(found, type):
            continue
        seen.add(id(found))
        sizes[type(found).__name__] += sys.getsizeof(found)
        left += _parts(found)
    return sizes


def _parts(found: Any) -> list[object]:
    if isinstance(found, dict):
        return [*found.keys(), *found.values()]
    if isinstance(found, tuple | list | set | frozenset):
        return list(found)
    names = [name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ())]
    return [getattr(found, name) for name in names if hasattr(found, name)]


def main(folder: str) -> None:
    """Start the controller, and print its figures as JSON."""
    gc.collect()
    before_bytes, began_ns = resident_bytes(), process_time_ns()
    meter = Meter()
    network = ControllerNetwork(Path(folder), MeteredScheduler(meter), 1)
    read_ns = process_time_ns()
    while network.active is None and not network.failures:
        network.scheduler.advance(10)
    (node,) = network.nodes.values()
    active_ns = process_time_ns()
    gc.collect()
    image = node.host.image
    reign: Any = node.host._reign
    figures = {
        "failures": network.failures,
        "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
        "log_bytes": node.log.size_bytes,
        "snapshots": len(node.log.snapshots()),
        "read_cpu_ms": (read_ns - began_ns) / 1e6,
        "until_active_cpu_ms": (active_ns - read_ns) / 1e6,
        "longest_step_ms": max(meter.longest_ns.values()) / 1e6,
        "resident_mib": resident_bytes() / MIB,
        "grown_mib": (resident_bytes() - before_bytes) / MIB,
        "classes_mib": {name: size / MIB for name, size in bytes_by_class(image, reign.state.image).most_common(8)},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1])
