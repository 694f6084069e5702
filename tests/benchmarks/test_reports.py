"""The output of a run: the table, the page, the kept rows; and the input from tools and ``/proc``."""

import json
import os
from pathlib import Path

import pytest

from benchmarks import kept, processes, report
from benchmarks.clients.running import ClientError, fetch_rate, mean_latency_ms, steady_rate
from benchmarks.figures import Figure
from benchmarks.kept import Circumstances, Kept
from benchmarks.match import Result
from benchmarks.page import page
from benchmarks.plots import svg
from benchmarks.plots.curves import curves
from benchmarks.plots.latency import quantile_points
from benchmarks.rows.row import BY_SIZE, Point

NAMES = ("apache-kafka", "kpybroker")
AROUND = Circumstances(
    NAMES, ("Apache Kafka 4.3.1", "kpybroker, version 0.1.0, compiled"), 1, "2 cores.", "2026-11-20 12:00+00:00"
)
RATE = Figure("throughput", "records/s", True)
CPU = Figure("broker CPU", "s/GB", False)
HISTOGRAM = [[100.0, 900.0], [200.0, 90.0], [5000.0, 10.0]]


def result(b_rate: float = 130.0, record_bytes: int = 100) -> Result:
    return Result(
        f"produce-{record_bytes}",
        f"produce <{record_bytes} B>",
        (RATE, CPU),
        (Point(BY_SIZE, "produce", record_bytes, "throughput"),),
        a=[{"throughput": 100.0, "broker CPU": 2.0}],
        b=[{"throughput": b_rate, "broker CPU": 1.0}],
        histogram_a=HISTOGRAM,
        histogram_b=HISTOGRAM,
    )


def row(b_rate: float = 130.0, record_bytes: int = 100) -> Kept:
    return Kept(result(b_rate, record_bytes), AROUND)


def failed() -> Kept:
    failure_text = Result(
        "drain", "drain", (RATE,), a=[{"throughput": 1.0}], failure="the broker closed the connection"
    )
    return Kept(failure_text, AROUND)


def test_the_table_holds_both_sides_and_the_ratio_of_each_figure() -> None:
    table = report.markdown([row()])
    assert "| produce <100 B> | throughput, records/s | 100.0 ±0 % | 130.0 ±0 % | **1.30** | 1.30-1.30 | aim |" in table
    assert "| broker CPU, s/GB | 2.000 ±0 % | 1.000 ±0 % | **2.00** |" in table
    assert "Every row reaches the required ratio." in table
    assert "A is Apache Kafka 4.3.1; B is kpybroker, version 0.1.0, compiled." in table


def test_the_table_says_how_many_rounds_met_a_slow_machine() -> None:
    assert "slow" not in report.markdown([row()])
    uneasy = result()
    uneasy.slowness, uneasy.left_out = [1.0, 1.4], 3
    reported = "3 pairs of rounds do not count, since the machine was slow around them; 1 count although it was."
    assert reported in report.markdown([Kept(uneasy, AROUND)])


def test_a_row_below_the_required_ratio_is_named() -> None:
    assert report.missed([result(b_rate=80.0)])
    assert "- MISS 0.80: produce <100 B>, throughput" in report.markdown([row(b_rate=80.0)])


def test_a_row_that_failed_is_named_with_its_reason_and_counts_as_missed() -> None:
    assert report.missed([failed().result])
    assert "- FAILED: drain: the broker closed the connection" in report.markdown([failed()])


def test_rows_of_several_runs_stand_in_one_table_that_tells_them_apart() -> None:
    later = AROUND._replace(rounds=5, at="2026-11-21 09:00+00:00", versions=("Apache Kafka 4.3.1", "kpybroker 0.2.0"))
    table = report.markdown([row(), Kept(result(record_bytes=1000), later)])
    assert "Medians of 1 to 5 alternating rounds" in table
    assert "B is kpybroker, version 0.1.0, compiled." in table
    assert "B is kpybroker 0.2.0." in table
    assert "Measured from 2026-11-20 12:00+00:00 to 2026-11-21 09:00+00:00." in table


def test_the_spread_of_rounds_is_half_their_range() -> None:
    assert report.half_range_percent([90.0, 100.0, 120.0]) == pytest.approx(15.0)
    assert report.half_range_percent([0.0, 0.0]) == 0.0


def test_the_json_holds_every_round() -> None:
    written = json.loads(report.raw_json([row()]))
    assert written["rows"][0]["circumstances"]["names"] == list(NAMES)
    assert written["rows"][0]["b"] == [{"throughput": 130.0, "broker CPU": 1.0}]
    assert written["rows"][0]["figures"][0] == {"name": "throughput", "unit": "records/s", "more_is_better": True}


@pytest.mark.parametrize("one", [row(), failed()])
def test_a_row_is_kept_and_read_back_as_it_was(one: Kept, tmp_path: Path) -> None:
    kept.keep(tmp_path, one)
    assert kept.load(tmp_path, one.result.key) == one


def test_a_row_that_is_played_again_replaces_what_was_kept(tmp_path: Path) -> None:
    for rate in (80.0, 130.0):
        kept.keep(tmp_path, row(rate))
    assert kept.load_all(tmp_path, ["produce-100"], NAMES) == [row(130.0)]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"form": 0}', '{"form": 1, "result": {}, "circumstances": {}}'])
def test_a_file_that_is_no_kept_row_is_not_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "produce-100.json").write_text(text)
    assert kept.load(tmp_path, "produce-100") is None
    assert kept.load(tmp_path, "another") is None


def test_rows_are_read_in_the_order_asked_for_and_only_of_the_same_two_sides(tmp_path: Path) -> None:
    for one in (row(), row(record_bytes=1000), failed()):
        kept.keep(tmp_path, one)
    kept.keep(tmp_path, Kept(result(record_bytes=7), AROUND._replace(names=("kpybroker", "kpybroker"))))
    keys = ["produce-1000", "produce-7", "drain", "unplayed", "produce-100"]
    read = kept.load_all(tmp_path, keys, NAMES)
    assert [each.result.key for each in read] == ["produce-1000", "drain", "produce-100"]


def test_the_page_escapes_text_and_draws_bars_and_latencies() -> None:
    drawn = page([row(), failed()])
    assert "<100 B>" not in drawn
    assert "produce &lt;100 B&gt;" in drawn
    assert drawn.count("<rect") == 2
    assert drawn.count("<polyline") == 2
    assert "Throughput by message size" not in drawn


def test_rows_that_differ_in_size_become_a_curve_of_both_sides() -> None:
    rows = [row(record_bytes=1000), row(90.0), failed()]
    (curve,) = curves([each.result for each in rows])
    assert (curve.axis, curve.name, curve.figure) == (BY_SIZE, "produce", RATE)
    assert (curve.a, curve.b) == ([(100, 100.0), (1000, 100.0)], [(100, 90.0), (1000, 130.0)])
    drawn = page(rows)
    assert "Throughput by message size" in drawn
    assert drawn.count("<circle") == 4


def test_places_on_the_paper_are_logarithmic_and_stay_on_it() -> None:
    frame = svg.Frame(200, 100, (1.0, 100.0), (1.0, 100.0))
    left, bottom = frame.place(1, 1)
    right, top = frame.place(100, 100)
    assert frame.place(10, 10) == (pytest.approx((left + right) / 2), pytest.approx((top + bottom) / 2))
    assert frame.place(1e9, 0) == (right, bottom)


def test_an_axis_has_round_values_within_its_ends() -> None:
    assert svg.round_values(3, 60) == [5, 10, 20, 50]
    assert [svg.short(value) for value in (0.5, 100, 20_000, 1.5e6)] == ["0.5", "100", "20 k", "1.5 M"]


def test_a_curve_rises_in_both_directions() -> None:
    points = list(quantile_points(HISTOGRAM))
    assert points == [(0.0, 100.0), (0.9, 200.0), (0.99, 5000.0)]


STEADY = """\
150000 records sent, 500000.0 records/sec (47.68 MB/sec), 10.0 ms avg latency, 100.00 ms max latency, 5 ms 50th, 20 ms \
95th, 30 ms 99th, 40 ms 99.9th.
1000000 steady state records sent, 610000.5 records/sec (58.17 MB/sec), 8.0 ms avg latency, 90.00 ms max latency, 4 ms \
50th, 18 ms 95th, 25 ms 99th, 30 ms 99.9th.
"""


def test_the_rate_of_the_perf_tool_is_the_steady_one() -> None:
    assert steady_rate(STEADY) == 610000.5
    assert steady_rate(STEADY.splitlines()[0]) == 500000.0


def test_a_perf_tool_without_a_summary_is_an_error() -> None:
    with pytest.raises(ClientError, match="no summary"):
        steady_rate("Exception in thread main")


CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
fetch.MB.sec, fetch.nMsg.sec
2026-11-20 19:00:00:000, 2026-11-20 19:00:03:000, 95.3674, 31.7891, 100000, 33333.3333, 1000, 2000, 47.6837, 50000.0000
"""


def test_the_rate_of_the_consumer_tool_is_that_of_fetching() -> None:
    assert fetch_rate(CONSUMED) == 50000.0
    with pytest.raises(ClientError, match="no result"):
        fetch_rate(CONSUMED.splitlines()[0])


def test_the_latency_tool_tells_its_mean() -> None:
    assert mean_latency_ms("Avg latency: 0.4210 ms\nPercentiles: 50th = 0, 99th = 1, 99.9th = 3\n") == 0.421
    with pytest.raises(ClientError, match="no result"):
        mean_latency_ms("it failed")


def test_cpu_and_memory_of_a_process_tree_are_read() -> None:
    before = processes.cpu_seconds(os.getpid())
    total = sum(i * i for i in range(300_000))
    assert total
    assert processes.cpu_seconds(os.getpid()) > before
    assert processes.rss_bytes(os.getpid()) > 1 << 20
    assert processes.tree(os.getpid())[0] == os.getpid()


def test_a_program_name_with_spaces_and_parentheses_does_not_shift_its_fields() -> None:
    assert processes.stat_fields("42 (a (b) c) S 1 2 3") == ["S", "1", "2", "3"]


def test_the_clock_of_a_process_that_is_gone_counts_nothing() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    assert processes.tree(pid) == []
    assert processes.cpu_seconds(pid) == 0.0
