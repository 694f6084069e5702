"""What comes out of a run: the table, the page, the raw rounds; and what goes in from tools and ``/proc``."""

import json
import os

import pytest

from benchmarks import processes, report
from benchmarks.clients.running import ClientError, steady_rate
from benchmarks.figures import Figure
from benchmarks.match import Result
from benchmarks.page import page, quantile_points

NAMES = ("apache-kafka", "kpybroker")
VERSIONS = ("Apache Kafka 4.3.1", "kpybroker, version 0.1.0, compiled")
RATE = Figure("throughput", "records/s", True)
CPU = Figure("broker CPU", "s/GB", False)
HISTOGRAM = [[100.0, 900.0], [200.0, 90.0], [5000.0, 10.0]]


def result(b_rate: float = 130.0) -> Result:
    return Result(
        "produce",
        "produce <100 B>",
        (RATE, CPU),
        a=[{"throughput": 100.0, "broker CPU": 2.0}],
        b=[{"throughput": b_rate, "broker CPU": 1.0}],
        histogram_a=HISTOGRAM,
        histogram_b=HISTOGRAM,
    )


def test_the_table_holds_both_sides_and_the_ratio_of_each_figure() -> None:
    table = report.markdown([result()], NAMES, VERSIONS, 1)
    assert "| produce <100 B> | throughput, records/s | 100.0 ±0 % | 130.0 ±0 % | **1.30** | 1.30-1.30 | aim |" in table
    assert "| broker CPU, s/GB | 2.000 ±0 % | 1.000 ±0 % | **2.00** |" in table
    assert "Every row reaches the required ratio." in table
    assert "A is Apache Kafka 4.3.1; B is kpybroker, version 0.1.0, compiled." in table


def test_a_row_below_the_required_ratio_is_named() -> None:
    rows = [result(b_rate=80.0)]
    assert report.missed(rows)
    assert "- MISS 0.80: produce <100 B>, throughput" in report.markdown(rows, NAMES, VERSIONS, 1)


def test_a_row_that_failed_is_named_with_its_reason_and_counts_as_missed() -> None:
    failed = Result("drain", "drain", (RATE,), a=[{"throughput": 1.0}], failure="the broker closed the connection")
    assert report.missed([failed])
    assert "- FAILED: drain: the broker closed the connection" in report.markdown([failed], NAMES, VERSIONS, 1)


def test_the_spread_of_rounds_is_half_their_range() -> None:
    assert report.half_range_percent([90.0, 100.0, 120.0]) == pytest.approx(15.0)
    assert report.half_range_percent([0.0, 0.0]) == 0.0


def test_the_json_holds_every_round() -> None:
    written = json.loads(report.raw_json([result()], NAMES, VERSIONS, 1))
    assert (written["a"], written["b"]) == NAMES
    assert written["rows"][0]["b"] == [{"throughput": 130.0, "broker CPU": 1.0}]
    assert written["rows"][0]["figures"][0] == {"name": "throughput", "unit": "records/s", "more_is_better": True}


def test_the_page_escapes_text_and_draws_bars_and_curves() -> None:
    drawn = page([result()], NAMES, "the <table>")
    assert "<100 B>" not in drawn
    assert "the &lt;table&gt;" in drawn
    assert drawn.count("<rect") == 2
    assert drawn.count("<polyline") == 2


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
