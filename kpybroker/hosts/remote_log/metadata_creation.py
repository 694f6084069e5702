"""Making the topic ``__remote_log_metadata`` when the first partition needs it (Kafka:
``TopicBasedRemoteLogMetadataManager.newRemoteLogMetadataTopic``).

Several brokers may ask at the same time; the first one makes it. A refusal is logged once, and the
topic is asked for again.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from kpybroker.config.remote_metadata import RemoteMetadataSettings
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import error_codes
from kpywire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kpywire.remote_log_record import TOPIC

log = logging.getLogger("kpybroker.remote_log")

AGAIN_MS: Final = 2_000
TIMEOUT_MS: Final = 30_000
MADE: Final = frozenset({error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS})

SendToController = Callable[[Any, Callable[[Any], object]], object]
"""(request, called with the response) asks the active controller."""


class MetadataTopicCreation:
    """The request of one broker, repeated until the topic is there."""

    def __init__(
        self, scheduler: Scheduler, send: SendToController, settings: Callable[[], RemoteMetadataSettings]
    ) -> None:
        self._scheduler = scheduler
        self._send = send
        self._settings = settings
        self._image: MetadataImage | None = None
        self._timer: Timer | None = None
        self._is_asking = False
        self._noted: set[str] = set()
        """The sentences that were logged already."""

    def begin(self, image: MetadataImage) -> None:
        """Ask for the topic, unless that is under way."""
        self._image = image
        if not self._is_asking:
            self._is_asking = True
            self._ask()

    def end(self) -> None:
        """Ask no more: the topic is there, or is not needed."""
        self._is_asking = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self) -> None:
        self._timer = None
        image = self._image
        if not self._is_asking or image is None:
            return
        if not image.brokers:
            self._timer = self._scheduler.call_later(AGAIN_MS, self._ask)
            return
        settings = self._settings()
        topic = remote_metadata_topic(settings, len(image.brokers))
        if topic.replication_factor < settings.replication_factor:
            few, many = topic.replication_factor, settings.replication_factor
            self._note(f"The topic {TOPIC} gets {few} replicas in place of {many}, since there are no more brokers")
        self._send(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False), self._answered)

    def _answered(self, response: CreateTopicsResponse) -> None:
        for each in response.topics:
            if each.error_code not in MADE:
                why = f"{error_codes.name(each.error_code)}, {each.error_message or 'without a reason'}"
                self._note(f"The topic {TOPIC} cannot be made, it is tried again: {why}")
        if self._is_asking:
            self._timer = self._scheduler.call_later(AGAIN_MS, self._ask)

    def _note(self, problem: str) -> None:
        if problem not in self._noted:
            self._noted.add(problem)
            log.warning("%s", problem)


def remote_metadata_topic(settings: RemoteMetadataSettings, brokers: int) -> CreatableTopic:
    """The topic for a cluster with this number of brokers. A replication factor that was not configured is lowered to
    it."""
    factor = settings.replication_factor
    if not settings.is_replication_factor_set and factor > brokers:
        factor = brokers
    configs = {
        "retention.ms": str(settings.retention_ms),
        "cleanup.policy": "delete",
        "remote.storage.enable": "false",
        "min.insync.replicas": str(min(settings.min_isr, factor)),
    }
    return CreatableTopic(
        name=TOPIC,
        num_partitions=settings.partitions,
        replication_factor=factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
