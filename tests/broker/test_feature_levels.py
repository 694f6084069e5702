"""``kpybroker cluster upgrade`` and ``downgrade``: which levels they ask for, and what a live node says to it."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from running_node import RunningNode

from kpybroker.cli import main
from kpybroker.cli.cluster import wanted_levels

AT_4_3 = {"metadata.version": 30, "share.version": 1, "transaction.version": 2, "kraft.version": 1, "later.version": 0}


def test_a_release_stands_for_the_levels_that_are_higher_or_lower() -> None:
    assert wanted_levels(AT_4_3, "4.4", (), lower=False) == {"metadata.version": 33, "share.version": 2}
    assert wanted_levels(AT_4_3, "4.3", (), lower=False) == {}
    lowered = wanted_levels(AT_4_3, "3.9", (), lower=True)
    assert lowered == {"metadata.version": 21, "share.version": 0, "transaction.version": 0}


def test_single_levels_are_taken_as_they_are() -> None:
    assert wanted_levels(AT_4_3, None, ("later.version=1",), lower=False) == {"later.version": 1}
    taken = {"metadata.version": 31, "share.version": 2}
    assert wanted_levels(AT_4_3, "4.4", ("metadata.version=31",), lower=False) == taken


@pytest.mark.parametrize(
    ("release", "texts", "reported"),
    [(None, (), "name a release"), ("9.9", (), "Unknown metadata.version"), (None, ("a=x",), "Can't parse")],
)
def test_an_invalid_feature_level_is_refused(release: str | None, texts: tuple[str, ...], reported: str) -> None:
    with pytest.raises(click.UsageError, match=reported):
        wanted_levels(AT_4_3, release, texts, lower=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node that was formatted for Kafka 4.3."""
    directory = tmp_path_factory.mktemp("node")
    file = directory / "server.properties"
    file.write_text(f"node.id=1\nlog.dirs={directory / 'data'}\n")
    formatted = CliRunner().invoke(main, ["format", "-c", str(file), "--standalone", "--release-version", "4.3"])
    assert formatted.exit_code == 0, formatted.output
    node = RunningNode({"log.dirs": str(directory / "data"), "node.id": "1"})
    yield f"127.0.0.1:{node.port}"
    node.stop()


def run(server: str, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["cluster", *words, "-b", server])
    assert result.exit_code == code, result.output
    return result.output


def test_a_live_cluster_is_raised_and_not_lowered_where_that_would_lose_metadata(server: str) -> None:
    refused = run(server, "upgrade", "--feature", "metadata.version=99", code=1)
    assert "Invalid update version 99 for feature metadata.version. Local controller 1 only supports" in refused
    assert (
        run(server, "upgrade", "--release-version", "4.4-IV0", "--dry-run")
        == "metadata.version can be 31\nshare.version can be 2\n"
    )
    assert (
        run(server, "upgrade", "--release-version", "4.4-IV0") == "metadata.version is 31 now\nshare.version is 2 now\n"
    )
    assert run(server, "downgrade", "--feature", "metadata.version=30") == "metadata.version is 30 now\n"
    assert run(server, "upgrade", "--release-version", "4.4") == "metadata.version is 33 now\n"
    assert run(server, "upgrade", "--release-version", "4.4") == "All features are at these levels already.\n"
    refused = run(server, "downgrade", "--release-version", "4.3", code=1)
    assert "Unsupported metadata.version downgrade from 33 to 30." in refused
    assert "it might delete metadata information" in refused
    assert run(server, "downgrade", "-f", "share.version=0") == "share.version is 0 now\n"
    assert run(server, "upgrade", "-f", "share.version=1") == "share.version is 1 now\n"
    assert run(server, "upgrade", "-f", "share.version=2") == "share.version is 2 now\n"
    assert run(server, "downgrade", "-f", "share.version=1") == "share.version is 1 now\n"
