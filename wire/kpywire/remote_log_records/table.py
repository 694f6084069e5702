"""The types of records here, and the module that declares each. Written by `kpywire.generator`."""

from typing import Final

REMOTE_LOG_SEGMENT_METADATA_RECORD: Final = 0
REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD: Final = 1
REMOTE_PARTITION_DELETE_METADATA_RECORD: Final = 2
REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD: Final = 3

MODULES: dict[int, str] = {
    REMOTE_LOG_SEGMENT_METADATA_RECORD: "remote_log_segment_metadata_record",
    REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD: "remote_log_segment_metadata_update_record",
    REMOTE_PARTITION_DELETE_METADATA_RECORD: "remote_partition_delete_metadata_record",
    REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD: "remote_log_segment_metadata_snapshot_record",
}
