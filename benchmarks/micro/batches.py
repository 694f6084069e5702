"""The work on each record batch: header, CRC, stamps, and the look into its records."""

import random
from collections.abc import Iterator, Sequence
from time import time

from benchmarks.micro.clock import Operation
from benchmarks.raw import frames
from kpywire.batch import HEADER_BYTES, BatchHeader, check_crc, parse_header, stamp_offset_and_epoch
from kpywire.record import encode_record, read_records
from kpywire.skim import skim, skim_section

RECORDS = 150


def operations() -> Iterator[Operation]:
    rng = random.Random(1)
    equal = [b"x" * 100] * RECORDS
    unequal = [b"x" * rng.randint(50, 150) for _ in range(RECORDS)]
    small = batch_of([b"x" * 140])
    header = parse_header(small)
    yield Operation("parse_header", lambda: parse_header(small))
    yield Operation("check_crc, 213 B", lambda: check_crc(small, header))
    yield Operation("stamp_offset_and_epoch", lambda: stamp_offset_and_epoch(small, 0, 1_000_000, 3))
    yield skim_operation("one record", small)
    yield skim_operation("equal records of 100 B", batch_of(equal))
    yield skim_operation("records of 50-150 B", batch_of(unequal))
    keyed = [encode_record(i, i, b"k" * 80, value, [("h", b"v")]) for i, value in enumerate(unequal)]
    section = b"".join(keyed)
    name = "skim, keys of 80 B and a header"
    yield Operation(name, lambda: skim_section(section, RECORDS, 0), per=RECORDS, unit="record")
    data = bytes(batch_of(unequal))
    yield Operation("read_records, 50-150 B", lambda: list(read_records(data)), per=RECORDS, unit="record")


def batch_of(values: Sequence[bytes]) -> bytearray:
    return bytearray(frames.batch(values, int(time() * 1000)))


def skim_operation(name: str, data: bytearray) -> Operation:
    header: BatchHeader = parse_header(data)
    section = memoryview(data)[HEADER_BYTES:]
    return Operation(f"skim, {name}", lambda: skim(header, section), per=header.record_count, unit="record")
