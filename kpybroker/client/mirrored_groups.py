"""The offsets of a source's groups, and the commits that carry them over to a mirror. Errors as KafkaError."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from kpybroker.client import group_requests, share_group_requests
from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.group_listing import list_groups
from kpybroker.client.group_requests import WITH_NAMES
from kpybroker.client.share_group_requests import SHARE
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.group_offsets import NO_EPOCH, Commits, GroupOffset, clamped
from kpywire import error_codes
from kpywire.messages.list_groups import ListedGroup
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


def offsets_of_groups(
    client: Client, listed: Iterable[ListedGroup], takes: Callable[[str], bool]
) -> dict[str, Commits]:
    """The offsets that groups have committed in the topics that ``takes`` takes. Share groups have none."""
    found: dict[str, Commits] = {}
    for group in listed:
        if group.group_type.lower() != SHARE:
            wanted = commits_of(client, group.group_id, takes)
            if wanted:
                found[group.group_id] = wanted
    return found


def starts_of_share_groups(
    client: Client, listed: Iterable[ListedGroup], takes: Callable[[str], bool]
) -> dict[str, Commits]:
    """The start offsets of share groups in the topics that ``takes`` takes. A group that may not be described, or whose
    coordinator does not know the request, is left out."""
    found: dict[str, Commits] = {}
    for group in listed:
        if group.group_type.lower() == SHARE:
            with suppress(KafkaError):
                starts = share_group_requests.start_offsets(client, group.group_id)
                wanted = {spot: GroupOffset(start.offset, NO_EPOCH, "") for spot, start in starts.items()}
                found[group.group_id] = {spot: start for spot, start in wanted.items() if takes(spot.topic)}
    return {group: starts for group, starts in found.items() if starts}


class SourceGroups(NamedTuple):
    """The groups of a source, as far as a mirror carries them over."""

    commits: dict[str, Commits]
    """The offsets of each group that has any in the mirror's topics."""
    starts: dict[str, Commits]
    """The start offsets of share groups."""
    dead: frozenset[str]
    """The groups among those that were carried over that do not exist any more."""
    topics: dict[str, bytes]
    """The names and ids of the source's topics."""


def groups_of(client: Client, takes: Callable[[str], bool], carried: Iterable[str]) -> SourceGroups:
    """The groups of a source. ``carried`` are those that were carried over before."""
    listed = list_groups(client)
    commits, starts = offsets_of_groups(client, listed, takes), starts_of_share_groups(client, listed, takes)
    missing = [group for group in carried if group not in commits]
    dead = frozenset(group for group in missing if _is_dead(client, group))
    topics = {topic.name or "": topic.topic_id for topic in client.topics()}
    return SourceGroups(commits | {group: {} for group in missing if group not in dead}, starts, dead, topics)


def _is_dead(client: Client, group: str) -> bool:
    try:
        group_requests.describe(client, group)
    except KafkaError as error:
        if error.code == error_codes.GROUP_ID_NOT_FOUND:
            return True
        raise
    return False


def commits_of(client: Client, group: str, takes: Callable[[str], bool]) -> Commits:
    """The offsets that a group has committed in the topics that ``takes`` takes."""
    commits = group_requests.committed(client, group)
    return {spot: GroupOffset(*commit) for spot, commit in commits.items() if takes(spot.topic)}


def commit_request(group: str, commits: Commits) -> OffsetCommitRequest:
    """The request that commits these offsets for a group without members."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), commit in commits.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=commit.offset,
                committed_leader_epoch=commit.leader_epoch,
                committed_metadata=commit.metadata,
            )
        )
    return OffsetCommitRequest(group_id=group, member_id="", topics=list(topics.values()))


def carry_over(client: Client, source: Client, ends: Mapping[Spot, int]) -> list[tuple[str, KafkaError]]:
    """Commit the offsets of the source's groups in these partitions, up to their ``ends`` here. Return the groups whose
    coordinator refuses, such as those with members."""
    topics = {spot.topic for spot in ends}
    refused: list[tuple[str, KafkaError]] = []
    listed = list_groups(source)
    for group, commits in offsets_of_groups(source, listed, topics.__contains__).items():
        due = clamped(commits, ends)
        committed = group_requests.committed(client, group, [Spot(*place) for place in due])
        different = {place: commit for place, commit in due.items() if committed.get(Spot(*place)) != tuple(commit)}
        refused += commit_or_refuse(client, group, different)
    for group, starts in starts_of_share_groups(source, listed, topics.__contains__).items():
        try:
            _set_starts(client, group, {Spot(*place): start.offset for place, start in clamped(starts, ends).items()})
        except KafkaError as error:
            refused.append((group, error))
    return refused


def _set_starts(client: Client, group: str, offsets: Mapping[Spot, int]) -> None:
    """Set the start offsets of a share group that differ from these."""
    try:
        present = share_group_requests.start_offsets(client, group)
    except KafkaError as error:
        if error.code != error_codes.GROUP_ID_NOT_FOUND:
            raise
        present = {}
    due = {spot: offset for spot, offset in offsets.items() if spot not in present or present[spot].offset != offset}
    if due:
        share_group_requests.set_start_offsets(client, group, due)


def commit_or_refuse(client: Client, group: str, commits: Commits) -> list[tuple[str, KafkaError]]:
    """Commit offsets of a group, if there are any. Return the group with the error if its coordinator refuses."""
    if commits:
        try:
            _commit(client, group, commits)
        except KafkaError as error:
            return [(group, error)]
    return []


def _commit(client: Client, group: str, commits: Commits) -> None:
    request = commit_request(group, commits)

    def attempt() -> None:
        for topic in client.call_coordinator(group, request, newest=WITH_NAMES).topics:
            for each in topic.partitions:
                raise_for(each.error_code, f"offset of {Spot(topic.name, each.partition_index)}")

    client.retrying(attempt)
