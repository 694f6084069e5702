"""Facts learned from a broker's answer: ids that it made up, which later steps name by symbols.

Each is also kept the other way round, so that `normalisation` can put the symbol where the id stands.
"""

from typing import Any

from kpywire import api
from kpywire.uuid import ZERO_UUID


class Learnings:
    """The facts that one broker reported in one sequence. The sequence's names begin with ``prefix``."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.memory: dict[tuple[str, str], Any] = {}
        self.symbols: dict[Any, str] = {}
        self._counts: dict[str, int] = {}

    def learn(self, actor: str, key: int, request: Any, answer: Any) -> None:
        """Take what there is in an answer to a request of ``actor``."""
        match key:
            case api.CREATE_TOPICS | api.METADATA | api.DESCRIBE_TOPIC_PARTITIONS:
                for topic in answer.topics:
                    if topic.error_code == 0 and topic.name:
                        self.topic(topic.name, topic.topic_id)
            case api.DESCRIBE_CLUSTER if answer.error_code == 0:
                self._made_up("cluster_id", "", answer.cluster_id)
            case api.INIT_PRODUCER_ID if answer.error_code == 0:
                self._made_up("producer_id", actor, answer.producer_id)
                self.memory["producer_epoch", actor] = answer.producer_epoch
            case api.END_TXN if answer.error_code == 0 and answer.producer_id >= 0:
                self._made_up("producer_id", actor, answer.producer_id)
                self.memory["producer_epoch", actor] = answer.producer_epoch
            case api.JOIN_GROUP if answer.member_id and answer.member_id != request.member_id:
                self._made_up("member_id", actor, answer.member_id)
            case api.CONSUMER_GROUP_HEARTBEAT if answer.error_code == 0:
                self.memory["generation", actor] = answer.member_epoch
                if answer.member_id != request.member_id:
                    self._made_up("member_id", actor, answer.member_id)
            case api.STREAMS_GROUP_HEARTBEAT if answer.error_code == 0:
                self.memory["generation", actor] = answer.member_epoch
            case api.GET_TELEMETRY_SUBSCRIPTIONS if answer.error_code == 0:
                self._made_up("instance_id", actor, answer.client_instance_id)
                self._made_up("subscription_id", actor, answer.subscription_id)
            case api.FETCH if answer.session_id:
                self._made_up("session_id", actor, answer.session_id)
        if key == api.JOIN_GROUP and answer.error_code == 0:
            self.memory["generation", actor] = answer.generation_id

    def topic(self, name: str, topic_id: bytes) -> None:
        """The id of a topic; one that it had before stays known as its old one."""
        own = f"~{name.removeprefix(self.prefix)}" if name.startswith(self.prefix) else name
        known = self.memory.get(("topic_id", own))
        if topic_id not in (ZERO_UUID, known):
            if known is not None:
                self.memory["old_topic_id", own] = known
            self._made_up("topic_id", own, topic_id)

    def _made_up(self, kind: str, owner: str, value: Any) -> None:
        self.memory[kind, owner] = value
        if value not in self.symbols:
            name = f"{kind} of {owner}"
            self._counts[name] = count = self._counts.get(name, 0) + 1
            self.symbols[value] = f"<{name}>" if count == 1 else f"<{name}, {count}>"
