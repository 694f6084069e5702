"""Placeholder of the lead until BATCH's own version arrives: overwrite it."""

from typing import NamedTuple

from kpybroker.errors import KafkaError
from kpywire import error_codes
from kpywire.batch import BatchHeader, check_crc, parse_header, stamp_max_timestamp, stamp_offset_and_epoch
from kpywire.skim import skim
from kpywire.walk import InvalidRecord


class ValidationConfig(NamedTuple):
    max_message_bytes: int = 1048588
    compacted: bool = False
    log_append_time: bool = False
    before_max_ms: int = 1 << 62
    after_max_ms: int = 3600000
    compression_type: str = "producer"
    segment_bytes: int = 1 << 30


class Accepted(NamedTuple):
    header: BatchHeader
    buffer: memoryview
    log_append_time_ms: int


def validate(records: memoryview, config: ValidationConfig, now_ms: int, leader_epoch: int, base_offset: int) -> Accepted:
    header = parse_header(records)
    if header.magic != 2 or header.size != len(records):
        raise KafkaError(error_codes.INVALID_RECORD)
    if not check_crc(records, header):
        raise KafkaError(error_codes.CORRUPT_MESSAGE)
    try:
        found = skim(header, records[61:])
    except InvalidRecord as error:
        raise KafkaError(error_codes.INVALID_RECORD, str(error)) from None
    if found.max_timestamp != header.max_timestamp:
        header = stamp_max_timestamp(records, header, found.max_timestamp, 0)
    stamp_offset_and_epoch(records, 0, base_offset, leader_epoch)
    return Accepted(header._replace(base_offset=base_offset, partition_leader_epoch=leader_epoch), records, -1)
