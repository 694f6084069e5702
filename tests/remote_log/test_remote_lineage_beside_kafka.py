"""The segments that count, on random epoch histories: ours beside Kafka's ``RemoteLogManager``."""

from collections.abc import Iterator
from random import Random

import pytest
from remote_log_histories import ask_all, cut, in_words, random_epochs, segment, to_words

from kpybroker.machines.remote_log.lineage import counts, with_records
from oracle.asked import AskedOracle

pytestmark = [pytest.mark.java, pytest.mark.slow]

HISTORIES = 3_000
AT_ONCE = 100


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = AskedOracle("RemoteLogOracle.java", "RemoteLogOracle", "KafkaLog.java")
    yield oracle
    oracle.close()


def test_epochs_without_records_are_the_same(kafka: AskedOracle) -> None:
    rng = Random(1)
    histories = [random_epochs(rng) for _ in range(HISTORIES)]
    theirs = ask_all(kafka, [("filtered", in_words(epochs)) for epochs in histories])
    assert [in_words(with_records(epochs)) for epochs in histories] == theirs


def test_the_same_segments_count_for_a_leader(kafka: AskedOracle) -> None:
    rng = Random(2)
    seen = {True: 0, False: 0}
    for _ in range(HISTORIES * 5 // AT_ONCE):
        questions, ours = [], []
        for _ in range(AT_ONCE):
            epochs = random_epochs(rng, rng.choice((0, 0, 7)))
            of = rng.choice((epochs, epochs, random_epochs(rng)))
            start = rng.randint(0, 60)
            end = start + rng.randint(0, 40)
            own = cut(of, start, end) or ((of[0][0], start),)
            if rng.random() < 0.2:  # as a leader wrote it that had an epoch without records
                own = tuple(sorted({*own, (own[-1][0] + 1, own[-1][1])}))
            made = segment(1, start, end, own)
            log_end = end + rng.randint(-3, 20)
            leader = with_records(epochs)
            questions.append(("within", *to_words(made), log_end, in_words(leader)))
            ours.append(counts(made, log_end, leader))
            seen[ours[-1]] += 1
        theirs = ask_all(kafka, questions)
        assert theirs == [str(each).lower() for each in ours]
    assert min(seen.values()) > HISTORIES
