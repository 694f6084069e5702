"""The time in which modules are loaded."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Switch the garbage collector off while modules are loaded: nothing becomes garbage then, and it would walk all
    objects repeatedly."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
