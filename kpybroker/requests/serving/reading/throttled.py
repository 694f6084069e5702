"""The answer to a client with a quota: empty if the client has to wait, and then nothing of it counts as sent.

The partitions stay due in their session, so the client's next request reads them. A session that this request would
have begun is not kept, as in Kafka.
"""

from typing import Any, Final

from kpybroker.machines.fetch.session import NO_SESSION, Entry, Session
from kpybroker.machines.fetch.sessions import Sessions
from kpybroker.requests.serving.leader_hints import Node
from kpybroker.requests.serving.reading.policy import Policy
from kpybroker.requests.serving.reading.remembered import RememberedAnswer
from kpybroker.requests.serving.reading.session_answer import SessionAnswer
from kpybroker.runtime.calls.call import Call, FetchThrottle
from kpywire import error_codes
from kpywire.fetch import codec_for
from kpywire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

SIZE_BYTES: Final = 4


def charged_bytes(topics: list[FetchableTopicResponse], version: int) -> int:
    """The bytes that a response with these topics is charged for (``FetchResponse.sizeOf``): its body and the size in
    front of it, but not its header, and not the leaders that are named as hints."""
    parts: list[Any] = []
    response = FetchResponse(throttle_time_ms=0, error_code=error_codes.NONE, session_id=NO_SESSION, responses=topics)
    codec_for(version).encode(response, parts)
    return SIZE_BYTES + sum(map(len, parts))


class ThrottledAnswer:
    """Another form of answer behind the quotas of its client."""

    __slots__ = ("_answer", "_call", "_sessions", "_throttle", "incremental", "partitions", "session")

    def __init__(
        self, answer: "SessionAnswer | RememberedAnswer | ThrottledAnswer", sessions: Sessions, call: Call,
        throttle: FetchThrottle,
    ) -> None:  # fmt: skip
        self._answer = answer
        self._sessions = sessions
        self._call = call
        self._throttle = throttle
        self.incremental: bool = answer.incremental
        self.session: Session = answer.session
        self.partitions: dict[Entry, PartitionData] = answer.partitions

    @property
    def nodes(self) -> dict[int, Node] | None:
        """The leaders that the answer names as hints."""
        return self._answer.nodes

    @nodes.setter
    def nodes(self, nodes: dict[int, Node] | None) -> None:
        self._answer.nodes = nodes

    def topics(self) -> list[FetchableTopicResponse]:
        """The answers that were collected, by topic."""
        return self._answer.topics()

    def leaves_out(self, entry: Entry, answer: PartitionData) -> bool:
        """Whether a partition is left out of the answer."""
        return self._answer.leaves_out(entry, answer)

    def response(self, policy: Policy) -> FetchResponse:
        """The response, which is empty if the client has to wait."""
        size = charged_bytes(self._answer.topics(), self._call.api_version)
        throttle_ms = self._throttle.fetched(self._call, size)
        if throttle_ms <= 0:
            return self._answer.response(policy)
        session = self.session
        for entry, answer in self.partitions.items():
            if answer.records:
                answer.records, entry.held_back = b"", True
        if not self.incremental and session.id != NO_SESSION:
            self._sessions.end(session)
        return FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=error_codes.NONE,
            session_id=session.id if self.incremental else NO_SESSION,
            responses=[],
        )
