"""The transport of a task that has lent files: they are read while the lease lasts, and Fetch reads the rest."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from kpybroker.scan.borrowing import Borrowed, Loan
from kpybroker.scan.errors import ScanError
from kpybroker.scan.files import FileTransport
from kpybroker.scan.ranges import Range, Wanted
from kpybroker.scan.transport import Piece, Transport

RENEWED_AFTER: Final = 1 / 3
"""The part of a lease's time after which it is renewed."""
MOST_KNOWN: Final = 16
_renewals: Final[dict[tuple[Loan, ...], float]] = {}
"""The times at which this process has renewed its newest leases. Tasks are short, and a process reads many of them, one
after the other."""


class FilesFirst:
    """Reads a range from files if all of them are there when it begins, by Fetch otherwise."""

    def __init__(self, lent: Borrowed, other: Callable[[], Transport] | None) -> None:
        """``other`` makes the transport for what is not lent; None if that is an error."""
        self._lent = lent
        self._files = FileTransport(lent.manifests)
        self._new_other = other
        self._other: Transport | None = None

    def close(self) -> None:
        """Close the connections of the other transport."""
        if self._other is not None:
            self._other.close()

    def pieces(self, part: Range, wanted: Wanted) -> Iterator[Piece]:
        """The batches of a range; see `Transport`."""
        self._renew()
        if self._new_other is not None and not self._files.has(part):
            if self._other is None:
                self._other = self._new_other()
            yield from self._other.pieces(part, wanted)
            return
        for piece in self._files.pieces(part, wanted):
            self._renew()
            yield piece

    def _renew(self) -> None:
        """Renew the lease from time to time. One that is over is noticed where its files are opened."""
        loans, now_s = self._lent.loans, time.monotonic()
        if now_s - _renewals.get(loans, -math.inf) < self._lent.expires_in_ms / 1000 * RENEWED_AFTER:
            return
        _renewals[loans] = now_s
        if len(_renewals) > MOST_KNOWN:
            _renewals.pop(next(iter(_renewals)), None)
        with suppress(ScanError):
            self._lent.renew()
