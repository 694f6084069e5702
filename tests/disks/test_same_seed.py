"""A seed says all that happens in a simulated world, so that a failure comes again: no order of a set plays a part."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("worlds_trace.py")


def trace(seed: int, hash_seed: int) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONHASHSEED": str(hash_seed),
    }
    command = [sys.executable, str(PROGRAM), str(seed)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_world_does_the_same_with_another_order_of_hashes() -> None:
    traces = [trace(5, hash_seed) for hash_seed in (1, 2)]
    assert len(traces[0]) == 8
    assert traces[0] == traces[1]
    assert traces[0] != trace(6, 1)
