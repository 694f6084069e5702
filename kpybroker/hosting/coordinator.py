"""The shards of one coordinator on this node, kept in step with the committed metadata.

Not here: what any request means (the machine), how a log is read (:mod:`kpybroker.hosting.loading`).
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from kpybroker.hosting.kind import Kind
from kpybroker.hosting.loading import Loader
from kpybroker.hosting.placement import partition_for
from kpybroker.hosting.shard import Shard
from kpybroker.hosting.tickets import Outlet, Ticket
from kpybroker.io.scheduler import Scheduler, Timer
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.replicas.replicas import Replicas
from kpywire import error_codes


class Coordinator:
    """One machine for each partition of ``kind.topic`` that this node leads, by the partition's number."""

    def __init__(self, kind: Kind, scheduler: Scheduler, replicas: Replicas) -> None:
        self.kind = kind
        self.shards: dict[int, Shard] = {}
        self.partitions = 0
        """Of the topic, here or elsewhere; 0 while there is no topic."""
        self._scheduler = scheduler
        self._replicas = replicas
        self._outlet = Outlet(scheduler)
        self._loader = Loader(scheduler)
        self._timer: Timer | None = None
        self._awake: deque[Shard] = deque()
        """Shards of which a deadline has passed."""
        self._is_waking = False

    def start(self) -> None:
        """Begin to load, and to do what is due from time to time."""
        self._loader.start()
        self._timer = self._scheduler.call_later(self.kind.period_ms(), self._period_is_over)

    def stop(self) -> None:
        """Let go of every shard."""
        if self._timer is not None:
            self._timer.cancel()
        for shard in list(self.shards.values()):
            shard.end(error_codes.COORDINATOR_NOT_AVAILABLE)

    # Following the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change, after the replicas did."""
        topic = image.topics.get(self.kind.topic)
        self.partitions = 0 if topic is None else len(topic.partitions)
        if topic is not None:
            for index in delta.partitions.get(topic.id, ()):
                self._follow(index)
        deleted: dict[str, Sequence[int]] = {each.name: list(each.partitions) for each in delta.deleted_topics.values()}
        if deleted and self.shards:
            event = self.kind.topics_deleted(deleted, self._scheduler.now_ms())
            for shard in self.shards.values():
                shard.tell_soon(event)
            self._scheduler.in_pieces(self._tell_in_pieces())

    def _tell_in_pieces(self) -> Iterator[None]:
        for shard in list(self.shards.values()):
            shard.tell_now()
            yield

    def _follow(self, index: int) -> None:
        """A partition of the topic is new or changed."""
        shard = self.shards.get(index)
        if shard is not None and not shard.leads:
            shard.end()
            shard = None
        held = self._replicas.topics.get(self.kind.topic)
        replica = None if held is None else held.replicas.get(index)
        if shard is not None or replica is None or not replica.is_led_here:
            return
        failed = self._replicas.directory_failed
        shard = Shard(self.kind, replica, self._scheduler, self._outlet, failed, self._ended, self._woke)
        self.shards[index] = shard
        if self._replicas.is_known_empty(replica):
            shard.open()
        else:
            self._loader.load(shard)

    def _ended(self, shard: Shard) -> None:
        index = shard.replica.index
        if self.shards.get(index) is shard:
            del self.shards[index]
            if shard.begins_anew:
                self._follow(index)

    def _woke(self, shard: Shard) -> None:
        """All of them may have much to do at the same time."""
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
        """A shard a turn: together they might be long."""
        self._timer = self._scheduler.call_later(self.kind.period_ms(), self._period_is_over)
        self._tell_next(iter(list(self.shards.values())))

    def _tell_next(self, shards: Iterator[Shard]) -> None:
        for shard in shards:
            if shard.journal.is_open:
                shard.tell(self.kind.periodic(self._scheduler.now_ms()))
                self._scheduler.call_soon(self._tell_next, shards)
                return

    # Inputs

    def submit(
        self,
        key: str,
        event: Callable[[Ticket], Any],
        refuse: Callable[[int], Any],
        *,
        answer: Callable[[Any], Any] | None = None,
        writes: bool = True,
        timeout_ms: int | None = None,
    ) -> Any:
        """Feed an event to the shard that keeps ``key``; the response, or a `Pending` that resolves to it.

        ``event`` makes it of the ticket it is given. The response is what ``answer`` makes of the machine's message,
        or ``refuse`` of an error code: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
        REQUEST_TIMED_OUT after ``timeout_ms``, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
        """
        shard = self.shards.get(partition_for(key, self.partitions)) if self.partitions else None
        if shard is None:
            return refuse(error_codes.NOT_COORDINATOR)
        return self._submit_to(shard, key, event, refuse, answer, writes, timeout_ms)

    def settled(self, key: str) -> Any | None:
        """The machine that keeps ``key``, only to be looked at: if it is here, and nothing it knows can be lost."""
        shard = self.shards.get(partition_for(key, self.partitions)) if self.partitions else None
        if shard is None or not shard.journal.is_open or shard.journal.waiting_gates or not shard.leads:
            return None
        return shard.machine

    def submit_to_all(
        self, event: Callable[[Ticket], Any], refuse: Callable[[int], Any]
    ) -> Generator[None, None, list[Any]]:
        """Ask every shard of this node something about the whole of it, one in a step: responses, or `Pending`s."""
        answers = []
        for shard in list(self.shards.values()):
            answers.append(self._submit_to(shard, None, event, refuse, None, False, None))
            yield
        return answers

    def _submit_to(
        self,
        shard: Shard,
        key: str | None,
        event: Callable[[Ticket], Any],
        refuse: Callable[[int], Any],
        answer: Callable[[Any], Any] | None,
        writes: bool,
        timeout_ms: int | None,
    ) -> Any:
        ticket = Ticket(self._outlet, answer, refuse)
        pending = ticket.pending
        assert pending is not None
        shard.submit(event(ticket), ticket, key, writes=writes, timeout_ms=timeout_ms)
        return pending.response if pending.resolved else pending
