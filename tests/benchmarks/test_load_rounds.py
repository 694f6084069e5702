"""Several rounds of load are reported as one."""

from benchmarks.raw.load import Load, together


def test_rounds_together_are_what_one_round_of_all_answers_would_have_seen() -> None:
    quick = Load(90, 1.0, 900, 1.0, 1.0, 1.0, 1.5, [[1.0, 90]])
    slow = Load(10, 2.0, 100, 1.0, 50.0, 50.0, 51.0, [[1.0, 8], [50.0, 2]])
    assert together([quick, slow]) == Load(100, 3.0, 1000, 1.0, 50.0, 50.0, 51.0, [[1.0, 98], [50.0, 2]])
    assert together([quick, quick, quick, slow]).p99_us == 1.0
    assert together([quick]) == quick._replace(max_us=1.5)
