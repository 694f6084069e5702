"""Record batches to Arrow: batches of 130 KB, as librdkafka makes them, into the columns of Spark's Kafka source."""

import random
from collections.abc import Iterator
from functools import partial

from benchmarks.micro.clock import Operation
from kpywire.aborted import Aborted
from kpywire.columns.decoder import DecodedPartition, Decoder
from kpywire.columns.schema import PLAIN
from kpywire.record import Record, build_batch

BATCH_BYTES = 130_000
BATCHES = 40
MILLISECOND_RECORDS = 50


def operations() -> Iterator[Operation]:
    for value_bytes in (100, 1_000):
        count = BATCH_BYTES // value_bytes
        for name, least in (("equal records", value_bytes), ("records of half to 1.5 times", value_bytes // 2)):
            log = log_of(least, 2 * value_bytes - least, count)
            yield Operation(f"decode, {name} {value_bytes} B", partial(decode, log), per=count * BATCHES, unit="record")


def log_of(least: int, most: int, count: int) -> bytes:
    """Batches of ``count`` records with values of random bytes, between the two sizes."""
    rng = random.Random(1)
    batches = []
    for number in range(BATCHES):
        first = number * count
        records = [
            Record(timestamp=(first + n) // MILLISECOND_RECORDS, value=rng.randbytes(rng.randint(least, most)))
            for n in range(count)
        ]
        batches.append(build_batch(records, base_offset=first))
    return b"".join(batches)


def decode(log: bytes) -> int:
    decoder = Decoder(DecodedPartition("t", 0), PLAIN)
    return sum(batch.num_rows for batch in (*decoder.decode(log, Aborted()), *decoder.take()))
