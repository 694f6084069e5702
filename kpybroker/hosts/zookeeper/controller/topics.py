"""CreateTopics, CreatePartitions and DeleteTopics on the controller (Kafka's ``ZkAdminManager``).

The decision is the one of KRaft controllers, on the metadata that this broker knows. What it would append as records is
written as znodes: the configs of a topic before its assignment, and a marker for a deletion. Events of the controller
do the rest. The answer waits until this broker knows of the result, or for the time that the request gives; then it is
REQUEST_TIMED_OUT, without words as with Kafka.
"""

import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient, ZooKeeperError
from kpybroker.hosts.zookeeper.controller.words import reword_creation, reword_growth
from kpybroker.machines.controller.error_responses import error_response
from kpybroker.machines.controller.state import ControllerRequest, ControllerState
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.failed_response import failed_response
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.machines.zookeeper.client import error_codes as zookeeper_errors
from kpybroker.machines.zookeeper.client.operations import Create, Exists, Get, OperationFailed, Set
from kpybroker.machines.zookeeper.controller.steps import failed_with
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.topics import TopicAssignment
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import at_once
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import api, error_codes
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kpywire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.uuid import ZERO_UUID

log = logging.getLogger("kpybroker.zookeeper")

Reply = Callable[[Any], object]
TAKEN: Final = frozenset({api.CREATE_TOPICS, api.CREATE_PARTITIONS, api.DELETE_TOPICS})


class NoKRaft:
    """There is no metadata log whose version could be raised."""

    level = 0

    def upgrade(self, level: int, *, validate_only: bool) -> None:  # noqa: ARG002 (a protocol)
        """Never called: UpdateFeatures is not decided here."""
        raise KafkaError(error_codes.INVALID_UPDATE_VERSION, f"kraft.version {level} needs a cluster in KRaft mode")


def at_level(image: MetadataImage, level: int) -> MetadataImage:
    """The image as it is now with a ``metadata.version``, of which clients of a cluster in ZooKeeper see nothing."""
    seen = copy(image)
    seen.metadata_version = level
    return seen


class WaitingAnswer(NamedTuple):
    """An answer that waits until ``is_done``."""

    is_done: Callable[[], bool]
    end: Callable[[], None]


class WaitingAnswers:
    """The answers that wait for metadata to arrive."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiters: dict[WaitingAnswer, None] = {}

    def wait(self, is_done: Callable[[], bool], timeout_ms: float, reply: Callable[[], object]) -> None:
        """Call ``reply`` once: as soon as ``is_done``, or after the time."""
        if is_done() or timeout_ms <= 0:
            reply()
            return

        def end() -> None:
            if self._waiters.pop(waiter, waiter) is None:
                timer.cancel()
                reply()

        waiter = WaitingAnswer(is_done, end)
        self._waiters[waiter] = None
        timer = self._scheduler.call_later(timeout_ms, end)

    def look(self, *_changed: object) -> None:
        """The metadata have changed."""
        for waiter in [each for each in self._waiters if each.is_done()]:
            waiter.end()


class TopicWrites:
    """Writes topics for clients. ``new_state`` makes the state that deciders read."""

    def __init__(
        self,
        client: ZooKeeperClient,
        acls: DefaultAcls,
        image: MetadataImage,
        new_state: Callable[[], ControllerState],
        waiting: WaitingAnswers,
        now_ms: Callable[[], float],
    ) -> None:
        self._client = client
        self._acls = acls
        self._image = image
        self._new_state = new_state
        self._waiting = waiting
        self._now_ms = now_ms

    def take(self, request: Any, call: Call, reply: Reply) -> Coroutine[Any, Any, None]:
        """The work on a request, which ends with its answer."""
        ways = {
            api.CREATE_TOPICS: self._create,
            api.CREATE_PARTITIONS: self._grow,
            api.DELETE_TOPICS: self._delete,
        }
        return self._answered(ways[call.api_key], request, call, reply)

    async def _answered(self, way: Any, request: Any, call: Call, reply: Reply) -> None:
        try:
            await way(request, call, reply)
        except KafkaError as error:
            reply(error_response(request, call.api_version, error.code, error.message))
        except (ZooKeeperError, NoAnswer, InvalidZnode) as error:
            log.error("A request of a client has failed: %s", error)
            reply(failed_response(request, call.api_version, error_codes.UNKNOWN_SERVER_ERROR, str(error)))

    def _decide(self, decide: Any, request: Any, call: Call) -> tuple[list[Any], Any]:
        asked = ControllerRequest(
            None, request, call.api_version, call.client.principal, client_id=call.client_id or ""
        )
        records, response = at_once(decide(self._new_state(), asked, int(self._now_ms())))
        return records, response

    # CreateTopics

    async def _create(self, request: Any, call: Call, reply: Reply) -> None:
        from kpybroker.machines.controller.topics import create_topics

        records, response = self._decide(create_topics, request, call)
        self._reword_creations(request, response)
        answers = {each.name: each for each in response.topics if each.error_code == error_codes.NONE}
        settings: dict[str, dict[str, str]] = {}
        for each in records:
            if isinstance(each, ConfigRecord):
                settings.setdefault(each.resource_name, {})[each.name] = each.value or ""
        wanted = [
            TopicAssignment(each.name, _replicas_of(records, each.topic_id), each.topic_id)
            for each in records
            if isinstance(each, TopicRecord)
        ]
        refused = await self._write_topics(wanted, settings)
        for name, (code, message) in refused.items():
            _refuse(answers[name], code, message)
        created = [(each.name, len(each.replicas)) for each in wanted if each.name not in refused]

        def end() -> None:
            for name, partitions in created:
                if not self._has_leaders(name, partitions):
                    answers[name].error_code = error_codes.REQUEST_TIMED_OUT
            reply(response)

        self._waiting.wait(lambda: all(self._has_leaders(*each) for each in created), request.timeout_ms, end)

    def _reword_creations(self, request: CreateTopicsRequest, response: CreateTopicsResponse) -> None:
        refused = {each.name: each for each in response.topics if each.error_code != error_codes.NONE}
        if refused:
            default = self._new_state().settings.default_replication_factor
            times = Counter(each.name for each in request.topics)
            for topic in request.topics:
                if topic.name in refused and times[topic.name] == 1:
                    reword_creation(topic, refused[topic.name], default, len(self._image.brokers))

    async def _write_topics(
        self, topics: Sequence[TopicAssignment], settings: Mapping[str, dict[str, str]]
    ) -> dict[str, tuple[int, str]]:
        """Create topics; the errors of those that are not created. Each step of all topics is sent together."""
        ask, refused = self._client.ask_all_until_answered, dict[str, tuple[int, str]]()
        looks = [Exists(path(each.name)) for path in (paths.topic, paths.delete_topic) for each in topics]
        found = [_is_there(look, answer) for look, answer in zip(looks, await ask(looks), strict=True)]
        for topic, exists, is_marked in zip(topics, found, found[len(topics) :], strict=False):
            if is_marked:
                why = f"Topic '{topic.name}' is marked for deletion."
                refused[topic.name] = error_codes.TOPIC_ALREADY_EXISTS, why
            elif exists:
                refused[topic.name] = _exists(topic.name)
        accepted = [each for each in topics if each.name not in refused]
        await self._write_settings({each.name: settings.get(each.name, {}) for each in accepted})
        znodes = [(paths.topic(each.name), each.encode()) for each in accepted]
        creations = [Create(path, content, self._acls.of(path)) for path, content in znodes]
        for topic, creation, answer in zip(accepted, creations, await ask(creations), strict=True):
            if failed_with(answer, zookeeper_errors.NODE_EXISTS):
                if not await self._is_own(topic):
                    refused[topic.name] = _exists(topic.name)
            else:
                _done(creation, answer)
        return refused

    async def _write_settings(self, settings: Mapping[str, dict[str, str]]) -> None:
        """Write the configs of topics, also over those of an earlier life of the name."""
        znodes = [
            (configs.ConfigEntity(configs.TOPICS, name).path, configs.encode_configs(values))
            for name, values in settings.items()
        ]
        creations = [Create(path, content, self._acls.of(path)) for path, content in znodes]
        replaced = []
        for creation, answer in zip(creations, await self._client.ask_all_until_answered(creations), strict=True):
            if failed_with(answer, zookeeper_errors.NODE_EXISTS):
                replaced.append(Set(creation.path, creation.data))
            else:
                _done(creation, answer)
        for replacing, answer in zip(replaced, await self._client.ask_all_until_answered(replaced), strict=True):
            _done(replacing, answer)

    async def _is_own(self, topic: TopicAssignment) -> bool:
        """Whether a topic that is there is the one that was to be created: the answer to that was lost."""
        found = await self._client.ask_until_answered(Get(paths.topic(topic.name)))
        return TopicAssignment.decode(topic.name, found.data).topic_id == topic.topic_id

    def _has_leaders(self, name: str, partitions: int) -> bool:
        topic = self._image.topics.get(name)
        if topic is None or len(topic.partitions) < partitions:
            return False
        return all(each.leader != NO_LEADER for each in topic.partitions.values())

    # CreatePartitions

    async def _grow(self, request: Any, call: Call, reply: Reply) -> None:
        from kpybroker.machines.controller.partitions import create_partitions

        records, response = self._decide(create_partitions, request, call)
        self._reword_growths(request, response)
        answers = {each.name: each for each in response.results if each.error_code == error_codes.NONE}
        topics = dict.fromkeys(each.topic_id for each in records if isinstance(each, PartitionRecord))
        grown = []
        for topic_id in topics:
            name = self._image.topics_by_id[topic_id].name
            total = await self._write_partitions(name, _replicas_of(records, topic_id))
            grown.append((name, total))

        def end() -> None:
            for name, total in grown:
                if not self._has_leaders(name, total):
                    answers[name].error_code = error_codes.REQUEST_TIMED_OUT
            reply(response)

        self._waiting.wait(lambda: all(self._has_leaders(*each) for each in grown), request.timeout_ms, end)

    def _reword_growths(self, request: CreatePartitionsRequest, response: CreatePartitionsResponse) -> None:
        refused = {each.name: each for each in response.results if each.error_code != error_codes.NONE}
        for wanted in request.topics:
            if wanted.name in refused:
                topic = self._image.topics.get(wanted.name)
                reword_growth(wanted, refused[wanted.name], 0 if topic is None else len(topic.partitions))

    async def _write_partitions(self, name: str, added: dict[int, tuple[int, ...]]) -> int:
        """Add partitions to a topic's znode; others may change it meanwhile. Returns the number of partitions."""
        path = paths.topic(name)
        while True:
            found = await self._client.ask_until_answered(Get(path))
            topic = TopicAssignment.decode(name, found.data)
            replicas = added | topic.replicas
            longer = TopicAssignment(name, dict(sorted(replicas.items())), topic.topic_id, topic.adding, topic.removing)
            try:
                await self._client.ask_until_answered(Set(path, longer.encode(), found.stat.version))
            except ZooKeeperError as error:
                if error.code != zookeeper_errors.BAD_VERSION:
                    raise
            else:
                return len(replicas)

    # DeleteTopics

    async def _delete(self, request: Any, call: Call, reply: Reply) -> None:
        from kpybroker.machines.controller.topics import delete_topics

        records, response = self._decide(delete_topics, request, call)
        doomed = {each.topic_id for each in records if isinstance(each, RemoveTopicRecord)}
        answers = [each for each in response.responses if each.topic_id in doomed]
        markers = [paths.delete_topic(each.name) for each in answers]
        creations = [Create(marker, None, self._acls.of(marker)) for marker in markers]
        for creation, result in zip(creations, await self._client.ask_all_until_answered(creations), strict=True):
            if not failed_with(result, zookeeper_errors.NODE_EXISTS):
                _done(creation, result)

        def end() -> None:
            for answer in answers:
                if answer.topic_id in self._image.topics_by_id:
                    answer.error_code = error_codes.REQUEST_TIMED_OUT
            reply(response)

        self._waiting.wait(
            lambda: not any(each in self._image.topics_by_id for each in doomed), request.timeout_ms, end
        )


def _refuse(answer: CreatableTopicResult, code: int, message: str) -> None:
    """Make the answer of a topic that would have been created a refusal, which describes no topic."""
    answer.error_code, answer.error_message, answer.topic_id = code, message, ZERO_UUID
    answer.num_partitions = answer.replication_factor = -1
    answer.configs = []


def _exists(name: str) -> tuple[int, str]:
    return error_codes.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."


def _is_there(look: Exists, answer: Any) -> bool:
    if failed_with(answer, zookeeper_errors.NO_NODE):
        return False
    _done(look, answer)
    return True


def _done(operation: Exists | Create | Set, answer: Any) -> None:
    """Raise ZooKeeperError if an operation was refused."""
    if isinstance(answer, OperationFailed):
        raise ZooKeeperError(answer, operation.path)


def _replicas_of(records: Iterable[Any], topic_id: bytes) -> dict[int, tuple[int, ...]]:
    return {
        each.partition_id: tuple(each.replicas)
        for each in records
        if isinstance(each, PartitionRecord) and each.topic_id == topic_id
    }
