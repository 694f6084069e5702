"""The encoded answers of Metadata and DescribeTopicPartitions about topics. They are kept, since clients of a large
cluster ask for all topics again and again.

An answer depends on the topic, on which brokers are alive, and on the response and its version. Invariant: an answer
kept here equals a newly encoded one. So a change of a topic must call :meth:`forget`, and a change of brokers
:meth:`forget_all`.
"""

from collections.abc import Iterable
from typing import NamedTuple

MOST_FORMS = 5
"""The most forms that are kept (response, version, with or without authorized operations). Clients use only few."""

Form = tuple[type, int, bool]
"""(response, version, with authorized operations)."""


class EncodedTopics(NamedTuple):
    """Encoded topics by id. For topics that are not encoded as a whole: encoded partitions by topic id and number."""

    topics: dict[bytes, bytes]
    partitions: dict[bytes, dict[int, bytes]]


class TopicAnswers:
    """The encoded answers in each form that was asked for lately."""

    def __init__(self) -> None:
        self._forms: dict[Form, EncodedTopics] = {}

    def of(self, response: type, version: int, *, with_operations: bool = True) -> EncodedTopics:
        """The answers encoded in this form. The caller adds to them."""
        form = response, version, with_operations
        kept = self._forms.get(form)
        if kept is None:
            if len(self._forms) >= MOST_FORMS:
                del self._forms[next(iter(self._forms))]
            kept = self._forms[form] = EncodedTopics({}, {})
        return kept

    def forget(self, topic_ids: Iterable[bytes]) -> None:
        """Forget the answers of topics that have changed or were deleted."""
        for topic_id in topic_ids:
            for kept in self._forms.values():
                kept.topics.pop(topic_id, None)
                kept.partitions.pop(topic_id, None)

    def forget_all(self) -> None:
        """Forget all answers: the set of alive brokers has changed."""
        self._forms.clear()
