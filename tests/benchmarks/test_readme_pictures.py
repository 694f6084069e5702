"""The figures that README.md shows of a run: bars to both sides of equal, no hidden loss, one run and not a mixture."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import kept, readme
from benchmarks.figures import Comparison, Figure
from benchmarks.kept import Circumstances, Kept
from benchmarks.match import Result
from benchmarks.plots.beside import DARK, ENDS, LIGHT, Bar, Picture, drawn, place

NAMES = ("apache-kafka", "kpybroker")
VERSIONS = ("Apache Kafka 4.3.1", "kpybroker, version 0.2.0, compiled")
AROUND = Circumstances(
    NAMES, VERSIONS, 2, "2 cores of X, 8.0 GB, Linux 6.1.2-host, Python 3.11.7.", "2026-11-20 12:00+00:00",
    "rounds of 1 s, or of 150 MB", 1.0, "0123456789",
)  # fmt: skip


def picture(*bars: Bar) -> Picture:
    return Picture("title", "subtitle", [("Throughput", bars)], ["<small print>"])


def published(ratio_of: dict[str, float] | None = None) -> readme.Published:
    """All figures at a ratio of 2, but those of these labels."""
    found = {
        choice: Comparison(
            choice.label, Figure(choice.figure, "MB/s", True), (100.0, 100.0), (100 * ratio, 100 * ratio)
        )
        for choice in readme.choices()
        for ratio in [(ratio_of or {}).get(choice.label, 2.0)]
    }
    return readme.Published(found, VERSIONS, "2 cores", "2026-11-20", "0123456789", "medians of 2 rounds", "")


def keep_all(directory: Path, **changes: Circumstances) -> None:
    """A good result of every row; ``changes`` are the circumstances of single rows."""
    for key in readme.ROWS:
        chosen = [choice for choice in readme.choices() if choice.row == key]
        figures = tuple(Figure(choice.figure, "MB/s", True) for choice in chosen)
        rounds = [{choice.figure: 100.0 for choice in chosen}] * 2
        result = Result(key, key, figures, a=rounds, b=rounds, slowness=[1.0, 1.6])
        kept.keep(directory / "rows", Kept(result, changes.get(key, AROUND)))


def test_a_bar_that_is_worse_goes_to_the_left_in_another_colour() -> None:
    better, worse = Bar("b", 2.0, 1.9, 2.1, ""), Bar("w", 0.8, 0.7, 0.9, "")
    svg = drawn(picture(better, worse), LIGHT)
    rects = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="11" rx="2" fill="(#\w+)"', svg)
    (right, left) = [(float(x), float(x) + float(width), colour) for x, width, colour in rects]
    assert right == (place(1), pytest.approx(place(2.0)), LIGHT.better)
    assert left == (place(0.8), pytest.approx(place(1)), LIGHT.worse)
    assert place(0.8) < place(1) < place(2)


def test_a_ratio_beyond_the_axis_ends_in_an_arrow_and_says_how_much_it_is() -> None:
    svg = drawn(picture(Bar("memory", 80.0, 70.0, 90.0, "")), DARK)
    assert place(80.0) == place(ENDS[1])
    assert "l7 5.5l-7 5.5z" in svg
    assert ">80.0</text>" in svg
    assert DARK.paper in svg
    assert "&lt;small print&gt;" in svg


def test_a_figure_that_is_worse_is_in_the_table_though_it_was_not_chosen_for_it() -> None:
    hidden = next(choice for choice in readme.choices() if not choice.in_table)
    row = f"| {hidden.label} | 100 MB/s |"
    assert row not in readme.table(published())
    assert f"{row} 71 MB/s | 0.71 |" in readme.table(published({hidden.label: 0.71}))


def test_the_table_goes_between_its_marks_and_nowhere_else() -> None:
    marks = "<!-- figures: made by `make tables` -->\nold\n<!-- end of figures -->\n"
    text = readme.with_table(f"before\n{marks}after\n", published())
    assert text.startswith("before\n<!-- figures")
    assert text.endswith("<!-- end of figures -->\nafter\n")
    assert "old" not in text
    with pytest.raises(ValueError, match="no place"):
        readme.with_table("nothing", published())


def test_a_run_is_taken_with_its_machine_date_and_commit_and_read_again(tmp_path: Path) -> None:
    keep_all(tmp_path)
    taken = readme.taken(tmp_path)
    assert (taken.machine, taken.dates) == ("2 cores of X, 8.0 GB, Linux 6.1, Python 3.11.7", "2026-11-20")
    assert (taken.commit, taken.versions) == ("0123456789", VERSIONS)
    assert taken.rounds == "Medians of 2 alternating rounds of 1 s, or of 150 MB"
    assert (
        taken.calmness
        == f"{len(readme.ROWS)} of {2 * len(readme.ROWS)} pairs of rounds met a machine that others used."
    )
    assert readme.parsed(json.loads(readme.written(taken))) == taken


def test_figures_of_a_busy_machine_are_taken_only_when_asked_for(tmp_path: Path) -> None:
    keep_all(tmp_path)
    for key in readme.ROWS[:2]:
        row = kept.load(tmp_path / "rows", key)
        assert row is not None
        row.result.slowness = [1.6, 1.6]
        kept.keep(tmp_path / "rows", row)
    with pytest.raises(readme.NotPlayedError, match=r"others used the machine in 22 of 40 pairs .* --busy"):
        readme.taken(tmp_path)
    assert readme.taken(tmp_path, busy=True).calmness.startswith("22 of 40 pairs")


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [(1500, 950, "1.5 s → 950 ms"), (165, 13_100, "165 → 13.1 k MB/s"), (200, 300, "200 → 300 MB/s")],
)
def test_a_bar_names_the_unit_once_where_both_sides_have_it(a: float, b: float, text: str) -> None:
    unit = "ms" if "ms" in text else "MB/s"
    comparison = Comparison("x", Figure("x", unit, True), (a,), (b,))
    assert readme.bar(readme.Choice("x", "x", "x"), comparison).values == text


def test_rows_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    keep_all(tmp_path, drain=AROUND._replace(commit="abcdef0123"))
    with pytest.raises(readme.NotPlayedError, match="differ in commit"):
        readme.taken(tmp_path)


def test_a_row_that_is_missing_or_failed_is_named(tmp_path: Path) -> None:
    keep_all(tmp_path)
    (tmp_path / "rows" / "drain.json").unlink()
    kept.keep(tmp_path / "rows", Kept(Result("spark", "Spark", (), failure="no Java"), AROUND))
    with pytest.raises(readme.NotPlayedError, match="no good result of drain, spark"):
        readme.taken(tmp_path)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1_234_567, "records/s", "1.23 M records/s"),
        (45_300, "records/s", "45.3 k records/s"),
        (5_386, "requests/s", "5390 requests/s"),
        (812.4, "MB/s", "812 MB/s"),
        (0.4712, "s/GB", "0.471 s/GB"),
        (9961, "µs", "9.96 ms"),
        (14_288, "ms", "14.3 s"),
        (195.2, "µs", "195 µs"),
    ],
)
def test_values_have_three_digits_and_times_a_fitting_unit(value: float, unit: str, text: str) -> None:
    assert readme.written_out(readme.readable(value, unit)) == text
