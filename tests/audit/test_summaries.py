"""The summary of an audit as a file: what comes back from it, and which files are none."""

import json
from typing import Any

import pytest
from log_making import NOW_MS, make_batch, make_marker
from memory_logs import MemoryLogs

from kpybroker.machines.audit import joining, replicas, sources, walk, windows
from kpybroker.machines.audit.findings import BytePlace
from kpybroker.machines.audit.kept import FORMAT, VERSION, BadSummary, Summary, from_json, older_markers, to_json
from kpybroker.machines.audit.stretch import MARKER, SeenMarker, Stretch


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of eight offsets."""
    for module in (joining, replicas, sources, walk, windows):
        monkeypatch.setattr(module, "WINDOW_OFFSETS", 8)
    monkeypatch.setattr(walk, "SHIFT", 3)


def summary(*, deep: bool = False) -> Summary:
    """One replica of three windows with producers, transactions, a gap and segments, and one of a single window."""
    logs = MemoryLogs()
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2}
    replica = logs.add(
        "a",
        make_batch(0, 2, leader_epoch=1, timestamp=NOW_MS),
        make_batch(2, 2, base_sequence=0, transactional=True, **producer),
        make_marker(4, 7, commit=True, producer_epoch=2),
        make_marker(5, 8, commit=False, producer_epoch=1),
        make_batch(7, 3, leader_epoch=2, base_sequence=2, transactional=True, timestamp=NOW_MS + 5, **producer),
        make_batch(10, 9, leader_epoch=2, timestamp=NOW_MS + 9),
        make_marker(19, 8, commit=True, producer_epoch=3),
        topic_id="abc",
    )
    logs.numbers[replica.key] = {0: (5, 1), 10: (7, 1, 9)}
    logs.add("a", make_batch(0, 2), topic="u")
    made = logs.audited(deep=deep).summary
    return made._replace(judged={0: 12, 3: 4})


def as_kept(stretch: Stretch | None) -> Stretch | None:
    """A stretch without what a file does not keep."""
    if stretch is None:
        return None
    runs = {pid: run._replace(first_place=BytePlace()) for pid, run in stretch.runs.items()}
    markers = b"".join(MARKER.pack(*each) for each in older_markers(stretch))
    return stretch._replace(
        runs=runs, markers=markers, gaps=(), breaks=(), heads={}, aborted=(), damaged=(), missing_place=BytePlace()
    )


@pytest.mark.parametrize("deep", [False, True])
def test_a_summary_comes_back_from_its_file(deep: bool) -> None:
    made = summary(deep=deep)
    again = from_json(to_json(made))
    assert (again.deep, again.judged, again.roots()) == (deep, made.judged, made.roots())
    assert set(again.replicas) == set(made.replicas) == {"a/t-0", "a/u-0"}
    for key, kept in made.replicas.items():
        assert again.replicas[key] == kept._replace(whole=as_kept(kept.whole), at_cut=as_kept(kept.at_cut))
    whole, at_cut = again.replicas["a/t-0"].whole, again.replicas["a/t-0"].at_cut
    assert at_cut is not None
    assert (len(whole.windows), len(at_cut.windows)) == (3, 2)
    assert whole.open.keys() == {7}
    assert again.replicas["a/u-0"].at_cut is None


def test_the_last_marker_of_each_producer_is_kept() -> None:
    found = older_markers(summary().replicas["a/t-0"].whole)
    assert found == (SeenMarker(7, 2, True, 4, NOW_MS), SeenMarker(8, 3, True, 19, NOW_MS))


def test_the_file_says_what_it_is() -> None:
    document = json.loads(to_json(summary()))
    assert (document["format"], document["version"], document["deep"]) == (FORMAT, VERSION, False)
    assert document["replicas"]["a/t-0"]["windows_before_cut"] == 2
    assert [len(each) for each in document["replicas"]["a/t-0"]["windows"]] == [6, 6, 6]
    assert " " not in to_json(summary()).replace(FORMAT, "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "another"}, "is no summary of kpybroker audit, or one of another version"),
        ({"version": VERSION + 1}, "is no summary of kpybroker audit, or one of another version"),
        ({"replicas": {"a/t-0": {}}}, "is no summary of kpybroker audit: 'windows'"),
        ({"replicas": 3}, "is no summary of kpybroker audit: "),
        ({"judged": {"x": 1}}, "is no summary of kpybroker audit: "),
    ],
)
def test_another_file_is_refused_in_one_line(change: dict[str, Any], words: str) -> None:
    document = json.loads(to_json(summary())) | change
    with pytest.raises(BadSummary, match=words) as caught:
        from_json(json.dumps(document))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_a_summary_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(BadSummary, match="is no summary of kpybroker audit"):
        from_json(text)


@pytest.mark.parametrize("field", range(1, 6))
def test_a_window_that_was_changed_contradicts_its_root(field: int) -> None:
    document = json.loads(to_json(summary()))
    window = document["replicas"]["a/t-0"]["windows"][1]
    window[field] = window[field] + 1 if field < 5 else "00" * 32
    with pytest.raises(BadSummary, match="was changed: the windows of a/t-0 do not have the root that it names"):
        from_json(json.dumps(document))
