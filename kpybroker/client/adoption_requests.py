"""Ordinary topics become mirrors of topics with the same ids, as after a failover to a former mirror. Errors as
KafkaError.

Each topic goes through these states (`kpybroker.machines.metadata.mirror_configs`), and a step that was interrupted is
repeated from the first of them on:

1. exporting: it is read-only and not fed. Where its log and the source's diverge is found, and the records from there
   on are exported. The comparison is made again with each attempt, and an unfinished export is begun again.
2. joining: it is fed, and brokers cut off at most what was exported.
3. mirroring.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.client import config_requests, mirrored_groups
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.config_requests import set_or_deleted
from kpybroker.client.epoch_requests import epoch_ends
from kpybroker.client.group_listing import list_groups
from kpybroker.client.share_group_requests import SHARE
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.mirror_configs import (
    EXPORT,
    EXPORTED,
    EXPORTING,
    JOINING,
    LEADER_EPOCH,
    MIRRORING,
    SOURCE,
    STATE,
    TOPIC_ID,
)
from kpybroker.machines.mirror.divergence import (
    AskHere,
    ComparedBounds,
    EpochEnd,
    ExportedPart,
    compared,
    exported_parts,
    exported_text,
)
from kpybroker.machines.mirror.group_offsets import clamped
from kpybroker.machines.mirror.mirror import Mirror
from kpybroker.machines.mirror.planning import EPOCH_MARGIN
from kpywire import error_codes, uuid
from kpywire.messages.metadata import MetadataRequest, MetadataResponseTopic

NAMES: Final = (SOURCE, STATE, EXPORT, EXPORTED)


class AdoptedTopic(NamedTuple):
    """A topic that is to become a mirror. ``state`` is None for an ordinary one."""

    here: MetadataResponseTopic
    there: MetadataResponseTopic
    state: str | None
    export: str
    """The target of its export, if one was begun."""
    exported: dict[int, ExportedPart]
    """The parts that were exported before."""

    @property
    def name(self) -> str:
        return self.here.name or ""

    @property
    def spots(self) -> list[Spot]:
        """The partitions."""
        return [Spot(self.name, index) for index in sorted(each.partition_index for each in self.here.partitions)]


Fences = Mapping[str, int]
"""For each topic a leader epoch that is above those of all its records."""


def candidates(client: Client, source: Client, mirror: Mirror) -> list[AdoptedTopic]:
    """The topics of both clusters that the mirror takes, and that have not joined it yet. INVALID_REQUEST if one of
    them cannot."""
    if _cluster_id(client) == _cluster_id(source):
        raise KafkaError(error_codes.INVALID_REQUEST, "the source is this cluster itself")
    there = {name: topic for topic in source.topics() if mirror.takes(name := topic.name or "")}
    here = {name: topic for topic in client.topics() if (name := topic.name or "") in there}
    configs = _configs(client, here)
    found = []
    for name, topic in sorted(here.items()):
        values = configs.get(name, {})
        state = values.get(STATE, MIRRORING) if SOURCE in values else None
        owner = values.get(SOURCE, mirror.name)
        if owner != mirror.name:
            raise KafkaError(error_codes.INVALID_REQUEST, f"topic {name} is of the mirror {owner}")
        if state in (None, EXPORTING, JOINING):
            _check_same(topic, there[name])
            exported = exported_parts(values.get(EXPORTED, ""))
            found.append(AdoptedTopic(topic, there[name], state, values.get(EXPORT, ""), exported))
    for name, values in _configs(source, [each.name for each in found]).items():
        if SOURCE in values:
            message = f"topic {name} of the source is a mirror itself: end that first, by kpybroker mirror failover"
            raise KafkaError(error_codes.INVALID_REQUEST, message)
    return found


def _cluster_id(client: Client) -> str | None:
    answer = client.call(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    found: str | None = answer.cluster_id
    return found


def _configs(client: Client, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """The configs of topics that are about mirrors; one that is not set is left out."""
    return {
        name: {each.name: each.value for each in configs if each.value is not None}
        for name, configs in config_requests.describe_topics(client, topics, NAMES)
    }


def _check_same(here: MetadataResponseTopic, there: MetadataResponseTopic) -> None:
    if here.topic_id != there.topic_id:
        message = f"topic {here.name} has another id at the source: it was created there independently"
        raise KafkaError(error_codes.INVALID_REQUEST, message)
    if len(here.partitions) > len(there.partitions):
        message = (
            f"topic {here.name} has {len(here.partitions)} partitions here and {len(there.partitions)} at the source: "
            f"add partitions there first"
        )
        raise KafkaError(error_codes.INVALID_REQUEST, message)


def seal(client: Client, topics: Iterable[AdoptedTopic], mirror: str) -> Fences:
    """Make topics read-only, in leader epochs above all of both clusters. Return these."""
    fences: dict[str, int] = {}
    changes = {}
    for each in topics:
        known = [part.leader_epoch for part in (*each.here.partitions, *each.there.partitions)]
        fences[each.name] = max(known, default=0) + EPOCH_MARGIN
        values = {
            SOURCE: mirror,
            TOPIC_ID: uuid.to_string(each.here.topic_id),
            LEADER_EPOCH: str(fences[each.name]),
            STATE: EXPORTING,
            EXPORTED: None,
        }
        changes[each.name] = [set_or_deleted(name, value) for name, value in values.items()]
    config_requests.alter_each_topic(client, changes)
    return fences


def lacking(
    client: Client, source: Client, topics: Iterable[AdoptedTopic], fences: Fences
) -> dict[str, list[ExportedPart]]:
    """The parts of sealed topics that their source lacks, with no numbers of records yet."""
    wanted = list(topics)
    spots = [spot for each in wanted for spot in each.spots]
    ends, here = client.retrying(lambda: _sealed_ends(client, spots, fences))
    starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    source_starts = source.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    newest, found = dict(here), dict[Spot, int]()
    while here:
        there = _epoch_ends(source, {spot: each.epoch for spot, each in here.items()})
        further = {}
        for spot, each in here.items():
            bounds = ComparedBounds(starts[spot], ends[spot], source_starts[spot])
            outcome = compared(each, there[spot], bounds)
            if isinstance(outcome, AskHere):
                further[spot] = outcome.epoch
            else:
                found[spot] = outcome
        here = _epoch_ends(client, further)
    parts: dict[str, list[ExportedPart]] = {each.name: [] for each in wanted}
    for spot in spots:
        if found[spot] < ends[spot]:
            part = ExportedPart(spot.partition, found[spot], ends[spot], newest[spot].epoch, 0)
            parts[spot.topic].append(part)
    return parts


def _sealed_ends(client: Client, spots: Iterable[Spot], fences: Fences) -> tuple[dict[Spot, int], dict[Spot, EpochEnd]]:
    """The log ends of sealed partitions, and the ends of their latest epochs with records. OFFSET_NOT_AVAILABLE while
    records are not replicated yet."""
    leaders = _leader_epochs(client, spots)
    for spot, epoch in leaders.items():
        if epoch < fences[spot.topic]:
            message = f"partition {spot} is still in leader epoch {epoch}"
            raise KafkaError(error_codes.UNKNOWN_LEADER_EPOCH, message)
    latest = epoch_ends(client, {spot: fences[spot.topic] - 1 for spot in leaders}, leaders)
    ends = {spot: end for spot, (_, end) in epoch_ends(client, leaders, leaders).items()}
    committed = client.list_offsets(dict.fromkeys(leaders, LATEST_TIMESTAMP))
    for spot, end in ends.items():
        if committed[spot] < end:
            message = f"partition {spot}: {end - committed[spot]} records are not replicated yet"
            raise KafkaError(error_codes.OFFSET_NOT_AVAILABLE, message)
    return ends, {spot: EpochEnd(*found) for spot, found in latest.items()}


def _leader_epochs(client: Client, spots: Iterable[Spot]) -> dict[Spot, int]:
    topics: dict[str, dict[int, int]] = {}
    found = {}
    for spot in spots:
        if spot.topic not in topics:
            partitions = client.topic(spot.topic).partitions
            topics[spot.topic] = {each.partition_index: each.leader_epoch for each in partitions}
        found[spot] = topics[spot.topic][spot.partition]
    return found


def _epoch_ends(client: Client, epochs: Mapping[Spot, int]) -> dict[Spot, EpochEnd]:
    """The ends of these epochs, or of the ones before them."""

    def attempt() -> dict[Spot, EpochEnd]:
        found = epoch_ends(client, epochs, _leader_epochs(client, epochs))
        return {spot: EpochEnd(*each) for spot, each in found.items()}

    return client.retrying(attempt)


def note_export(client: Client, targets: Mapping[str, str]) -> None:
    """Note the target of each topic's export, before it begins."""
    changes = {name: [set_or_deleted(EXPORT, target)] for name, target in targets.items()}
    config_requests.alter_each_topic(client, changes)


def cut_groups(client: Client, parts: Mapping[str, Iterable[ExportedPart]]) -> list[tuple[str, KafkaError]]:
    """Set the offsets of groups that are behind the divergence back to it. Return the groups that refuse."""
    ends = {Spot(name, each.partition): each.first_offset for name, found in parts.items() for each in found}
    refused: list[tuple[str, KafkaError]] = []
    for group in list_groups(client) if ends else ():
        if group.group_type.lower() == SHARE:
            continue
        present = mirrored_groups.commits_of(client, group.group_id, {spot.topic for spot in ends}.__contains__)
        cut = {spot: commit for spot, commit in clamped(present, ends).items() if commit != present[spot]}
        refused += mirrored_groups.commit_or_refuse(client, group.group_id, cut)
    return refused


def join(client: Client, parts: Mapping[str, Iterable[ExportedPart]]) -> None:
    """Have topics fed from now on: all of these parts are exported."""
    config_requests.alter_each_topic(
        client,
        {
            name: [set_or_deleted(EXPORTED, exported_text(found)), set_or_deleted(STATE, JOINING)]
            for name, found in parts.items()
        },
    )


def uncut(client: Client, parts: Mapping[str, Iterable[ExportedPart]]) -> list[Spot]:
    """The partitions of topics that are joining, and still have records that the source lacks."""
    wanted = {Spot(name, each.partition): each for name, found in parts.items() for each in found}
    ends = _epoch_ends(client, {spot: each.epoch for spot, each in wanted.items()})
    return [
        spot
        for spot, each in wanted.items()
        if ends[spot].epoch == each.epoch and ends[spot].end_offset > each.first_offset
    ]


def have_joined(client: Client, topics: Iterable[str]) -> None:
    """Note that these topics agree with their source: they are mirrors like any other."""
    config_requests.alter_topics(client, topics, [set_or_deleted(STATE, MIRRORING)])
