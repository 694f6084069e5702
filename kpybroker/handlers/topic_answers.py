"""What Metadata answers about topics, encoded once: a client of a large cluster asks for all of them again and again.

An answer depends on the topic, on which brokers are alive and on the version asked in. Invariant: what is kept here
equals what encoding the topic anew would give, so whoever changes one of the three calls :meth:`forget`.
"""

from collections.abc import Iterable

MOST_FORMS = 4
"""Versions (with and without authorized operations) that answers are kept in; clients of one cluster use few."""

Form = tuple[int, bool]
"""(version, with authorized operations)."""


class TopicAnswers:
    """Encoded topics by id, for each form they were asked in lately."""

    def __init__(self) -> None:
        self._forms: dict[Form, dict[bytes, bytes]] = {}

    def of(self, version: int, *, with_operations: bool) -> dict[bytes, bytes]:
        """The topics that are encoded in this form, to be added to."""
        form = version, with_operations
        topics = self._forms.get(form)
        if topics is None:
            if len(self._forms) >= MOST_FORMS:
                del self._forms[next(iter(self._forms))]
            topics = self._forms[form] = {}
        return topics

    def forget(self, topic_ids: Iterable[bytes]) -> None:
        """These topics have changed, or are gone."""
        for topic_id in topic_ids:
            for topics in self._forms.values():
                topics.pop(topic_id, None)

    def forget_all(self) -> None:
        """Brokers came or went."""
        self._forms.clear()
