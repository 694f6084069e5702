"""Kafka's group coordinator and ours with the same topics, requests and times, for streams groups. Their records have
the same bytes."""

from collections.abc import Sequence
from typing import Any

from consumer_twins import ConsumerTwins, last_epoch_only

from kpybroker.machines.groups.streams.configured import InternalTopic
from kpybroker.machines.groups.streams.heartbeat import HeartbeatAnswer

RECORD_TYPES = range(17, 24)


class StreamsTwins(ConsumerTwins):
    """The internal topics that a heartbeat lacks are compared too."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.missing: dict[str, InternalTopic] = {}
        super().__init__(*arguments, **settings)

    def compare(self, known: int) -> None:
        for ticket, _, _ in self.tickets.values():
            if ticket.is_answered and isinstance(ticket.response, HeartbeatAnswer):
                self.missing = dict(ticket.response.missing)
                shown = sorted(map(_shown, self.missing.values()))
                assert shown == sorted(self.theirs.missing), self.history()
        super().compare(known)
        ours = [record.encoded() for record in self.ours.records[known:]]
        assert _of_streams(ours) == _of_streams(self.theirs.records), self.history()


def _of_streams(records: Sequence[tuple[bytes, bytes | None]]) -> set[tuple[bytes, bytes | None]]:
    """The bytes of the records of streams groups, of several epochs only the last."""
    return {record for record in last_epoch_only(records) if int.from_bytes(record[0][:2], "big") in RECORD_TYPES}


def _shown(topic: InternalTopic) -> str:
    configs = ",".join(sorted(f"{key}={value}" for key, value in topic.configs.items()))
    return f"{topic.name} {topic.partitions} {topic.replication_factor or -1} {configs}"
