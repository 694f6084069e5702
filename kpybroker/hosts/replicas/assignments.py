"""Report to the controller in which log directory each replica of this node is (KIP-858).

The controller needs this if there are several directories: if one of them fails, only the partitions in it lose their
leader. Assignments made in quick succession go into one request.

Invariant: one request is under way at a time, so an older assignment of a replica never replaces a newer one.
"""

import logging
from collections.abc import Callable
from typing import Any

from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import error_codes
from kpywire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

log = logging.getLogger("kpybroker.replicas")

GATHER_MS = 100
RETRY_MS = 1_000
MAX_ASSIGNMENTS = 2250
"""The most assignments in one request, as in Kafka's AssignmentsManager."""

Place = tuple[bytes, int]
"""(topic id, partition index)."""


class Assignments:
    """Assignments that the controller has not confirmed yet."""

    def __init__(
        self,
        scheduler: Scheduler,
        send: Callable[[Any, Callable[[Any], object]], None],
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.scheduler = scheduler
        self._send = send
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._unsent: dict[Place, bytes] = {}
        self._waiting: dict[Place, tuple[bytes, Callable[[], object]]] = {}
        """The callbacks for directories that the controller has noted, each with its directory."""
        self._scheduled = self._is_asking = False

    def assign(
        self, topic_id: bytes, index: int, directory_id: bytes, then: Callable[[], object] | None = None
    ) -> None:
        """Report that a replica is in this directory from now on. A later assignment of the replica replaces it.

        ``then`` is called when the controller has noted it, or knows nothing of directories.
        """
        place = (topic_id, index)
        self._unsent[place] = directory_id
        self._waiting.pop(place, None)
        if then is not None:
            self._waiting[place] = (directory_id, then)
        self._send_after(GATHER_MS)

    def _send_after(self, delay_ms: float) -> None:
        if not self._scheduled:
            self._scheduled = True
            self.scheduler.call_later(delay_ms, self._send_some)

    def _send_some(self) -> None:
        self._scheduled = False
        if self._is_asking:
            return  # the answer is the next occasion
        places = list(self._unsent)[:MAX_ASSIGNMENTS]
        sent = {place: self._unsent.pop(place) for place in places}
        if sent:
            self._is_asking = True
            self._send(self._request(sent), lambda response: self._answered(response, sent))

    def _request(self, sent: dict[Place, bytes]) -> AssignReplicasToDirsRequest:
        directories: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory_id in sent.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in directories.items()
            ],
        )

    def _answered(self, response: Any, sent: dict[Place, bytes]) -> None:
        """Handle the response. A request that failed as a whole is sent again; assignments that came since are kept."""
        self._is_asking = False
        if response.error_code == error_codes.UNSUPPORTED_VERSION:
            self._noted(sent, {})  # by the metadata.version the controller knows of no directories
        elif response.error_code == error_codes.NONE:
            self._noted(sent, _refusals(response))
        else:
            log.info(
                "Directories of replicas are reported to the controller again, since it answered %s",
                error_codes.name(response.error_code),
            )
            self._unsent = {**sent, **self._unsent}
            self._send_after(RETRY_MS)
        if self._unsent:
            self._send_after(GATHER_MS)

    def _noted(self, sent: dict[Place, bytes], refused: dict[Place, int]) -> None:
        for place, directory_id in sent.items():
            if place in refused:
                log.info(
                    "The controller did not take the directory of partition %d: %s",
                    place[1],
                    error_codes.name(refused[place]),
                )
                self._waiting.pop(place, None)
            elif place in self._waiting and self._waiting[place][0] == directory_id:
                self._waiting.pop(place)[1]()


def _refusals(response: Any) -> dict[Place, int]:
    return {
        (topic.topic_id, partition.partition_index): partition.error_code
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
        if partition.error_code != error_codes.NONE
    }
