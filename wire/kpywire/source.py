"""Source made at run time into functions. Registered with `linecache`, so that tracebacks and debuggers show it."""

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

STEP_ELEMENTS = 32
"""The number of elements of an array after which a codec in steps yields."""

_numbers = count()


class Source:
    """Lines of Python being written, with their indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indentation = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indentation + line)

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
