"""A reader of a tiered partition: by Fetch, of all records or of committed transactions, and by time.

It compares what it gets with what was committed (`tier_rules`), batch by batch, and the transactions that it leaves out
with those that were aborted.
"""

from random import Random
from typing import Any, Final

from tier_nodes import TierNode, TierNodes
from tier_rules import TierRules, batches_in, is_control

from kpybroker.machines.errors import KafkaError
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpywire import api, error_codes
from kpywire.batch import batch_headers
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.replication.replica_world import LISTENER, TOPIC, VERSIONS, AtOnce

VERSION: Final = 12
READ_COMMITTED: Final = 1
LAST_TRIES: Final = 4_000
RETRY_MS: Final = 100


class TierReader:
    """One reader, which begins again now and then."""

    def __init__(self, world: TierNodes, rules: TierRules, rng: Random) -> None:
        self._world, self._rules, self._rng = world, rules, rng
        self._client = ConnectedClient("reader", 0, LISTENER)
        self._asked: tuple[TierNode, int, int] | None = None
        """The node that was asked, its life, and how often records were lost before."""
        self._searched: tuple[Pending, int, int, int] | None = None
        self.position = 0
        self.answered = 0
        self._is_last = False
        """Whether all is read for the last time."""
        self._begin()

    def _begin(self) -> None:
        """Begin again at the log start."""
        found = self._rules.leader()
        self.position = 0 if found is None else found[1].log.log_start_offset
        self._level = READ_COMMITTED if self._is_last else self._rng.choice((0, READ_COMMITTED))
        self._gone: set[int] = set()
        """The producers whose transactions are left out at present."""
        self._aborted: set[tuple[int, int]] = set()
        self._begun = self.position

    def go_on(self) -> None:
        """Ask the leader for what comes next, unless it is asked."""
        if self._asked is not None:
            node, life, _ = self._asked
            if node.life == life and self._rng.random() < 0.95:
                return
            self._asked = None
        if self._rng.random() < 0.05 and not self._is_last:
            self._begin()
        found = self._rules.leader()
        if found is None:
            return
        if self._rng.random() < 0.1:
            self._search(*found)
        node = found[0]
        self._asked = asked = node, node.life, self._rules.losses
        wanted = FetchPartition(
            partition=0, fetch_offset=self.position, partition_max_bytes=self._rng.choice((1, 300, 2_000))
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self._level,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        call = Call(api.FETCH, VERSION, "reader", self._client, AtOnce(), VERSIONS)
        answer = node.handle(request, call)
        if isinstance(answer, Pending):
            answer.when_resolved(lambda response: self._got(asked, response))
        else:
            self._got(asked, answer)

    def _got(self, asked: tuple[TierNode, int, int], response: Any) -> None:
        if self._asked is not asked:
            return
        self._asked = None
        node, life, losses = asked
        if node.life != life or losses != self._rules.losses:
            self._begin()
            return
        (data,) = response.responses[0].partitions
        if data.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            start = max(node.log().log_start_offset, self._rules.start)
            if self._rules.deletes_uncopied:
                start = max(start, node.log().local_log_start_offset)
            self._rules.must(
                self.position < start or self._is_behind(node),
                f"a reader at {self.position} is out of range, and the log begins at {start}",
            )
            self._begin()
        elif data.error_code == error_codes.NONE:
            self._take(data)

    def _is_behind(self, node: TierNode) -> bool:
        """Whether a node leads no more, or its log ends before the reader."""
        found = self._rules.leader()
        return found is None or found[0] is not node or self.position > node.high_watermark()

    def _take(self, data: Any) -> None:
        """Compare records with what was committed."""
        self._rules.note_committed()
        records = data.records.read() if hasattr(data.records, "read") else bytes(data.records or b"")
        starts = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        for batch in batches_in(records):
            self._rules.must(
                batch.base_offset <= self.position < batch.next_offset,
                f"a reader at {self.position} gets {batch.base_offset} to {batch.next_offset}",
            )
            is_right = all(each == batch for each in self._rules.committed_in(batch))
            self._rules.must(is_right, f"a reader gets another batch at {batch.base_offset}")
            ((_, header),) = batch_headers(batch.data)
            while starts and starts[0][0] < batch.next_offset:
                self._gone.add(starts.pop(0)[1])
            if self._level == READ_COMMITTED:
                self._compare_aborted(header)
            if header.is_control:
                self._gone.discard(header.producer_id)
            self.position = batch.next_offset
            self.answered += 1

    def _compare_aborted(self, header: Any) -> None:
        """A batch is left out if its transaction was aborted, and only then."""
        if header.is_control or not header.is_transactional or self._rules.losses:
            return
        if header.base_offset < self._rules.start:  # deleted, but the leader has not heard of it
            return
        of_batch = [
            each
            for each in self._rules.aborted()
            if each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset
        ]
        is_out = header.producer_id in self._gone
        self._rules.must(
            bool(of_batch) == is_out,
            f"a reader {'leaves out' if is_out else 'takes'} the batch at {header.base_offset}",
        )

    def _search(self, node: TierNode, leader: Any) -> None:
        """Search by time in the store, and compare."""
        log = leader.log
        known = [each for _, each in sorted(self._rules.committed.items()) if each.next_offset > log.log_start_offset]
        if not known or self._rules.deletes_uncopied:
            return
        wanted = self._rng.choice(known).max_timestamp - self._rng.randint(0, 1)
        expected = next(each for each in known if each.max_timestamp >= wanted)
        later = [each for each in known if each.max_timestamp >= wanted and not is_control(each)]
        life, start = node.life, log.log_start_offset
        try:
            pending = node.remote_log.find_timestamp(node.replica(), leader, wanted)
        except KafkaError:
            return
        if pending is None:
            is_right = expected.next_offset > log.local_log_start_offset
            self._rules.must(is_right, f"nothing at {wanted} is in the store, and {expected.base_offset} is")
            return

        local_start = log.local_log_start_offset

        def found(answer: Any) -> None:
            is_same = node.life == life and not self._rules.losses and log.log_start_offset == start
            if answer is None and is_same:
                is_right = expected.next_offset > local_start
                self._rules.must(is_right, f"nothing is found at {wanted}, and {expected.base_offset} is in the store")
            elif not isinstance(answer, KafkaError) and is_same:
                offset = answer.offset
                rights = [expected, *later[:1]]
                is_right = any(max(each.base_offset, start) <= offset < each.next_offset for each in rights)
                self._rules.must(is_right, f"{offset} is found at {wanted}, and not {expected.base_offset}")

        pending.when_resolved(found)

    def read_everything(self) -> None:
        """Read from the log start to the end. AssertionError if that does not come about."""
        self._asked = None
        self._is_last = True
        self._begin()
        for _ in range(LAST_TRIES):
            found = self._rules.leader()
            if found is not None and self.position >= found[1].last_stable_offset().offset:
                return
            self.go_on()
            self._world.pass_time(RETRY_MS)
        raise AssertionError(f"a reader stays at {self.position}")
