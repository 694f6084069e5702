"""The shards of one coordinator on this node, kept in step with the committed metadata.

Not here: the meaning of requests (the machine), reading a log (:mod:`kpybroker.hosts.coordinators.loading`).
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from kpybroker.hosts.coordinators.hosted_shard import Callbacks, HostedShard
from kpybroker.hosts.coordinators.kind import CoordinatorKind
from kpybroker.hosts.coordinators.loading import ShardLoader
from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.hosts.coordinators.tickets import AnswerQueue, CoordinatorTicket
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Topic
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import error_codes


class Shards:
    """One machine for each partition of ``topic`` that this node leads, by the partition's number."""

    def __init__(
        self,
        topic: str,
        period_ms: Callable[[], int],
        load_kind: Callable[[], CoordinatorKind],
        scheduler: Scheduler,
        replicas: Replicas,
        follow: Callable[[MetadataImage, MetadataDelta], None] = lambda _image, _delta: None,
    ) -> None:
        """Periodic work is due every ``period_ms``. ``load_kind`` is called for the first shard, since most nodes start
        without one, and the machine with its messages is expensive to import. ``follow`` gets every committed change
        before the machines do."""
        self.topic = topic
        self._period_ms = period_ms
        self._follow_metadata = follow
        self._load_kind = load_kind
        self._kind: CoordinatorKind | None = None
        self.shards: dict[int, HostedShard] = {}
        self.partitions = 0
        """How many partitions the topic has, here or elsewhere; 0 while there is no topic."""
        self._topics: Mapping[str, Topic] = {}
        """All topics of the image."""
        self._scheduler = scheduler
        self._replicas = replicas
        self._answers = AnswerQueue(scheduler)
        self._loader = ShardLoader(scheduler)
        self._timer: Timer | None = None
        self._awake: deque[HostedShard] = deque()
        """Shards with a deadline that has passed."""
        self._is_waking = False

    @property
    def kind(self) -> CoordinatorKind:
        """The properties of its machines."""
        if self._kind is None:
            self._kind = self._load_kind()
        return self._kind

    def start(self) -> None:
        """Begin to load, and to do the periodic work."""
        self._loader.start()
        self._timer = self._scheduler.call_later(self._period_ms(), self._period_is_over)

    def stop(self) -> None:
        """End every shard."""
        if self._timer is not None:
            self._timer.cancel()
        for shard in list(self.shards.values()):
            shard.end(error_codes.COORDINATOR_NOT_AVAILABLE)

    # Following the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change, after the replicas did."""
        self._follow_metadata(image, delta)
        self._topics = image.topics
        topic = image.topics.get(self.topic)
        self.partitions = 0 if topic is None else len(topic.partitions)
        if topic is not None:
            for index in delta.partitions.get(topic.id, ()):
                self._follow(index)
        changed = self._changed(image, delta) if self.shards else None
        if changed is not None:
            for shard in self.shards.values():
                shard.tell_soon(changed)
            self._scheduler.in_pieces(self._tell_in_pieces())

    def _changed(self, image: MetadataImage, delta: MetadataDelta) -> MetadataChanged | None:
        """The event of a change; None if nothing changed that the machines look at."""
        deleted = {each.name: list(each.partitions) for each in delta.deleted_topics.values()}
        grown = _grown(image, delta) if self.kind.follows_new_topics else []
        if not deleted and not grown:
            return None
        return MetadataChanged(image.topics, grown, deleted, self._scheduler.now_ms(), list(delta.deleted_topics))

    def _first_events(self) -> list[Any]:
        """The inputs of a shard that was just loaded."""
        now_ms = self._scheduler.now_ms()
        if not self.kind.follows_new_topics:
            return [Loaded(now_ms)]
        return [MetadataChanged(self._topics, self._topics.keys(), {}, now_ms), Loaded(now_ms)]

    def _tell_in_pieces(self) -> Iterator[None]:
        for shard in list(self.shards.values()):
            shard.tell_now()
            yield

    def _follow(self, index: int) -> None:
        """Handle a new or changed partition of the topic."""
        shard = self.shards.get(index)
        if shard is not None and not shard.leads:
            shard.end()
            shard = None
        held = self._replicas.topics.get(self.topic)
        replica = None if held is None else held.replicas.get(index)
        if shard is not None or replica is None or not replica.is_led_here:
            return
        failed = self._replicas.directory_failed
        callbacks = Callbacks(failed, self._ended, self._woke, self._first_events)
        shard = HostedShard(self.kind, replica, self._scheduler, self._answers, callbacks)
        self.shards[index] = shard
        if self._replicas.is_known_empty(replica):
            shard.open()
        else:
            self._loader.load(shard)

    def _ended(self, shard: HostedShard) -> None:
        index = shard.replica.index
        if self.shards.get(index) is shard:
            del self.shards[index]
            if shard.begins_anew:
                self._follow(index)

    def _woke(self, shard: HostedShard) -> None:
        """Run the timers of a shard, one shard in a turn, since all of them may have much to do at the same time."""
        self._awake.append(shard)
        if not self._is_waking:
            self._is_waking = True
            self._scheduler.in_pieces(self._run_timers())

    def _run_timers(self) -> Iterator[None]:
        try:
            while self._awake:
                self._awake.popleft().run_timers()
                yield
        finally:
            self._is_waking = False

    def _period_is_over(self) -> None:
        """Feed the periodic event to one shard in a turn: all of them together could take long."""
        self._timer = self._scheduler.call_later(self._period_ms(), self._period_is_over)
        self._tell_next(iter(list(self.shards.values())))

    def _tell_next(self, shards: Iterator[HostedShard]) -> None:
        for shard in shards:
            if shard.journal.is_open:
                shard.tell(self.kind.periodic(self._scheduler.now_ms()))
                self._scheduler.call_soon(self._tell_next, shards)
                return

    # Inputs

    def submit(
        self,
        key: str,
        event: Callable[[CoordinatorTicket], Any],
        refuse: Callable[[int], Any],
        *,
        answer: Callable[[Any], Any] | None = None,
        writes: bool = True,
        timeout_ms: int | None = None,
    ) -> Any:
        """Feed an event to the shard that keeps ``key``; the response, or a `Pending` that resolves to it.

        ``event`` makes the event from its ticket. ``answer`` makes the response from the machine's message, ``refuse``
        from an error code: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT
        after ``timeout_ms``, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
        """
        shard = self.shards.get(partition_for(key, self.partitions)) if self.partitions else None
        if shard is None:
            return refuse(error_codes.NOT_COORDINATOR)
        return self._submit_to(shard, key, event, refuse, answer, timeout_ms, writes=writes)

    def answer_again(self, key: str, message: Any) -> Any | None:
        """The response to a message that would be decided as it was the last time, if the machine that keeps ``key``
        knows it; None if the message is to be submitted. Only for machines with a method of this name."""
        shard = self.shards.get(partition_for(key, self.partitions)) if self.partitions else None
        return None if shard is None else shard.answer_again(message)

    def settled(self, key: str) -> Any | None:
        """The machine that keeps ``key``, for reading only. None if it is not here, or if some of its state is not
        committed."""
        shard = self.shards.get(partition_for(key, self.partitions)) if self.partitions else None
        if shard is None or not shard.journal.is_open or shard.journal.waiting_gates or not shard.leads:
            return None
        return shard.machine

    def submit_to_all(
        self, event: Callable[[CoordinatorTicket], Any], refuse: Callable[[int], Any]
    ) -> Generator[None, None, list[Any]]:
        """Feed an event about the whole shard to every shard of this node, one in a step; responses, or `Pending`s."""
        answers = []
        for shard in list(self.shards.values()):
            answers.append(self._submit_to(shard, None, event, refuse, None, None, writes=False))
            yield
        return answers

    def _submit_to(
        self,
        shard: HostedShard,
        key: str | None,
        event: Callable[[CoordinatorTicket], Any],
        refuse: Callable[[int], Any],
        answer: Callable[[Any], Any] | None,
        timeout_ms: int | None,
        *,
        writes: bool,
    ) -> Any:
        ticket = CoordinatorTicket(self._answers, answer, refuse)
        shard.submit(event(ticket), ticket, key, writes=writes, timeout_ms=timeout_ms)
        return ticket.response()


def _grown(image: MetadataImage, delta: MetadataDelta) -> list[str]:
    """The names of topics that are new or have new partitions."""
    return [
        image.topics_by_id[topic_id].name for topic_id, before in delta.partitions.items() if None in before.values()
    ]
