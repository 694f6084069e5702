"""The topics of a mirror: the controller is asked for the changes that `kpybroker.machines.mirror.planning` finds."""

import logging
import os
from collections.abc import Iterable
from typing import Any, Final

from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.mirror_configs import LEADER_EPOCH, SOURCE, TOPIC_ID
from kpybroker.machines.mirror.ids import made_up_id
from kpybroker.machines.mirror.mirror import Mirror
from kpybroker.machines.mirror.planning import TopicHere, TopicPlan, TopicThere, carried, plan_topics
from kpywire import error_codes, uuid
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

log = logging.getLogger("kpybroker.mirror")

AT_ONCE: Final = 50
"""The topics of one request."""
TIMEOUT_MS: Final = 30_000
SET: Final = 0
DELETE: Final = 1
DONE_BEFORE: Final = frozenset({error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS})


class TopicChanges:
    """The changes of one mirror's topics, one kind of request at a time."""

    def __init__(self, parts: MirrorParts, mirror: Mirror) -> None:
        self._parts = parts
        self._mirror = mirror
        self._outstanding = 0
        self._noted: set[str] = set()
        """The sentences that were logged already."""

    def bring_about(self, topics: Iterable[TopicThere]) -> None:
        """Ask for what is missing, unless answers are outstanding."""
        if self._outstanding:
            return
        plan = plan_topics(self._mirror, topics, self._here())
        for name, reason in plan.unfed.items():
            self._note(f"Topic {name} is not mirrored: {reason}")
        for request in _requests(self._mirror, plan):
            self._outstanding += 1
            self._parts.ask_controller(request, self._answered)

    def _here(self) -> dict[str, TopicHere]:
        image, found = self._parts.image, {}
        for name, topic in image.topics.items():
            configs = image.configs_of(TOPIC_RESOURCE, name)
            mirror = configs.get(SOURCE, "")
            if mirror or self._mirror.takes(name):
                epochs = [each.leader_epoch for each in topic.partitions.values()]
                found[name] = TopicHere(topic.id, len(topic.partitions), min(epochs, default=0), mirror, configs)
        return found

    def _answered(self, response: Any) -> None:
        self._outstanding -= 1
        answers: list[tuple[str, Any]]
        if isinstance(response, IncrementalAlterConfigsResponse):
            answers = [(each.resource_name, each) for each in response.responses]
        elif isinstance(response, CreatePartitionsResponse):
            answers = [(each.name, each) for each in response.results]
        else:
            answers = [(each.name, each) for each in response.topics]
        for name, each in answers:
            if each.error_code not in DONE_BEFORE:
                why = f"{error_codes.name(each.error_code)}, {each.error_message or 'without a reason'}"
                self._note(f"Topic {name} of mirror {self._mirror.name} cannot be changed, it is tried again: {why}")

    def _note(self, problem: str) -> None:
        if problem not in self._noted:
            self._noted.add(problem)
            log.warning("%s", problem)


def _requests(mirror: Mirror, plan: TopicPlan) -> Iterable[Any]:
    new = [_new_topic(mirror, topic, epoch) for topic, epoch in plan.create]
    for start in range(0, len(new), AT_ONCE):
        yield CreateTopicsRequest(topics=new[start : start + AT_ONCE], timeout_ms=TIMEOUT_MS, validate_only=False)
    if plan.grow:
        grown = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in plan.grow]
        yield CreatePartitionsRequest(topics=grown, timeout_ms=TIMEOUT_MS, validate_only=False)
    altered: dict[str, dict[str, str | None]] = {name: dict(changes) for name, changes in plan.configure}
    for name, epoch in plan.raise_epoch:
        altered.setdefault(name, {})[LEADER_EPOCH] = str(epoch)
    if altered:
        resources = [
            AlterConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
                    for key, value in changes.items()
                ],
            )
            for name, changes in altered.items()
        ]
        yield IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def _new_topic(mirror: Mirror, topic: TopicThere, leader_epoch: int) -> CreatableTopic:
    configs = {
        **carried(topic.configs or {}),
        SOURCE: mirror.name,
        TOPIC_ID: uuid.to_string(made_up_id(os.urandom) if topic.id == uuid.ZERO_UUID else topic.id),
        LEADER_EPOCH: str(leader_epoch),
    }
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=-1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
