"""Byte strings in a buffer, by the places of their bytes."""

from typing import Final, NamedTuple

import numpy as np

from kpywire.columns.varints import Positions


class Slices(NamedTuple):
    """Where each byte string begins, and its length, which is negative for null."""

    starts: Positions
    lengths: Positions


NO_SLICES: Final = Slices(np.zeros(0, np.int64), np.zeros(0, np.int64))
