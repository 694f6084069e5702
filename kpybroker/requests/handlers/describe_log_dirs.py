"""DescribeLogDirs (35), versions 1-5: the partitions in each log directory, and its free space.

- Null topics means all topics. A directory that failed is KAFKA_STORAGE_ERROR. As in Kafka, directories without any of
  the requested topics are left out, unless all topics were requested.
- v4: total and usable bytes (KIP-827). v5: whether a directory is cordoned, so that it takes no new logs (KIP-1066).
- A partition that is moving to another directory is listed there too, with ``is_future_key`` and its lag (KIP-113).
- The size of a log that was not used yet is that of its files: opening thousands of logs would stall the loop.
"""

from collections.abc import Generator

from kpybroker.machines.lag import kafkas_lag
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.scattered import Scattered
from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.errors import DiskFailure
from kpystorage.log import Log
from kpywire import error_codes
from kpywire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

UNKNOWN_LAG = -1
STEP = 32
STEP_INDEXES = 1024
"""The indexes of one topic that are read in one step."""


def handle(
    broker: Context, request: DescribeLogDirsRequest, _call: Call
) -> Generator[None, None, DescribeLogDirsResponse]:
    """Answer each directory."""
    wanted: Scattered[str, set[int]] | None = None
    if request.topics is not None:
        wanted = Scattered()
        for nth, topic in enumerate(request.topics, 1):
            if nth % STEP == 0:
                yield
            indexes = wanted.setdefault(topic.topic, set())
            for start in range(0, len(topic.partitions), STEP_INDEXES):
                indexes.update(topic.partitions[start : start + STEP_INDEXES])
                yield
    results = []
    for directory in list(broker.replicas.directories):
        result = yield from _describe(broker, directory, wanted)
        results.append(result)
    results += [
        DescribeLogDirsResult(error_code=error_codes.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
        for path in broker.replicas.directories.failed_paths
    ]
    if wanted is not None:
        yield from wanted.emptied()
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=error_codes.NONE, results=results)


def _describe(
    broker: Context, directory: LogDirectory, wanted: Scattered[str, set[int]] | None
) -> Generator[None, None, DescribeLogDirsResult]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    try:
        for number, replica in enumerate(list(broker.replicas)):
            if number % STEP == STEP - 1:
                yield
            if wanted is not None and replica.index not in wanted.get(replica.topic.name, ()):
                continue
            log = broker.replicas.log_of(replica)
            if log is None or log.directory is not directory:
                continue
            name = replica.topic.name
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name, partitions=[]))
            topic.partitions.append(_partition(replica.index, log))
        for key, copy in directory.future_logs.items():
            if wanted is None or key[1] in wanted.get(key[0], ()):
                topic = topics.setdefault(copy.topic, DescribeLogDirsTopic(name=copy.topic, partitions=[]))
                topic.partitions.append(_future(copy, broker.replicas.directories.find(*key)))
        total_bytes = directory.disk.total_bytes(directory.path)
        usable_bytes = directory.disk.free_bytes(directory.path)
    except (DiskFailure, OSError):
        return DescribeLogDirsResult(error_code=error_codes.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[])
    return DescribeLogDirsResult(
        error_code=error_codes.NONE,
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=broker.replicas.directories.is_cordoned(directory),
    )


def _partition(index: int, log: Log) -> DescribeLogDirsPartition:
    # As in Kafka, which counts from the log's end to the high watermark: no replica knows one beyond its end.
    return DescribeLogDirsPartition(partition_index=index, partition_size=_size(log), offset_lag=0, is_future_key=False)


def _future(copy: Log, source: Log | None) -> DescribeLogDirsPartition:
    known = copy.is_open and source is not None and source.is_open
    lag = kafkas_lag(source.log_end_offset, copy.log_end_offset) if known and source is not None else UNKNOWN_LAG
    return DescribeLogDirsPartition(
        partition_index=copy.partition, partition_size=_size(copy), offset_lag=lag, is_future_key=True
    )


def _size(log: Log) -> int:
    return log.size if log.is_open else _size_of_files(log)


def _size_of_files(log: Log) -> int:
    disk = log.directory.disk
    found = (disk.status(f"{log.path}/{name}") for name in disk.list_directory(log.path) if name.endswith(names.LOG))
    return sum(status.size for status in found if status is not None)
