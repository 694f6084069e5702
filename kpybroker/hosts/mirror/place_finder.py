"""The broker that finds the places of one mirror, from its leaders' reports and the transactions of its source."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.client.client import Spot
from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.mirror.source_transactions import AFTER_ERROR_MS, LATER_MS, SOON_MS, StateChange, TransactionsLook
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.mirror_configs import MIRRORING, SOURCE, STATE, STOPPING
from kpybroker.machines.mirror import progress
from kpybroker.machines.mirror.cuts import LeaderReport, Place, SettledCut
from kpybroker.machines.mirror.decisions import SourceDecisions
from kpybroker.machines.mirror.progress import Finder, MirrorWords, PartReport, Progress
from kpybroker.machines.mirror.wholeness import Wholeness
from kpywire import error_codes

log = logging.getLogger("kpybroker.mirror")

SETTLE_MS: Final = 500.0
"""The time between the end of the feed and the cut, in which the last reports arrive."""
WORDS_MS: Final = 1_000.0
AGAIN_MS: Final = 5_000.0


class MirrorTopics(NamedTuple):
    """The topics of one mirror by their states, with their ids."""

    mirroring: dict[str, bytes]
    stopping: dict[str, bytes]

    @property
    def ids(self) -> set[bytes]:
        """The ids of all."""
        return {*self.mirroring.values(), *self.stopping.values()}


class PlaceFinder:
    """The search for the places of one mirror, as long as this broker does it."""

    def __init__(self, parts: MirrorParts, mirror: str, known: Progress, has_news: Callable[[], object]) -> None:
        """``has_news`` is called when there may be `records`."""
        self._parts = parts
        self._notify = has_news
        self._mirror = mirror
        self._known = known
        self._decisions: SourceDecisions | None = None
        self._number: int | None = None
        """The number of the cut that is under way."""
        self._has_news = False
        self._wants = False
        self._pause_ms = SOON_MS
        """The next pause between two looks. It grows while places do not."""
        self._stopping_since_ms = -1.0
        self._words: MirrorWords | None = None
        self._spoke_ms = -WORDS_MS
        self._due: list[bytes] = []
        self._arrived: deque[PartReport | SettledCut] = deque()
        """Reports and cuts that are not taken over yet."""
        self._wholeness = Wholeness({})
        self.hurry: Callable[[], object] = bool
        """Called when a marker is held back, so that a look at the source is of use."""
        self._begin(holds=True, problem="")

    def topics(self) -> MirrorTopics:
        """The topics of the mirror here, with their ids."""
        found, image = MirrorTopics({}, {}), self._parts.image
        for name, topic in image.topics.items():
            configs = image.configs_of(TOPIC_RESOURCE, name)
            if configs.get(SOURCE) == self._mirror:
                state = configs.get(STATE, MIRRORING)
                if state in (MIRRORING, STOPPING):
                    (found.mirroring if state == MIRRORING else found.stopping)[name] = topic.id
        return found

    # What is reported

    def report(self, token: str, parts: Iterable[PartReport]) -> None:
        """Take over what a leader reports."""
        if token == self._finder.token:
            self._has_news = True
            self._arrived += parts

    def _is_current(self, place: Place, report: LeaderReport) -> bool:
        """Whether no later leader is known, which may have shown more."""
        topic = self._parts.image.topics_by_id.get(place[0])
        partition = None if topic is None else topic.partitions.get(place[1])
        return partition is not None and report.leader_epoch >= partition.leader_epoch

    def wanted(self) -> Mapping[Spot, Place]:
        """The partitions whose ends at the source are of use now; a cut begins."""
        self._number = self._wholeness.begin_cut()
        if not self._wholeness.is_waiting:
            return {}
        image = self._parts.image
        return {
            Spot(name, index): (topic_id, index)
            for name, topic_id in self.topics().mirroring.items()
            for index in image.topics[name].partitions
        }

    def looked(self, look: TransactionsLook | KafkaError | None) -> int:
        """Take over a look at the source. Return the pause before the next one."""
        number, self._number = self._number, None
        if isinstance(look, KafkaError):
            self._forbidden(look)
            return AFTER_ERROR_MS
        if look is None:
            self._decisions = None
            return AFTER_ERROR_MS
        if not self._finder.holds:
            self._begin(holds=True, problem="")
        if look.pending is not None:
            self._decisions = SourceDecisions(look.pending)
        if self._decisions is None:
            return SOON_MS
        if look.before:
            self._apply(self._decisions, look.before)
            self._decisions.take_unsettled()
        self._apply(self._decisions, look.after)
        unsettled = self._decisions.take_unsettled()
        if look.is_gapless and look.ends and number is not None:
            ends = look.ends | {place: self._wholeness.end_of(place) for place in look.gone}
            self._arrived.append(SettledCut(number, ends, unsettled))
            self._has_news = True
            self._notify()
        if not self._wholeness.is_waiting:
            return LATER_MS
        pause_ms = self._pause_ms
        self._pause_ms = min(pause_ms * 2, LATER_MS)
        return pause_ms

    def _apply(self, decisions: SourceDecisions, changes: Iterable[StateChange]) -> None:
        ids = self.topics().mirroring
        for name, decision in changes:
            decisions.apply(name, decision)
            if decision is not None:
                places = frozenset((ids[topic], index) for topic, index in decision.partitions if topic in ids)
                self._wholeness.decided(decision, places)

    def _forbidden(self, error: KafkaError) -> None:
        """Go on without the source's transactions, as long as it does not show them."""
        self._decisions = None
        if self._finder.holds:
            problem = f"a failover may tear transactions, since the source {_hides_transactions(error.code)}"
            log.warning("Mirror %s: %s", self._mirror, problem)
            self._begin(holds=False, problem=problem)
            self._due += map(progress.forget, sorted({place[0] for place in self._wholeness.places}))
            self._wholeness = Wholeness({})  # as if nothing had been consistent yet

    def _begin(self, *, holds: bool, problem: str) -> None:
        self._finder = Finder(f"{self._parts.node_id}-{self._parts.scheduler.now_ms()}", holds)
        self._problem, self._wants, self._begun_ms = problem, False, self._parts.scheduler.monotonic_ms()
        self._arrived.clear()
        self._number = None
        ids = self.topics().ids
        self._wholeness = Wholeness({place: at for place, at in self._known.places.items() if place[0] in ids})
        self._due.append(progress.begin(self._mirror, self._finder))

    # What is written

    def find(self, write: Callable[[list[bytes]], object]) -> Iterator[None]:
        """Find the places again, some work at a time. ``write`` gets the records to write."""
        topics, now_ms = self.topics(), self._parts.scheduler.monotonic_ms()
        known = self._known.finders.get(self._mirror)
        if known != self._finder and now_ms > self._begun_ms + AGAIN_MS:  # another broker did so at the same time
            self._begin(holds=self._finder.holds, problem=self._problem)
        due, self._due = self._due, []
        is_stopping = self._is_due(topics, now_ms)
        if self._has_news:
            self._has_news = False
            wholeness, ids = self._wholeness, topics.ids
            wholeness.forget([place for place in wholeness.places if place[0] not in ids])
            yield from self._take(wholeness, ids)
            grown = yield from wholeness.advancing()
            if wholeness is not self._wholeness:
                write(due)
                return
            if grown:
                self._pause_ms = SOON_MS
                due.append(progress.places(grown))
            wants = wholeness.is_waiting
            if wants != self._wants:
                self._wants = wants
                due.append(progress.want(self._mirror, wants))
                if wants:
                    self._pause_ms = SOON_MS
                    self.hurry()
        if is_stopping:
            due += self._cut(topics)
        due += self._speak(topics, now_ms)
        write(due)

    def _take(self, wholeness: Wholeness, ids: set[bytes]) -> Iterator[None]:
        while self._arrived and wholeness is self._wholeness:
            each = self._arrived.popleft()
            if isinstance(each, SettledCut):
                wholeness.cut(each)
            elif each.place[0] in ids and self._is_current(*each) and not wholeness.report(*each):
                log.debug("A report of %s does not continue the one before", each.place)
            yield

    def _is_due(self, topics: MirrorTopics, now_ms: float) -> bool:
        """Whether a cut is due: the feed ended a while ago."""
        if not set(topics.stopping.values()) - self._known.cut:
            self._stopping_since_ms = -1.0
            return False
        if self._stopping_since_ms < 0:
            self._stopping_since_ms = now_ms
        if now_ms < self._stopping_since_ms + SETTLE_MS:
            return False
        self._stopping_since_ms = now_ms  # once again, should it not be known by then
        return True

    def _cut(self, topics: MirrorTopics) -> list[bytes]:
        return [progress.cut(sorted(set(topics.stopping.values()) - self._known.cut))]

    def _speak(self, topics: MirrorTopics, now_ms: float) -> list[bytes]:
        if now_ms < self._spoke_ms + WORDS_MS:
            return []
        self._spoke_ms = now_ms
        names = {topic_id: name for name, topic_id in topics.mirroring.items()}
        waits = {}
        for place, (marker, lacking) in self._wholeness.waits().items():
            if place[0] in names:
                fellow = f" in {names[lacking[0]]}-{lacking[1]}" if lacking is not None and lacking[0] in names else ""
                waits[place] = f"it waits for the marker of producer {marker.producer_id}{fellow}"
        words = MirrorWords(self._problem, waits)
        if words == self._words:
            return []
        self._words = words
        return [progress.state(self._mirror, words)]


def _hides_transactions(code: int) -> str:
    """The reason for which a source does not show its transactions."""
    if code == error_codes.UNSUPPORTED_VERSION:
        return "is older than Kafka 3.0 and does not list those that are ending"
    return f"does not let its user read __transaction_state: {error_codes.name(code)}"
