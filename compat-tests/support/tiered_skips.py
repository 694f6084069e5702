"""Tests of the suites that are not played where a broker has all but the newest batch of each log in a store, with the
reason for each. Every batch is a segment there (`tiered/only_in_store.py`)."""

from collections.abc import Mapping
from typing import Final

SKIPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "a fetch reads one segment, which is one batch there": (
        "test_protocol_fetch.py::test_every_version_by_name_returns_what_was_produced",
        "test_protocol_fetch.py::test_the_first_batch_comes_whole_and_later_ones_may_be_cut",
        "test_protocol_fetch.py::test_data_begins_at_the_batch_that_holds_the_offset",
        "test_protocol_fetch.py::test_a_long_poll_waits_for_min_bytes_over_all_partitions",
    ),
    "the first segment on the disk that may have a time is searched alone, as by Kafka": (
        "test_protocol_offsets.py::test_records_without_a_time_are_not_found_by_time",
        "test_protocol_offsets.py::test_deleted_records_are_not_read",
    ),
    "a tiered topic has an offset that is yet to be copied": (
        "test_protocol_offsets.py::test_special_timestamps_have_answers_from_the_version_that_knows_them[11]",
    ),
}
"""By the reason: files, or tests as ``file::test``, also by their beginnings."""
