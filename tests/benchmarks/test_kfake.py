"""kfake as a side: its command line, what it does not play, and, where there is Go, a row."""

import shutil
from pathlib import Path

import pytest

from benchmarks import CHECKOUT
from benchmarks.kfake import side as kfake
from benchmarks.kfake.side import REFUSED, Kfake, KfakeSide
from benchmarks.raw.compiled import CompileError
from benchmarks.rows import SUITES
from benchmarks.rows.requesting import RoundTrip
from benchmarks.rows.row import QUICK


def test_kfake_is_started_with_its_port_and_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kfake, "program", lambda: tmp_path / "kfake")
    broker = Kfake(tmp_path)
    assert broker.command() == [str(tmp_path / "kfake"), str(broker.port), str(tmp_path / "data")]


def test_rows_that_it_cannot_serve_are_refused_by_name(tmp_path: Path) -> None:
    side = KfakeSide("C", tmp_path)
    keys = [row.key for suite in SUITES.values() for row in suite(QUICK)]
    refused = {key for key in keys if side.refuses(key)}
    assert refused == {key for key in keys if key.startswith(tuple(REFUSED))}
    assert all(any(key.startswith(beginning) for key in keys) for beginning in REFUSED)


def test_the_document_names_what_it_refuses() -> None:
    text = (CHECKOUT / "benchmarks" / "README.md").read_text()
    assert all(f"| `{beginning}` | {reason} |" in text for beginning, reason in REFUSED.items())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="no Go (go) on this machine")
def test_a_row_is_played_on_it(tmp_path: Path) -> None:
    try:
        kfake.program()
    except CompileError as problem:
        pytest.skip(f"kfake cannot be built here: {problem}")
    row = RoundTrip(QUICK._replace(load_s=0.2), 1)
    with KfakeSide("C", tmp_path) as side:
        row.open(side)
        assert row.play(side)["p50"] > 0
        row.close(side)
