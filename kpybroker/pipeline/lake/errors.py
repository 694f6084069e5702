"""The errors of lake tables; each text is one line for people."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from kpybroker.machines.schemas.errors import one_line

PANIC = "PanicException"
"""The class by which libraries in Rust report their own mistakes; it is no Exception, and cannot be imported."""


class LakeError(Exception):
    """The work on a table cannot go on."""


class NotCommitted(LakeError):
    """A commit was refused, or its answer was lost: the table has to be read to know."""


class TableChanged(LakeError):
    """Another writer has moved the table's offsets, or something else about it is not as this writer left it."""


@contextmanager
def errors_as(kind: type[LakeError], what: str) -> Iterator[None]:
    """Inside the block, errors of a library become one of ours. It raises many kinds, and warns of what is usual."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except LakeError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise kind(f"{what}: {one_line(error)}") from None
