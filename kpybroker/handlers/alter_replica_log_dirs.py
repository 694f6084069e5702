"""AlterReplicaLogDirs (34), versions 1-2: have partitions of this broker lie in another log directory (KIP-113).

- Answered when the move has begun; DescribeLogDirs shows how far it is. Of a partition named twice the last one counts.
- To where a partition lies already: nothing, but a move under way is called off.
- A partition that is not here, or not yet, is an error, and its directory is noted all the same: should it be made
  here, it will be there.
"""

import logging
from collections.abc import Generator
from functools import partial

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.server.slices import each
from kpystorage.errors import StorageError
from kpywire import error_codes
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = logging.getLogger("kpybroker.replicas.moves")


def handle(
    broker: Context, request: AlterReplicaLogDirsRequest, _call: Call
) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    """Answer each partition."""
    wanted: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            if topic.partitions:  # as in Kafka, which answers by partitions
                wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, directory.path))
        yield
    results = []
    for name, partitions in wanted.items():
        answers = yield from each(partitions.items(), partial(_move, broker, name))
        results.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=answers))
    return AlterReplicaLogDirsResponse(throttle_time_ms=0, results=results)


def _move(broker: Context, topic: str, wanted: tuple[int, str]) -> AlterReplicaLogDirPartitionResult:
    index, path = wanted
    replicas = broker.replicas
    code = error_codes.NONE
    try:
        assert replicas.moves is not None
        replicas.moves.move(topic, index, path)
    except KafkaError as error:
        # As in Kafka, which kept the error of its first versions.
        away = error.code == error_codes.NOT_LEADER_OR_FOLLOWER
        code = error_codes.REPLICA_NOT_AVAILABLE if away else error.code
        log.debug("%.60s-%d does not move: %s", topic, index, error)
    except StorageError as failure:
        code = failure.error_code
    return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
