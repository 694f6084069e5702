"""The transport of a task that has lent files: they are read while the lease lasts. Then Fetch reads the rest, or it is
lent again."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from kpybroker.machines.scan.errors import LeaseOver, ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan.borrowing import Borrowed, Loan
from kpybroker.pipeline.scan.fetching import after
from kpybroker.pipeline.scan.files import FileTransport
from kpybroker.pipeline.scan.transport import FetchedPiece, Transport

RENEWED_AFTER: Final = 1 / 3
"""The part of a lease's time after which it is renewed."""
MOST_KNOWN: Final = 16
_renewals: Final[dict[tuple[Loan, ...], float]] = {}
"""The times at which this process has renewed its newest leases. Tasks are short, and a process reads many of them, one
after the other."""


class FilesFirst:
    """Reads a range from files, and goes on in another way where they are not there any more."""

    def __init__(
        self,
        lent: Borrowed,
        other: Callable[[], Transport] | None,
        again: Callable[[OffsetRange], Borrowed] | None = None,
    ) -> None:
        """``other`` makes the transport for what is not lent; None for files alone. Then ``again`` borrows a range
        whose lease is over; None if that is an error."""
        self._lent = lent
        self._again = again
        self._own: list[Borrowed] = []
        self._files = FileTransport(lent.manifests)
        self._new_other = other
        self._other: Transport | None = None

    def close(self) -> None:
        """Close the connections of the other transport, and give back what was borrowed here."""
        for lent in self._own:
            lent.end()
        if self._other is not None:
            self._other.close()

    def pieces(self, part: OffsetRange, wanted: Projection) -> Iterator[FetchedPiece]:
        """The batches of a range; see `Transport`."""
        self._renew()
        if self._new_other is None or self._files.has(part):
            offset = part.start_offset
            try:
                for piece in self._files.pieces(part, wanted):
                    self._renew()
                    yield piece
                    offset = after(piece.data, offset, part)
                return
            except LeaseOver:
                if self._new_other is None and self._again is None:
                    raise
            part = part._replace(start_offset=offset)
        if self._new_other is None:
            self._borrow_again(part)
            yield from self.pieces(part, wanted)
            return
        if self._other is None:
            self._other = self._new_other()
        yield from self._other.pieces(part, wanted)

    def _borrow_again(self, part: OffsetRange) -> None:
        assert self._again is not None
        lent = self._again(part)
        self._own.append(lent)
        self._lent = lent._replace(manifests={**self._lent.manifests, **lent.manifests})
        self._files = FileTransport(self._lent.manifests)

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
