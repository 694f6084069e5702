"""A task's rows: the bytes of a transport through the decoder, as Arrow record batches of a good size."""

from collections.abc import Iterator

import pyarrow as pa

from kpybroker.scan.errors import ScanError
from kpybroker.scan.ranges import Range, Wanted
from kpybroker.scan.transport import Transport
from kpywire.columns.decoder import Decoder, Place
from kpywire.errors import Malformed


def rows(transport: Transport, part: Range, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The rows of a range, in the order of the log. Raises ScanError."""
    decoder = Decoder(
        Place(part.topic, part.partition),
        wanted.columns,
        start_offset=part.start_offset,
        end_offset=part.end_offset,
    )
    try:
        for piece in transport.pieces(part, wanted):
            yield from decoder.decode(piece.data, piece.aborted)
            if decoder.next_offset >= part.end_offset:
                break
        yield from decoder.take()
    except Malformed as error:
        raise ScanError(f"{part}: {error}") from None
