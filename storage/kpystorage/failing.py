"""``with failing:`` around work on files: an OSError inside becomes the failure of the owner of the files.

Invariant: any other exception passes as it is.
"""

from collections.abc import Callable
from types import TracebackType


class Failing:
    """The context manager. ``fail`` receives the error and returns the exception to raise instead. May be entered by
    several threads."""

    __slots__ = ("_fail",)

    def __init__(self, fail: Callable[[OSError], Exception]) -> None:
        self._fail = fail

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise self._fail(error) from error
