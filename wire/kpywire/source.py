"""Source made at run time into functions. Registered with `linecache`, so that tracebacks and debuggers show it."""

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

STEP_ELEMENTS = 32
"""The number of elements, of all arrays together, after which a codec in steps yields."""
STEP_NUMBERS = 64
"""The numbers of an array that count as one element."""
STEP_STRUCTS = 256
"""The structs of an array that are encoded already and written in one step."""
MOST_NUMBERS = 4096
"""The numbers that a codec in steps reads or writes at a time."""

_numbers = count()


class Source:
    """Lines of Python being written, with their indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indentation = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indentation + line)

    def count(self, elements: str) -> None:
        """Yield if `STEP_ELEMENTS` were passed since the last time, in whichever arrays."""
        self.add(f"steps += {elements}")
        self.add(f"if steps >= {STEP_ELEMENTS}:")
        self.add("    steps = 0")
        self.add("    yield")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def compile_function(name: str, source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function that ``source`` defines, seeing ``names`` as its globals."""
    filename = f"<kpywire {name} {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    before = set(names)
    exec(compile(source, filename, "exec"), names)
    (defined,) = set(names) - before - {"__builtins__"}
    function: Callable[..., Any] = names[defined]
    return function
