"""The requests of ``kpybroker mirror``: mirrors are configs of the cluster and of their topics. Errors as KafkaError.

A failover goes through three states, each of which is one batch of the metadata log for all topics: they are fed; they
are stopping, so that nothing of the source is appended, and transactions that the source left open are aborted; they
are ordinary topics. A failover that is interrupted is repeated, and goes on where it was.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.client import config_requests, transaction_requests
from kpybroker.client.client import Client, OffsetAndTimestamp, Spot
from kpybroker.client.config_requests import ConfigResource, ConfigResourceType
from kpybroker.client.producer_requests import producers
from kpybroker.client.transaction_requests import TransactionFilter
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.mirror_configs import (
    ALL_OF_A_TOPIC,
    CARRIED,
    EXPORT,
    EXPORTED,
    EXPORTING,
    JOINING,
    MIRRORING,
    MIRRORS,
    SOURCE,
    STATE,
    STOPPING,
)
from kpybroker.machines.mirror.divergence import ExportedPart, exported_parts
from kpybroker.machines.mirror.ids import is_made_up, may_be_mirror
from kpybroker.machines.mirror.mirror import Mirror, mirrors_of
from kpywire import error_codes
from kpywire.messages.metadata import MetadataResponseTopic

ALL_BROKERS: Final = ConfigResource(ConfigResourceType.BROKER, "")
LATEST: Final = -1
LAST_TIME: Final = -3
"""The offset and timestamp of the latest record (KIP-734)."""
MARKER_WAIT_S: Final = 0.1
ENDING: Final = ("PrepareCommit", "PrepareAbort")
SHRUNK: Final = "the source ends before its mirror: the topic was created again there, or lost records"
FETCHING: Final = "it is being fetched"
"""The reason of a partition that is behind and will not be for long."""


class MirroredTopic(NamedTuple):
    """A topic that is a mirror. ``state`` is one of those of ``kpybroker.mirror.state``."""

    topic: MetadataResponseTopic
    mirror: str
    state: str
    export: str = ""
    """The topic or directory with the records that the source lacks."""
    exported: tuple[ExportedPart, ...] = ()

    @property
    def name(self) -> str:
        return self.topic.name or ""

    @property
    def spots(self) -> list[Spot]:
        """The partitions."""
        return [Spot(self.name, index) for index in sorted(each.partition_index for each in self.topic.partitions)]


class MirroredPartition(NamedTuple):
    """How far a partition is mirrored. ``reason`` says why it is behind or not fed; empty if all is well."""

    spot: Spot
    end: int | None
    source_end: int | None
    reason: str
    is_whole: bool = True
    """A failover tears no transaction in it."""
    is_waiting: bool = False
    """It is fed, and the reason says what is not shown yet."""

    @property
    def lag(self) -> int | None:
        """The records that are missing here; None if one of the ends is not known."""
        return None if self.end is None or self.source_end is None else max(self.source_end - self.end, 0)

    def if_ahead(self, reason: str) -> "MirroredPartition":
        """The same with a reason if more is here than at the source, and it has none."""
        is_ahead = self.end is not None and self.source_end is not None and self.end > self.source_end
        return self._replace(reason=reason) if is_ahead and not self.reason else self


class SourceState(NamedTuple):
    """The topics of a source by their names, and the ends of partitions there."""

    topics: Mapping[str, MetadataResponseTopic]
    ends: Mapping[Spot, int]


def mirrors(client: Client) -> dict[str, Mirror]:
    """The mirrors that the cluster has, by their names."""
    for each in config_requests.describe(client, ALL_BROKERS, [MIRRORS]):
        if each.name == MIRRORS and each.value:
            return mirrors_of(each.value.split(","))
    return {}


def set_mirrors(client: Client, named: Iterable[Mirror]) -> None:
    """Have these mirrors, and no others."""
    text = ",".join(map(str, named))
    config_requests.alter(client, ALL_BROKERS, [config_requests.set_or_deleted(MIRRORS, text or None)])


def mirrored_topics(client: Client, mirror: str | None = None) -> list[MirroredTopic]:
    """The topics of one mirror, or of all, by name."""
    topics = {topic.name or "": topic for topic in client.topics() if not topic.is_internal}
    found = []
    for name, configs in config_requests.describe_topics(client, sorted(topics), [SOURCE, STATE, EXPORT, EXPORTED]):
        values = {each.name: each.value or "" for each in configs}
        if values.get(SOURCE) and mirror in (None, values[SOURCE]):
            exported = tuple(exported_parts(values.get(EXPORTED, "")).values())
            state, export = values.get(STATE, MIRRORING), values.get(EXPORT, "")
            found.append(MirroredTopic(topics[name], values[SOURCE], state, export, exported))
    return found


def partitions(
    client: Client, topics: Iterable[MirroredTopic], source: Client | None, named: Iterable[str]
) -> list[MirroredPartition]:
    """How far the partitions of topics are mirrored, compared with the source if it can be asked. ``named`` are the
    mirrors that the cluster has."""
    wanted = list(topics)
    ends = _ends(client, [spot for each in wanted for spot in each.spots])  # before the source's, which are not behind
    there = None if source is None else source_state(source, [each.name for each in wanted])
    without_ids = {each.name for each in wanted if is_made_up(each.topic.topic_id)}
    return [
        each.if_ahead(SHRUNK) if each.spot.topic in without_ids else each
        for each in compared(wanted, ends, there, set(named))
    ]


def source_state(source: Client, names: Iterable[str]) -> SourceState:
    """The topics of a source, and the ends of the partitions of those with these names. Raises KafkaError and
    Unreachable."""
    topics = {topic.name or "": topic for topic in source.topics()}
    known = [topics[name] for name in names if name in topics]
    led = [
        Spot(topic.name or "", each.partition_index)
        for topic in known
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    return SourceState(topics, _ends(source, led))


def compared(
    topics: Iterable[MirroredTopic], ends: Mapping[Spot, int], there: SourceState | None, named: set[str]
) -> Iterator[MirroredPartition]:
    """The partitions of topics, by their ends here, compared with the source if it is known."""
    others, source_ends = ({}, {}) if there is None else there
    for topic in topics:
        for spot, reason in _reasons(topic, others, named, there is not None):
            state = MirroredPartition(spot, ends.get(spot), source_ends.get(spot), reason)
            yield state if reason or not state.lag else state._replace(reason=FETCHING)


def _reasons(
    topic: MirroredTopic,
    there: Mapping[str, MetadataResponseTopic],
    named: set[str],
    knows_source: bool,  # noqa: FBT001
) -> Iterable[tuple[Spot, str]]:
    """Why each partition of a topic is not fed; empty if it is."""
    other = there.get(topic.name)
    whole = ""
    if topic.state == STOPPING:
        whole = "a failover is under way"
    elif topic.state == EXPORTING:
        whole = "records that the source lacks are exported first: create --adopt does that"
    elif topic.state == JOINING:
        whole = "records that were exported are cut off: create --adopt goes on with it"
    elif topic.mirror not in named:
        whole = f"the mirror {topic.mirror} is stopped"
    elif knows_source and other is None:
        whole = "the topic does not exist at the source"
    elif other is not None and not may_be_mirror(topic.topic.topic_id, other.topic_id):
        whole = "the topic was created again at the source"
    others = {} if other is None else {each.partition_index: each for each in other.partitions}
    for each in sorted(topic.topic.partitions, key=lambda part: part.partition_index):
        reason, its_source = whole, others.get(each.partition_index)
        if not reason and each.leader_id < 0:
            reason = "it has no leader here"
        elif not reason and its_source is not None and its_source.leader_id < 0:
            reason = "it has no leader at the source"
        elif not reason and its_source is not None and its_source.leader_epoch >= each.leader_epoch:
            reason = f"it waits for a leader epoch above {its_source.leader_epoch} here"
        yield Spot(topic.name, each.partition_index), reason


def _ends(client: Client, spots: Iterable[Spot]) -> dict[Spot, int]:
    return client.list_offsets(dict.fromkeys(spots, LATEST))


def last_records(client: Client, spots: Iterable[Spot]) -> dict[Spot, OffsetAndTimestamp]:
    """The offset and timestamp of the latest record of each partition; -1 where there is none."""
    return client.find_offsets(dict.fromkeys(spots, LAST_TIME))


def last_times(source: Client, spots: Iterable[Spot]) -> dict[Spot, int]:
    """The time of the latest record of each partition; -1 where there is none, or the source cannot say (before
    Kafka 3.0)."""
    wanted = list(spots)
    try:
        return {spot: found.timestamp for spot, found in last_records(source, wanted).items()}
    except KafkaError as error:
        if error.code != error_codes.UNSUPPORTED_VERSION:
            raise
        return dict.fromkeys(wanted, -1)


def ending_transactions(source: Client, topics: Iterable[str]) -> list[str]:
    """The transactional ids of a source whose markers are being written. A source before Kafka 3.0 lists none: then
    the partitions of these topics with open transactions. Raises KafkaError."""
    try:
        wanted = TransactionFilter(states=ENDING)
        return [each.transactional_id for each in transaction_requests.transactions(source, wanted)]
    except KafkaError as error:
        if error.code != error_codes.UNSUPPORTED_VERSION:
            raise
    ends = source_state(source, topics).ends
    stable = source.list_offsets(dict.fromkeys(ends, LATEST), committed_only=True)
    return [f"a producer in {spot}" for spot, end in ends.items() if stable[spot] < end]


# The steps of a failover


def stop_feeding(client: Client, topics: Iterable[MirroredTopic]) -> None:
    """Have nothing of the source appended any more. The topics stay read-only."""
    _alter_all(client, topics, {STATE: STOPPING})


def end_transactions(client: Client, topics: Iterable[MirroredTopic], within_s: float) -> int:
    """Abort the transactions that the source left open in topics that are stopping. Return how many markers were
    written. Raises REQUEST_TIMED_OUT."""
    spots = [spot for each in topics for spot in each.spots]
    deadline_s, ended = time.monotonic() + within_s, 0
    while True:
        left = [each for each in producers(client, spots) if each.open_since_offset is not None]
        if not left:
            return ended
        if time.monotonic() > deadline_s:
            text = f"{len(left)} transactions are still open after {within_s:.0f} s, the first in {left[0].spot}"
            raise KafkaError(error_codes.REQUEST_TIMED_OUT, text)
        for each in left:
            transaction_requests.abort_in(client, each.spot, each.producer_id, each.epoch, each.coordinator_epoch)
        ended = max(ended, len(left))
        time.sleep(MARKER_WAIT_S)


def make_writable(client: Client, topics: Iterable[MirroredTopic]) -> None:
    """Make the topics ordinary ones: nothing says any more that they were mirrors."""
    _alter_all(client, topics, dict.fromkeys(ALL_OF_A_TOPIC))


def forget_carried(client: Client, mirror: str) -> None:
    """Forget which ACLs and quotas a mirror has carried over: from now on they are this cluster's own."""
    found = {each.name: each.value or "" for each in config_requests.describe(client, ALL_BROKERS, [CARRIED])}
    notes = list(filter(None, found.get(CARRIED, "").split(",")))
    kept = [each for each in notes if each.partition(":")[0] != mirror]
    if kept != notes:
        config_requests.alter(client, ALL_BROKERS, [config_requests.set_or_deleted(CARRIED, ",".join(kept) or None)])


def _alter_all(client: Client, topics: Iterable[MirroredTopic], configs: Mapping[str, str | None]) -> None:
    changes = [config_requests.set_or_deleted(name, value) for name, value in configs.items()]
    config_requests.alter_topics(client, [each.name for each in topics], changes)
