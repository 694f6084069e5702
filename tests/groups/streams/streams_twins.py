"""Kafka's group coordinator and ours with the same topics, requests and times, for streams groups."""

from typing import Any

from consumer_twins import ConsumerTwins

from kpybroker.groups.streams.configured import InternalTopic
from kpybroker.groups.streams.heartbeat import HeartbeatAnswer


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


def _shown(topic: InternalTopic) -> str:
    configs = ",".join(sorted(f"{key}={value}" for key, value in topic.configs.items()))
    return f"{topic.name} {topic.partitions} {topic.replication_factor or -1} {configs}"
