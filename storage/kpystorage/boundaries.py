"""The places where readers of an active segment continue: offsets at which a batch begins, with their file positions.

A reader that follows the log asks for the offset where its last slice ended; it is found here without the index.
"""

from typing import Final

KEPT: Final = 64


class Boundaries:
    """The last positions that a reader may ask for again. The oldest is dropped first."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}

    def get(self, offset: int) -> int | None:
        """The position where the batch of ``offset`` begins, if it is remembered."""
        return self._positions.get(offset)

    def remember(self, offset: int, position: int) -> None:
        positions = self._positions
        if offset not in positions:
            if len(positions) >= KEPT:
                del positions[next(iter(positions))]
            positions[offset] = position

    def clear(self) -> None:
        """Forget everything: another segment is active, or the log was cut."""
        self._positions.clear()
