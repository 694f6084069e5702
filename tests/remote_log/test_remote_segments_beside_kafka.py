"""The same records to our cache and to Kafka's ``RemoteLogMetadataCache``: what is refused, found and listed."""

from collections.abc import Iterator
from random import Random

import pytest
from remote_log_histories import ask_all, cut, random_epochs, segment, to_words, update

from kpybroker.machines.remote_log.cache import RecordVerdict, RemoteSegments
from kpybroker.machines.remote_log.segments import RemoteLogSegment, RemoteLogSegmentState, RemoteLogSegmentUpdate
from kpywire.uuid import to_string
from oracle.asked import AskedOracle

pytestmark = [pytest.mark.java, pytest.mark.slow]

HISTORIES = 2_000
STEPS = 25
EPOCHS = 16
ERRORS = {RecordVerdict.UNKNOWN_SEGMENT: "error RemoteResourceNotFoundException"} | dict.fromkeys(
    (RecordVerdict.NOT_A_BEGINNING, RecordVerdict.NOT_AN_UPDATE), "error IllegalArgumentException"
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = AskedOracle("RemoteLogOracle.java", "RemoteLogOracle", "KafkaLog.java")
    yield oracle
    oracle.close()


class Twins:
    """Our cache and Kafka's."""

    def __init__(self, kafka: AskedOracle, rng: Random) -> None:
        self.kafka, self.rng = kafka, rng
        self.ours = RemoteSegments(segment(0, 0, 0, ()).id.topic_id, "t", 0)
        self.begun: list[RemoteLogSegment] = []
        self.lineages = [random_epochs(rng) for _ in range(rng.randint(1, 3))]
        self.replaced: set[str] = set()
        self.within = 0
        self.end = 0
        self.one_leader = rng.random() < 0.5
        """Whether no copies overlap: then nothing differs from Kafka."""
        self.questions: list[tuple[object, ...]] = [("new",)]
        self.answers = ["ok"]

    def begins(self) -> None:
        rng = self.rng
        epochs, start = rng.choice(self.lineages), rng.randint(0, 60)
        if self.one_leader:
            epochs, start = self.lineages[0], self.end
        end = start + rng.randint(0, 9 if self.one_leader else 30)
        self.end = end + 1
        number = rng.choice((len(self.begun) + 1,) * 9 + (rng.randint(1, len(self.begun) + 1),))
        made = segment(
            number,
            start,
            end,
            cut(epochs, start, end) or ((epochs[0][0], start),),
            size_bytes=rng.randint(0, 1000),
            event_timestamp_ms=rng.randint(0, 99),
            is_transaction_index_empty=rng.random() < 0.5,
            state=rng.choice((RemoteLogSegmentState(0),) * 30 + tuple(RemoteLogSegmentState)),
        )
        before = self.ours.get(made.id.segment_id)
        if before is not None:  # Kafka leaves it in the epochs that it had, where it cannot be read any more
            made = before._replace(state=made.state, size_bytes=made.size_bytes)
        self.begun.append(made)
        self.compare(made, "add", *to_words(made))

    def changes(self) -> None:
        if not self.begun:
            return
        rng = self.rng
        before = rng.choice(self.begun)
        state = rng.choice((1, 1, 1, 2, 2, 3, 0))
        changed = update(before, RemoteLogSegmentState(state), rng.choice((None, b"", b"x", b"custom")))
        custom = "-" if changed.custom_metadata is None else changed.custom_metadata.decode()
        name = to_string(before.id.segment_id)
        self.compare(changed, "update", name, changed.event_timestamp_ms, custom, state, changed.broker_id)

    def compare(self, record: RemoteLogSegment | RemoteLogSegmentUpdate, *words: object) -> None:
        self.questions.append(words)
        self.answers.append(ERRORS.get(self.ours.apply(record), "ok"))

    def are_equal(self) -> None:
        ours = self.ours
        offsets = self.rng.sample(range(100), 4)
        of_epochs = [[("epoch", epoch), ("highest", epoch)] for epoch in range(EPOCHS)]
        finds = [(word, epoch, each) for word in ("find", "next") for epoch in range(EPOCHS) for each in offsets]
        questions = [*self.questions, ("all",), *(each for both in of_epochs for each in both), *finds]
        theirs = iter(ask_all(self.kafka, questions))
        assert [next(theirs) for _ in self.questions] == self.answers
        assert sorted(next(theirs).split()) == sorted(map(printed, ours.all()))
        for epoch in range(EPOCHS):
            there = {each.split(";")[0]: each for each in next(theirs).split()}
            here = {to_string(each.id.segment_id): printed(each) for each in ours.of_epoch(epoch)}
            # A longer copy with the same start as a shorter, newer one: Kafka does not list it any more.
            self.replaced |= here.keys() - there.keys()
            assert there == here if self.one_leader else there.items() <= here.items()
            starts = [each.start_offset for each in ours.of_epoch(epoch)]
            assert starts == sorted(starts)
            highest = next(theirs)
            assert ours.highest_offset(epoch) == (-1 if highest == "-" else int(highest))
        for word, epoch, offset in finds:
            answer, found = next(theirs), ours.find(epoch, offset)
            if word == "next":
                assert not self.one_leader or answer == printed(ours.next_with_transaction_index(epoch, offset))
            elif answer != printed(found):
                # A copy within another one takes no place here.
                assert not self.one_leader
                assert found is not None
                assert found.epoch_start(epoch) <= offset < found.epoch_end(epoch)
                self.within += 1


def printed(of: RemoteLogSegment | None) -> str:
    """The segment as the oracle prints it."""
    if of is None:
        return "-"
    return ";".join(map(str, to_words(of)))


def test_random_histories_leave_the_same_segments_as_in_kafka(kafka: AskedOracle) -> None:
    unlisted = within = 0
    for seed in range(HISTORIES):
        twins = Twins(kafka, Random(seed))
        for _ in range(STEPS):
            twins.rng.choice((twins.begins, twins.changes, twins.changes))()
        twins.are_equal()
        unlisted += len(twins.replaced)
        within += twins.within
    assert unlisted
    assert within, "no copy lay within another one: the deviation is not needed"
