"""Other code for functions that are there already, in modules that were imported."""

import ast
import gc
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

Function = tuple[str, str, int]
"""The module, the qualified name and the first line of a function."""


def plant(changed: Mapping[Function, types.CodeType]) -> bool:
    """Give the functions their new code; False if there is none of them."""
    planted = False
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType):
            old = function.__code__
            new = changed.get((old.co_filename, old.co_qualname, old.co_firstlineno))
            if new is not None and len(new.co_freevars) == len(old.co_freevars):
                function.__code__ = new
                planted = True
    return planted


def codes_of(tree: ast.Module, path: Path) -> Iterator[tuple[Function, types.CodeType]]:
    """All functions of a module, with their code."""
    for code in _inner(compile(tree, str(path), "exec")):
        yield (code.co_filename, code.co_qualname, code.co_firstlineno), code


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from _inner(each)
