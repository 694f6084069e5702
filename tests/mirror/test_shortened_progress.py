"""The log of a mirror's progress stays short: its beginning is deleted, and what was concluded from it stays."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from test_held_transactions import A, B, commit_in_both, ends, known
from two_clusters import TwoClusters

from kpybroker.hosts.mirror import progress_log, shown_parts
from kpybroker.machines.mirror.progress import TOPIC
from support.waiting import eventually
from tests.broker.running_node import RunningNode, start
from tests.mirror.test_mirror_node import create

EVERY = 40


def bounds(node: RunningNode) -> tuple[int, int]:
    """The first offset of the log, and its end."""

    def read() -> tuple[int, int]:
        log = node.node.broker.replicas.find(TOPIC, 0).held().log  # type: ignore[union-attr]
        return log.log_start_offset, log.end.offset

    return node.call(read)


@contextmanager
def mirror_of(source: RunningNode, directory: Path) -> Iterator[TwoClusters]:
    mirror = start(directory / "mirror", **{"kpybroker.mirror.directory": str(directory)})
    try:
        yield TwoClusters(source, mirror, str(directory / "dr.properties"))
    finally:
        mirror.stop()


def commit_until_shortened(clusters: TwoClusters, beyond: int) -> int:
    """Commit until the log begins after an offset. Return its first offset."""

    def is_shorter() -> int:
        commit_in_both(clusters.source, b"whole")
        begins, _ = bounds(clusters.mirror)
        return begins if begins > beyond else 0

    return eventually(is_shorter, "the log's beginning is deleted", within_s=90)


def test_the_log_of_progress_is_shortened_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_log, "REST_EVERY", EVERY)
    monkeypatch.setattr(progress_log, "TIMEOUT_MS", 1_000)
    monkeypatch.setattr(shown_parts, "TIDY_MS", 200)
    with ExitStack() as running:
        source = RunningNode({"log.dirs": str(tmp_path / "source")})
        running.callback(source.stop)
        (tmp_path / "dr.properties").write_text(f"bootstrap.servers=127.0.0.1:{source.port}\n")
        for spot in (A, B):
            create(source, spot.topic)
        with mirror_of(source, tmp_path) as made:
            made.create_mirror("dr:h-*")
            eventually(lambda: len(known(made).places) == 2, "all partitions have a place")
            begins = commit_until_shortened(made, 0)
            places = dict(known(made).places)
        with mirror_of(source, tmp_path) as again:
            eventually(lambda: len(known(again).places) == 2, "the places are known again")
            assert all(known(again).places[place] >= at for place, at in places.items())
            began, ended = bounds(again.mirror)
            assert began >= begins
            commit_until_shortened(again, ended)
            for spot in (A, B):
                there = ends(source, spot)
                eventually(lambda spot=spot, there=there: ends(again.mirror, spot) == there, f"{spot} is shown")
            began, ended = bounds(again.mirror)
            assert ended - began < 10 * EVERY
