"""The places where the records of a topic are: the stretches of files of this node's replicas, and the other nodes."""

import asyncio
from bisect import bisect_right
from collections.abc import Collection
from http import HTTPStatus
from typing import Final, NamedTuple

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.filtering import FilterFields, filter_of, time_in
from kpybroker.machines.console.matching import RecordFilter
from kpybroker.machines.console.record_tasks import PartitionFiles
from kpybroker.machines.console.records import OFFSET, TIME
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.partition.role import Role
from kpybroker.monitoring.console.answers.topics import known_topic
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.requests.serving.time_lookup import when_found
from kpybroker.runtime.http.request import HttpRefused
from kpystorage.disk import Disk
from kpystorage.errors import StorageError
from kpywire import error_codes, time_search

MOST_PARTITIONS: Final = 200


class Beginning(NamedTuple):
    """The place where a look or a search begins."""

    start: str
    """``newest``, ``oldest``, ``offset`` or ``time``."""
    offset: int = 0
    time_ms: int = 0
    since_ms: int | None = None
    """No record is older than this."""


class Places(NamedTuple):
    """The stretches of files that are read, and the partitions whose first wanted records only a store has."""

    files: list[PartitionFiles]
    in_store: list[int]


class Held(NamedTuple):
    """The partitions of a topic that are asked for."""

    roles: dict[int, Role]
    """This node's roles in them."""
    elsewhere: tuple[int, ...]
    """The partitions in which it has none."""
    left_out: int
    """Partitions of a topic with too many."""

    in_store: tuple[int, ...] = ()
    """The partitions of which no file of this node has the first records that are wanted: only a store has them."""

    def without(self, in_store: Collection[int]) -> "Held":
        """The same, where these partitions are not read from files."""
        roles = {number: role for number, role in self.roles.items() if number not in in_store}
        return self._replace(roles=roles, in_store=tuple(in_store))

    @property
    def disk(self) -> Disk | None:
        """The disk of the files."""
        return next((role.log.directory.disk for role in self.roles.values()), None)


def may_read(viewer: Viewer, topic: str) -> bool:
    """Whether a viewer may read the records of a topic."""
    return viewer.may_see_topic(topic) and viewer.may(AclOperation.READ, ResourceType.TOPIC, topic)


def readable(node: NodeParts, viewer: Viewer, name: str) -> Topic:
    """A topic whose records the viewer may read. Raises Refused."""
    topic = known_topic(node, viewer, name)
    viewer.must(AclOperation.READ, ResourceType.TOPIC, topic.name)
    return topic


def may_write(node: NodeParts, viewer: Viewer, topic: str) -> bool:
    """Whether a viewer may produce to a topic here."""
    return node.is_writable and viewer.may(AclOperation.WRITE, ResourceType.TOPIC, topic)


def chosen(query: Query, name: str, choices: tuple[str, ...]) -> str:
    """One of some values; the first without it. Raises Refused."""
    found = query.text(name) or choices[0]
    if found not in choices:
        raise bad(f"{name} is none of {', '.join(choices)}")
    return found


def time_of(text: str) -> int:
    """A time in ms since 1970. Raises Refused."""
    try:
        return time_in(text)
    except ValueError as error:
        raise bad(str(error)) from None


def fields_in(query: Query) -> FilterFields:
    """The fields of a filter."""
    texts = {name: query.text(name) for name in ("text", "key", "header", "json", "since", "until")}
    kind, where = query.text("kind") or "text", query.text("where") or "any"
    return FilterFields(kind=kind, where=where, ignore_case=query.flag("ignore_case"), **texts)


def filter_in(fields: FilterFields) -> RecordFilter | None:
    """The filter of these fields. Raises Refused."""
    try:
        return filter_of(fields)
    except ValueError as error:
        raise bad(str(error)) from None


def held(node: NodeParts, topic: Topic, index: int) -> Held:
    """This node's roles in the partitions that are asked for, and the partitions in which it has none."""
    if index >= 0 and index not in topic.partitions:
        refuse(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
    roles: dict[int, Role] = {}
    elsewhere: list[int] = []
    numbers = [index] if index >= 0 else sorted(topic.partitions)
    for number in numbers[:MOST_PARTITIONS]:
        try:
            roles[number] = node.broker.replicas.find(topic.name, number).held()
        except KafkaError:
            elsewhere.append(number)
        except StorageError as error:
            raise HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
    return Held(roles, tuple(elsewhere), max(0, len(numbers) - MOST_PARTITIONS))


async def places(node: NodeParts, roles: dict[int, Role], beginning: Beginning, newest: int = 0) -> Places:
    """The stretches of partitions that are read: from the beginning on, or with this number of newest records. Others
    are served between two of them."""
    found = Places([], [])
    for number, role in roles.items():
        log, offset = role.log, await _start(node, role, beginning)
        first, end = log.local_log_start_offset, role.high_watermark.offset
        wanted = max(offset, end - newest) if newest else offset
        # By time too: the first record on the disk may not be the first one that is not older.
        is_earlier = wanted < first or (wanted == first and beginning.start == TIME)
        if is_earlier and log.log_start_offset < first:
            found.in_store.append(number)
        else:
            start = max(first, min(offset, end))
            found.files.append(PartitionFiles(number, log.path, log.log_start_offset, end, start, end))
        await asyncio.sleep(0)
    return found


async def _start(node: NodeParts, role: Role, beginning: Beginning) -> int:
    """The first offset that is wanted of a partition, as far as its files say; a store may have earlier ones."""
    offset = role.log.log_start_offset
    if beginning.start == OFFSET:
        offset = max(offset, beginning.offset)
    elif beginning.start == TIME:
        offset = await _offset_at(node, role, beginning.time_ms)
    if beginning.since_ms is not None:
        since = await _offset_at(node, role, beginning.since_ms)
        offset = max(offset, since) if since > role.log.local_log_start_offset else offset
    return offset


async def _offset_at(node: NodeParts, role: Role, timestamp: int) -> int:
    """The offset of the first record that is not older; the end without one."""
    done: asyncio.Future[int | Exception | None] = asyncio.get_running_loop().create_future()

    def look_up(search: time_search.Search) -> int | Exception | None:
        try:
            found = role.log.offset_for_timestamp(timestamp, search)
        except KafkaError as error:
            return HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except StorageError as error:
            return error
        return None if found is None else found.offset

    when_found(node.broker.labour, "console", look_up, done.set_result)
    offset = await done
    if isinstance(offset, Exception):
        raise offset
    return role.high_watermark.offset if offset is None else offset


def not_empty(found: list[PartitionFiles]) -> tuple[PartitionFiles, ...]:
    """The stretches that have an offset."""
    return tuple(place for place in found if place.start_offset < place.end_offset)


def segment_of(role: Role | None, offset: int) -> int | None:
    """The base offset of the segment of this node that has an offset; None if there is none."""
    if role is None or not role.log.base_offsets:
        return None
    number = bisect_right(role.log.base_offsets, offset) - 1
    return role.log.base_offsets[number] if number >= 0 else None


def beginning_of(start: str, offset: int, time: str, wanted: RecordFilter | None) -> Beginning:
    """The place where the records of a page begin. Raises Refused."""
    since_ms = None if wanted is None else wanted.since_ms
    return Beginning(start, offset, time_of(time) if start == TIME else 0, since_ms)
