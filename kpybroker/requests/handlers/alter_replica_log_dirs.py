"""AlterReplicaLogDirs (34), versions 1-2: move partitions of this broker to another log directory (KIP-113).

- Answered when the move has begun; DescribeLogDirs shows its progress. If a partition is named twice, the last one
  counts.
- A request for the partition's current directory changes nothing, except that it cancels a move under way.
- A partition that is not on this broker, or not yet, is an error. Its directory is remembered all the same: if the
  partition is created here later, it will be in that directory.
"""

import logging
from collections.abc import Generator
from functools import partial

from kpybroker.machines.errors import KafkaError
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.scattered import emptied
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, each
from kpystorage.errors import StorageError
from kpywire import error_codes
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = logging.getLogger("kpybroker.hosts.replicas.moves")


def handle(
    broker: Context, request: AlterReplicaLogDirsRequest, _call: Call
) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    """Answer each partition."""
    wanted: dict[str, dict[int, str]] = {}
    walked = 0
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                wanted.setdefault(topic.name, {})[index] = directory.path
                walked += 1
                if walked % STEP_ELEMENTS == 0:
                    yield
            walked += 1
            if walked % STEP_ELEMENTS == 0:
                yield
        yield
    results = []
    for name, partitions in wanted.items():
        answers = yield from each(partitions.items(), partial(_move, broker, name))
        yield from emptied(partitions)
        results.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=answers))
    yield from emptied(wanted)
    return AlterReplicaLogDirsResponse(throttle_time_ms=0, results=results)


def _move(broker: Context, topic: str, wanted: tuple[int, str]) -> AlterReplicaLogDirPartitionResult:
    index, path = wanted
    code = error_codes.NONE
    try:
        broker.moves.move(broker.replicas, topic, index, path)
    except KafkaError as error:
        # As in Kafka, which kept the error of its first versions.
        away = error.code == error_codes.NOT_LEADER_OR_FOLLOWER
        code = error_codes.REPLICA_NOT_AVAILABLE if away else error.code
        log.debug("%.60s-%d does not move: %s", topic, index, error)
    except StorageError as failure:
        code = failure.error_code
    return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
