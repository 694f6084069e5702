"""What Metadata and DescribeTopicPartitions answer about topics, encoded once: clients of a large cluster ask for all
of them again and again.

An answer depends on the topic, on which brokers are alive, and on the response and version asked for. Invariant: what
is kept here equals what encoding it anew would give, so whoever changes one of them calls :meth:`forget`.
"""

from collections.abc import Iterable
from typing import NamedTuple

MOST_FORMS = 5
"""Responses and versions (with and without authorized operations) that are kept; clients of one cluster use few."""

Form = tuple[type, int, bool]
"""(response, version, with authorized operations)."""


class Kept(NamedTuple):
    """Encoded topics by id, and encoded partitions by number of those that are not answered as a whole."""

    topics: dict[bytes, bytes]
    partitions: dict[bytes, dict[int, bytes]]


class TopicAnswers:
    """What is encoded, for each form it was asked in lately."""

    def __init__(self) -> None:
        self._forms: dict[Form, Kept] = {}

    def of(self, response: type, version: int, *, with_operations: bool = True) -> Kept:
        """What is encoded in this form, to be added to."""
        form = response, version, with_operations
        kept = self._forms.get(form)
        if kept is None:
            if len(self._forms) >= MOST_FORMS:
                del self._forms[next(iter(self._forms))]
            kept = self._forms[form] = Kept({}, {})
        return kept

    def forget(self, topic_ids: Iterable[bytes]) -> None:
        """These topics have changed, or are gone."""
        for topic_id in topic_ids:
            for kept in self._forms.values():
                kept.topics.pop(topic_id, None)
                kept.partitions.pop(topic_id, None)

    def forget_all(self) -> None:
        """Brokers came or went."""
        self._forms.clear()
