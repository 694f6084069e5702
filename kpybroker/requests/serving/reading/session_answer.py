"""The answer of a fetch session, or of a request without one."""

from typing import Final

from kpybroker.machines.fetch.session import NO_SESSION, Entry, Session
from kpybroker.machines.fetch.sessions import Sessions
from kpybroker.requests.serving.leader_hints import Node, node_endpoints
from kpybroker.requests.serving.preferred_replica import NO_PREFERENCE
from kpybroker.requests.serving.reading.policy import Policy
from kpywire import error_codes
from kpywire.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint, PartitionData

UNTOLD: Final = -1
MOST_ERRORS: Final = 1000
"""The most partitions with errors in a session. Each request, however short, would report all of them again, so a
session with more is ended."""


class SessionAnswer:
    """The answer as it would be sent now: every partition of a full request, or the news of an incremental one."""

    __slots__ = ("_sessions", "incremental", "nodes", "partitions", "session")

    def __init__(self, sessions: Sessions, session: Session, *, incremental: bool) -> None:
        self.session = session
        self.incremental = incremental
        self.partitions: dict[Entry, PartitionData] = {}
        """The answer for a partition that is not in the session's ``changed`` is up to date."""
        self.nodes: dict[int, Node] | None = None
        """The leaders that the answer names as hints (KIP-951)."""
        self._sessions = sessions

    def leaves_out(self, entry: Entry, answer: PartitionData) -> bool:
        """Whether a partition without records, which may wait, is not told."""
        if answer.high_watermark != entry.sent_high_watermark or answer.log_start_offset != entry.sent_log_start_offset:
            return False
        if not entry.held_back:
            self.session.changed.pop(entry, None)
        return self.incremental

    def topics(self) -> list[FetchableTopicResponse]:
        """The answers that were collected last, by topic."""
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for entry, answer in self.partitions.items():
            key = entry.topic
            topic = topics.get(key)
            if topic is not None:
                topic.partitions.append(answer)
            elif isinstance(key, bytes):
                topics[key] = FetchableTopicResponse(topic_id=key, partitions=[answer])
            else:
                topics[key] = FetchableTopicResponse(topic=key, partitions=[answer])
        return list(topics.values())

    def response(self, policy: Policy) -> FetchResponse:
        """The response made of the answers that were collected last."""
        session = self.session
        errors, goes_on = 0, session.id != NO_SESSION
        for entry, answer in self.partitions.items():
            if answer.error_code != error_codes.NONE:
                errors += 1
            if goes_on:
                more = bool(answer.records) or must_not_wait(answer)
                # A replica that cuts its log takes nothing else of the answer: it has to hear that again.
                told = answer.high_watermark if answer.diverging_epoch.epoch < 0 else UNTOLD
                session.answered(entry, told, answer.log_start_offset, more=more)
            policy.count(entry, answer)
        if errors > MOST_ERRORS and goes_on:
            self._sessions.end(session)
        return FetchResponse(
            throttle_time_ms=0,
            error_code=error_codes.NONE,
            session_id=session.id,
            responses=self.topics(),
            node_endpoints=node_endpoints(self.nodes, NodeEndpoint) if self.nodes and not policy.is_replica else [],
        )


def must_not_wait(answer: PartitionData) -> bool:
    """Whether an answer is sent at once although it has no records."""
    if answer.error_code != error_codes.NONE or answer.diverging_epoch.epoch >= 0:
        return True
    return answer.preferred_read_replica != NO_PREFERENCE
