"""The offsets of a mirror's groups: each second those that changed at the source are committed here, and those that
were deleted there are deleted.

An offset is never above what is mirrored: it is cut to the high watermark here, and committed again when more is there.
So a group that is cut over skips nothing. Groups with members here are left alone: their coordinator refuses commits.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kpybroker.client.client import Spot
from kpybroker.client.group_requests import WITH_NAMES
from kpybroker.client.mirrored_groups import SourceGroups, commit_request, groups_of
from kpybroker.client.share_group_requests import start_request
from kpybroker.client.sources import MirrorSource
from kpybroker.hosts.mirror.group_removals import GroupRemovals
from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.mirror.recurring_looks import RecurringLooks
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.mirror_configs import SOURCE, is_fed
from kpybroker.machines.mirror.group_offsets import Commits, GroupOffset, GroupRemoval, clamped, removals
from kpybroker.machines.mirror.ids import may_be_mirror
from kpybroker.machines.mirror.mirror import Mirror
from kpybroker.runtime.io.scheduler import Submit
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

log = logging.getLogger("kpybroker.mirror")

LOOK_MS: Final = 1_000
LATEST: Final = -1
CONSUMER: Final = -1
GROUP: Final = 0


class GroupOffsets:
    """The groups of one mirror, carried over by one broker."""

    def __init__(self, parts: MirrorParts, mirror: Mirror, read: Submit) -> None:
        """``read`` does in a thread what waits for the source."""
        self._parts = parts
        self._mirror = mirror
        self._read = read
        self._source: MirrorSource | None = None
        self._looking = RecurringLooks(parts.scheduler, self._look)
        self._removals = GroupRemovals(parts, self._removed)
        self._committed: dict[str, dict[tuple[str, int], GroupOffset]] = {}
        """The offsets that were committed here, by group."""
        self._share_groups: set[str] = set()
        """The groups whose offsets are those where they start."""

    def carried(self) -> dict[str, int]:
        """The groups that were carried over, each with the number of its offsets."""
        return {group: len(offsets) for group, offsets in self._committed.items()}

    def begin(self, source: MirrorSource) -> None:
        """Carry the groups of the source over from now on."""
        self._source = source
        self._looking.begin()

    def stop(self) -> None:
        """Leave the groups alone."""
        self._source = None
        self._committed.clear()
        self._looking.stop()

    def _look(self) -> None:
        source, mirror = self._source, self._mirror
        assert source is not None
        carried = [group for group in self._committed if group not in self._share_groups]

        def read() -> SourceGroups:
            with source.client() as client:
                return groups_of(client, mirror.takes, carried)

        self._read(read, self._has_read)

    def _has_read(self, found: SourceGroups | None, error: BaseException | None) -> None:
        self._looking.over(LOOK_MS)
        if self._source is None:
            return
        if found is None:
            log.debug("The groups of mirror %s cannot be read: %s", self._mirror.name, error)
            return
        self._share_groups.update(found.starts)
        carried = {group: spots for group, spots in self._committed.items() if group not in self._share_groups}
        self._removals.begin(removals(carried, found.commits, found.dead, self._alike(found.topics)))
        groups = {**found.starts, **found.commits}
        changed = {group: self._changed(group, commits) for group, commits in groups.items()}
        wanted = {group: commits for group, commits in changed.items() if commits}
        if wanted:
            self._find_ends(wanted)

    def _alike(self, there: Mapping[str, bytes]) -> set[str]:
        """The topics with offsets that were carried over, and that are fed from the topic of the same id, if it has
        one."""
        image = self._parts.image
        carried = {name for spots in self._committed.values() for name, _ in spots}
        return {
            name
            for name in carried
            if name in image.topics
            and name in there
            and may_be_mirror(image.topics[name].id, there[name])
            and self._is_fed(image.configs_of(TOPIC_RESOURCE, name))
        }

    def _removed(self, group: str, removal: GroupRemoval) -> None:
        """Forget offsets that are removed here."""
        done = self._committed.get(group, {})
        for spot in removal.spots:
            done.pop(spot, None)
        if not done:
            self._committed.pop(group, None)

    def _changed(self, group: str, commits: Commits) -> Commits:
        """The offsets that differ from those committed here, in topics that are fed."""
        image, before = self._parts.image, self._committed.get(group, {})
        return {
            spot: commit
            for spot, commit in commits.items()
            if before.get(spot) != commit and self._is_fed(image.configs_of(TOPIC_RESOURCE, spot[0]))
        }

    def _is_fed(self, configs: Mapping[str, str]) -> bool:
        return is_fed(configs) and configs[SOURCE] == self._mirror.name

    # The ends of the partitions here

    def _find_ends(self, wanted: dict[str, Commits]) -> None:
        led: dict[int, dict[str, set[int]]] = {}
        topics = self._parts.image.topics
        for commits in wanted.values():
            for name, index in commits:
                topic = topics.get(name)
                partition = None if topic is None else topic.partitions.get(index)
                if partition is not None and partition.leader >= 0:
                    led.setdefault(partition.leader, {}).setdefault(name, set()).add(index)
        ends: dict[tuple[str, int], int] = {}
        outstanding = set(led)

        def found(node_id: int, response: Any) -> None:
            if not isinstance(response, NoResponse):
                for topic in response.topics:
                    for each in topic.partitions:
                        if each.error_code == error_codes.NONE:
                            ends[Spot(topic.name, each.partition_index)] = each.offset
            outstanding.discard(node_id)
            if not outstanding:
                self._commit(wanted, ends)

        for node_id, partitions in led.items():
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                topics=[
                    ListOffsetsTopic(
                        name=name,
                        partitions=[ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in indexes],
                    )
                    for name, indexes in partitions.items()
                ],
            )
            self._parts.nodes.send(node_id, request, partial(found, node_id))

    # Committing

    def _commit(self, wanted: dict[str, Commits], ends: Mapping[tuple[str, int], int]) -> None:
        due = {group: clamped(commits, ends) for group, commits in wanted.items()}
        due = {
            group: {
                spot: commit for spot, commit in commits.items() if self._committed.get(group, {}).get(spot) != commit
            }
            for group, commits in due.items()
        }
        groups = [group for group, commits in due.items() if commits]
        if groups and self._source is not None:
            request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=groups)
            self._parts.nodes.send(self._parts.node_id, request, partial(self._coordinators, due))

    def _coordinators(self, due: Mapping[str, Commits], response: Any) -> None:
        if isinstance(response, NoResponse) or self._source is None:
            return
        for each in response.coordinators:
            if each.error_code == error_codes.NONE:
                group, commits = each.key, due[each.key]
                if group in self._share_groups:
                    starts = {Spot(*place): commit.offset for place, commit in commits.items()}
                    answered = partial(self._has_started, group, commits)
                    self._parts.nodes.send(each.node_id, start_request(group, starts), answered)
                else:
                    answered = partial(self._has_committed, group, commits)
                    self._parts.nodes.send(each.node_id, commit_request(group, commits), answered, newest=WITH_NAMES)

    def _has_committed(self, group: str, commits: Commits, response: Any) -> None:
        if not isinstance(response, NoResponse):
            for topic in response.topics:
                for each in topic.partitions:
                    self._note(group, commits, Spot(topic.name, each.partition_index), each.error_code)

    def _has_started(self, group: str, commits: Commits, response: Any) -> None:
        """Handle the answer for a share group. One with members is refused as a whole."""
        if not isinstance(response, NoResponse):
            for topic in response.responses:
                for each in topic.partitions:
                    self._note(group, commits, Spot(topic.topic_name, each.partition_index), each.error_code)

    def _note(self, group: str, commits: Commits, spot: Spot, code: int) -> None:
        if code == error_codes.NONE:
            self._committed.setdefault(group, {})[spot] = commits[spot]
        else:
            name = error_codes.name(code)
            log.debug("The offset of group %s in %s is not carried over: %s", group, spot, name)
