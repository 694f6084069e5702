"""``kpybroker audit`` of directories whose tiered topics go on in a store: all of it is read, and compared."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from tiers import (
    LATEST_TIERED,
    RECORDS,
    SEGMENTS,
    Store,
    Tier,
    compressed,
    encrypted,
    fill_randomly,
    filled,
    local_tiered,
    plain,
    tier_in,
)

from kpybroker.cli import main
from kpybroker.hosts.remote_log.chunked_storage import ChunkedStorage
from kpystorage.remote.indexes import IndexType
from support.raw_requests import offset_at
from support.waiting import eventually
from tiered.filling import create_tiered, fill, fill_transactions


def audited(directory: Path, store: Store | None, *words: str, exit_code: int = 0) -> dict[str, Any]:
    """The result of an audit of topic ``t``."""
    words = ("audit", str(directory / "data"), "--topic", "t", "--json", *words)
    if store is not None:
        path = directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in store.items()))
        words = (*words, "--remote-store", str(path))
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def lines(found: dict[str, Any]) -> list[tuple[str, str, int, str]]:
    return [(each["level"], each["claim"], each["offset"], each["text"]) for each in found["findings"]]


@pytest.fixture(scope="module", params=[plain, compressed, encrypted, local_tiered], ids=lambda form: form.__name__)
def stopped(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Path, Store]:
    """A directory and its store after a node with transactions, of which the store alone has most."""
    form: Callable[[Path], Store] = request.param
    home = tmp_path_factory.mktemp(form.__name__)
    (home / "store").mkdir()
    store = form(home / "store")
    with tier_in(home, store) as tier:
        with tier.raw() as raw:
            create_tiered(raw, "t", only_remote=True)
            fill_randomly(raw, "t", Random(form.__name__), 0, 30)
        end = tier.end("t")
        eventually(lambda: tier.border("t") > end // 2, "most records to be in the store alone")
    return home, store


def test_what_only_the_store_has_is_whole_and_counted(stopped: tuple[Path, Store]) -> None:
    home, store = stopped
    found = audited(home, store)
    assert lines(found) == []
    on_disk = audited(home, None)
    assert found["records"] > on_disk["records"]
    assert found["whole_transactions"] > 0
    assert found["torn_transactions"] == 0


def test_a_disk_that_begins_within_a_transaction_is_whole_without_its_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as tier:
        with tier.raw() as raw:
            create_tiered(raw, "t", only_remote=True)
            fill_transactions(raw, "t", range(2))  # the second is aborted, and ends in the last segment
            end = offset_at(raw, "t", -1)[2]
        tier.until_tiered("t", end - 2)
    found = audited(tmp_path, None)
    assert (lines(found), found["records"]) == ([], 2)
    assert audited(tmp_path, tier.store)["records"] == end


def test_running_brokers_are_audited_with_their_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as tier:
        filled(tier)
        assert lines(audited(tmp_path, tier.store)) == []


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[Tier]:
    """A stopped node with a copy of each segment, of which the disk has the last three as well."""
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as found, found.raw() as raw:
        create_tiered(raw, "t")
        fill(raw, "t", range(SEGMENTS))
        eventually(lambda: offset_at(raw, "t", LATEST_TIERED)[2] == RECORDS - 3, "all but one to be copied")
    for each in sorted((tmp_path / "data" / "t-0").glob("0*")):
        if int(each.name.split(".")[0]) < RECORDS - 6:
            each.unlink()
    return found


def test_copies_of_what_is_on_the_disk_equal_it(tier: Tier, tmp_path: Path) -> None:
    found = audited(tmp_path, tier.store)
    assert lines(found) == []
    assert (found["compared"], found["equal"], found["records"]) == (1, 1, RECORDS)
    assert audited(tmp_path, None)["records"] == 6


def objects(tmp_path: Path, pattern: str = "*.log") -> list[Path]:
    """The objects of the segments, in their order."""
    return sorted((tmp_path / "store").rglob(pattern))


def test_a_damaged_object_is_one_finding_at_its_place(tier: Tier, tmp_path: Path) -> None:
    data = bytearray(objects(tmp_path)[1].read_bytes())
    data[-1] ^= 1
    objects(tmp_path)[1].write_bytes(data)
    found = audited(tmp_path, tier.store, exit_code=1)
    ((level, claim, offset, text),) = lines(found)
    assert (level, claim, offset) == ("damage", "bytes", 2)
    assert "does not have the checksum with which it was written" in text
    assert found["findings"][0]["path"].startswith(f"file://{tmp_path}/store/t-")


def test_objects_that_are_gone_are_one_finding(tier: Tier, tmp_path: Path) -> None:
    for each in tmp_path.glob("store/t-*/0/" + objects(tmp_path)[2].stem + "*"):
        each.unlink()
    ((level, claim, offset, text),) = lines(audited(tmp_path, tier.store, exit_code=1))
    assert (level, claim, offset) == ("damage", "bytes", 4)
    assert "No such file" in text


def test_a_copy_with_another_offset_than_the_disk_is_damage(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, local_tiered(tmp_path / "store")) as tier, tier.raw() as raw:
        create_tiered(raw, "t")
        fill(raw, "t", range(SEGMENTS))
        eventually(lambda: offset_at(raw, "t", LATEST_TIERED)[2] == RECORDS - 3, "all but one to be copied")
    log = next(each for each in objects(tmp_path) if each.read_bytes()[:8] == (2).to_bytes(8, "big"))
    data = bytearray(log.read_bytes())
    data[12:16] = (7).to_bytes(4, "big")  # another epoch, which is the leader's affair
    log.write_bytes(data)
    assert lines(audited(tmp_path, tier.store)) == []
    data[0:8] = (1).to_bytes(8, "big")  # no checksum covers the offset
    log.write_bytes(data)
    found = audited(tmp_path, tier.store, exit_code=1)
    assert ("damage", "offsets", 2, "a batch's base offset is 1 instead of 2") in lines(found)
    assert {each["replica"] for each in found["findings"]} == {"the store"}
    assert (found["compared"], found["equal"]) == (1, 0)


def test_an_index_that_was_copied_wrongly_is_found(tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = ChunkedStorage.index

    def lying(storage: Any, segment: Any, kind: IndexType) -> bytes | None:
        if kind is IndexType.TIMESTAMP and segment.start_offset == 4:
            return (1).to_bytes(8, "big") + (1).to_bytes(4, "big")
        return index(storage, segment, kind)

    monkeypatch.setattr(ChunkedStorage, "index", lying)
    ((level, claim, offset, _),) = lines(audited(tmp_path, tier.store, exit_code=1))
    assert (level, claim, offset) == ("damage", "indexes", 4)


def test_directories_that_know_no_copies_are_a_note(tier: Tier, tmp_path: Path) -> None:
    for each in tmp_path.glob("data/__remote_log_metadata-*"):
        shutil.rmtree(each)
    ((level, claim, offset, text),) = lines(audited(tmp_path, tier.store))
    assert (level, claim, offset) == ("note", "offsets", 0)
    assert text.startswith("the offsets 0 to 5 are not on this disk")


def test_a_store_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\n")
    path = tmp_path / "server.properties"
    path.write_text("rsm.config.chunk.siz=1\n")
    words = ["audit", str(tmp_path / "data"), "--remote-store", str(path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1].startswith("Error: rsm.config.chunk.siz is not a config of the store")
    result = CliRunner().invoke(main, ["audit", "-b", "localhost:1", "--remote-store", str(path)])
    assert result.exit_code == 2
    assert "--remote-store is for directories" in result.output
