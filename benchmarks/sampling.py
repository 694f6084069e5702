"""Runs a Python script and samples where its main thread spends CPU: one look per millisecond, a few percent overhead.

    python benchmarks/sampling.py OUTPUT SCRIPT [ARGUMENT]...

A look falls after the C call that was running, so a line's share includes the system calls and C functions it makes. At
the end of the script, a clean stop by SIGTERM included, OUTPUT gets JSON: looks by line, by function, and by function
with everything it calls. It imports nothing of this package, for the script's start is under the lens too.
"""

import atexit
import json
import runpy
import signal
import sys
from collections import Counter
from types import FrameType

EVERY_S = 0.001

lines: Counter[str] = Counter()
functions: Counter[str] = Counter()
with_callees: Counter[str] = Counter()


def look(_signal: int, frame: FrameType | None) -> None:
    if frame is None:
        return
    name = function_name(frame)
    functions[name] += 1
    lines[f"{name}:{frame.f_lineno}"] += 1
    seen = set()
    while frame is not None:
        seen.add(function_name(frame))
        frame = frame.f_back
    with_callees.update(seen)


def function_name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{'/'.join(code.co_filename.split('/')[-2:])} {code.co_qualname}"


def write(path: str) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    with open(path, "w") as file:
        json.dump({"functions": functions, "lines": lines, "with_callees": with_callees}, file)


if __name__ == "__main__":
    output, *sys.argv = sys.argv[1:]
    atexit.register(write, output)
    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    runpy.run_path(sys.argv[0], run_name="__main__")
