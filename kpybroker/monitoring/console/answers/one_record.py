"""One record, whole, wherever its partition is led, also if only a store has it."""

from http import HTTPStatus

from kpybroker.machines.console.record_tasks import FoundRecord, PartitionFiles, RecordTask, Shown, Unreadable
from kpybroker.machines.metadata.topic import Topic
from kpybroker.monitoring.console.answers.record_places import Held, held
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.remote_records import RemoteRecords, fetched
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused


async def one_record(node: NodeParts, viewer: Viewer, topic: Topic, index: int, offset: int) -> FoundRecord:
    """The record at an offset. Raises Refused if there is none."""
    here = held(node, topic, index)
    role = here.roles.get(index)
    if role is not None and not role.log.log_start_offset <= offset < role.log.local_log_start_offset:
        answers = await _of_files(node, here, index, offset)
    else:
        leader = topic.partitions[index].leader
        wanted = RemoteRecords(topic.name, topic.id, index, leader, offset, None, 1, committed=False)
        answers = list(await fetched(node.elsewhere, viewer, wanted, Shown(whole=True)))
    if answers and isinstance(answers[0], Unreadable):
        raise HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, answers[0].reason)
    found = next((each for each in answers if isinstance(each, FoundRecord)), None)
    if found is None or found.offset != offset:
        raise HttpRefused(HTTPStatus.NOT_FOUND, f"{topic.name}-{index} has no record at offset {offset}")
    return found


async def _of_files(node: NodeParts, here: Held, index: int, offset: int) -> list[object]:
    role = here.roles[index]
    log, end = role.log, role.high_watermark.offset
    place = PartitionFiles(index, log.path, log.log_start_offset, end, max(offset, log.local_log_start_offset), end)
    if place.start_offset >= end:
        return []
    return list(await node.searches.read(log.directory.disk, RecordTask((place,), 1, whole=True)))
