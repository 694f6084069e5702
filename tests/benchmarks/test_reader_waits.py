"""The figures of a reader, of what its client printed and of librdkafka's log."""

import pytest

from benchmarks.clients.observed_consume import FETCHER
from benchmarks.reader_waits import QUEUED_RATE, RATE, figures, show

LINE = (
    "%7|{at}|RECV|rdkafka#consumer-1| [thrd:h:1/1]: "
    "h:1/1: Received {api}Response (v16, {size} bytes, CorrId 3, rtt {rtt}ms)\n"
)
PAIRS = ((1.0, 2.0, 4.0), (2.0, 2.0, 2.0))


def test_the_time_of_a_thread_is_shared_out_among_running_readiness_and_waiting() -> None:
    log = "".join(
        LINE.format(at=at, api=api, size=size, rtt=rtt)
        for at, api, size, rtt in (
            ("100.1", "Metadata", 5000, "70.00"),
            ("100.2", "Fetch", 2_000_000, "50.00"),
            ("100.5", "Fetch", 1_000_000, "30.00"),
            ("101.2", "Fetch", 253, "500.00"),
        )
    )
    threads = {"loop": [0.8, 0.1, 40], FETCHER: [0.4, 0.1, 3]}
    seen = {"seconds": 1.0, "began_at_s": 100.0, "threads": threads, "peak_mb": 7.0}
    found = figures(seen, log, 500_000)
    assert found[RATE] == 0.5
    assert found["loop: CPU, s for 1 M records"] == 1.6
    assert [round(found[f"loop: {part}, %"]) for part in ("ran", "had no core", "waited")] == [80, 10, 10]
    assert found["loop: waits, for 1 M records"] == 80
    assert round(found["librdkafka's thread: waited, %"]) == 50
    assert (found["answers with records"], found["MB received"]) == (2, 3.0)
    assert round(found["an answer was under way, %"]) == 8
    assert round(found["the last answer had come after, %"]) == 50


def test_medians_and_the_ratio_of_each_pair_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = [[{RATE: value, QUEUED_RATE: 1.0} for value in values] for values in PAIRS]
    show(rounds)
    printed = capsys.readouterr().out
    assert "medians of 3 rounds" in printed
    assert f"ratio of {RATE}: 1.00 (0.50-2.00)" in printed
