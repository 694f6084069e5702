"""The topics and partitions that the sender of one request may still create under `topic_bounds`. Pure."""

from collections.abc import Collection, Generator
from typing import Final

from kpybroker.machines.controller.state import ControllerState
from kpybroker.machines.controller.topic_bounds import MAX_PARTITIONS, MAX_TOPICS
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.creator import MARK_BYTES, creator_in, mark_of
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.metadata.topic_name import INTERNAL
from kpybroker.runtime.calls.principal import Principal
from kpywire import error_codes

STEP: Final = 1024
"""The number of topics that are counted between two yields."""
LAST_OF_STEP: Final = STEP - 1


class Allowance:
    """The rest of the bounds for the sender of one request. Without bounds everything is allowed."""

    def __init__(self, state: ControllerState, principal: Principal) -> None:
        bounds = state.settings.topic_bounds
        is_on = (bounds.max_topics > 0 or bounds.max_partitions > 0) and principal not in bounds.exempt
        self._state = state
        self._bounds = bounds
        self._principal = principal
        self._mark = mark_of(str(principal)) if is_on else b""
        self._topics: dict[bytes, int] = {}
        self._partitions: dict[bytes, int] = {}

    def count(self, also: Collection[Topic] = ()) -> Generator[None, None, "Allowance"]:
        """Count the topics of the principal, and those of the creators of ``also``. Yields now and then."""
        if self._mark:
            marks = {self._mark, *(creator_in(topic.id) for topic in also)}
            self._topics = dict.fromkeys(marks, 0)
            self._partitions = dict.fromkeys(marks, 0)
            for number, topic in enumerate(list(self._state.image.topics.values())):
                if number % STEP == LAST_OF_STEP:
                    yield
                mark = creator_in(topic.id)
                if mark in marks and topic.name not in INTERNAL:
                    self._topics[mark] += 1
                    self._partitions[mark] += len(topic.partitions)
        return self

    def check_new(self, name: str, partitions: int) -> None:
        """Raise POLICY_VIOLATION if the principal may not create this topic."""
        if not self._mark or name in INTERNAL:
            return
        present, most = self._topics[self._mark], self._bounds.max_topics
        if 0 < most <= present:
            raise KafkaError(
                error_codes.POLICY_VIOLATION,
                f"{self._principal} has created {present} topics, and may have {most} ({MAX_TOPICS}).",
            )
        self._check_partitions(self._mark, str(self._principal), partitions)

    def check_growth(self, topic: Topic, partitions: int) -> None:
        """Raise POLICY_VIOLATION if a topic may not get more partitions. They count for its creator."""
        if self._mark and topic.name not in INTERNAL:
            mark = creator_in(topic.id)
            owner = str(self._principal) if mark == self._mark else f"The creator of topic {topic.name}"
            self._check_partitions(mark, owner, partitions)

    def created(self, name: str, partitions: int) -> None:
        """Count a topic that is created."""
        if self._mark and name not in INTERNAL:
            self._topics[self._mark] += 1
            self._partitions[self._mark] += partitions

    def grew(self, topic: Topic, partitions: int) -> None:
        """Count partitions that are added to a topic."""
        if self._mark and topic.name not in INTERNAL:
            self._partitions[creator_in(topic.id)] += partitions

    def new_topic_id(self) -> bytes:
        """An id for a new topic of the principal."""
        while True:
            topic_id = self._state.new_topic_id()
            if not self._mark:
                return topic_id
            marked = topic_id[:-MARK_BYTES] + self._mark
            if marked not in self._state.image.topics_by_id:
                return marked

    def _check_partitions(self, mark: bytes, owner: str, more: int) -> None:
        present, most = self._partitions[mark], self._bounds.max_partitions
        if most > 0 and present + more > most:
            raise KafkaError(
                error_codes.POLICY_VIOLATION,
                f"{owner} has {present} partitions; with {more} more there would be more than {most} "
                f"({MAX_PARTITIONS}).",
            )
