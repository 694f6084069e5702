"""``kpybroker audit`` of directories whose tiered topics go on in a store: all of it is read, and compared."""

import json
import pickle
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
from kpybroker.machines.audit.stretch import join
from kpybroker.pipeline.audit.tiered import TieredDirectories
from kpybroker.pipeline.tiers.stores import store_of
from kpystorage.remote.indexes import IndexType
from support.raw_requests import offset_at
from support.waiting import eventually
from tiered.filling import alter, create_tiered, fill, fill_transactions


def config_of(directory: Path, store: Store) -> Path:
    """A file with the configs of a store."""
    path = directory / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in store.items()))
    return path


def audited(directory: Path, store: Store | None, *words: str, exit_code: int = 0) -> dict[str, Any]:
    """The result of an audit of topic ``t``."""
    words = ("audit", str(directory / "data"), "--topic", "t", "--json", *words)
    if store is not None:
        words = (*words, "--remote-store", str(config_of(directory, store)))
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
    keep_on_disk(tmp_path, RECORDS - 6)
    return found


def test_copies_of_what_is_on_the_disk_equal_it(tier: Tier, tmp_path: Path) -> None:
    found = audited(tmp_path, tier.store)
    assert lines(found) == []
    assert (found["compared"], found["equal"], found["records"]) == (1, 1, RECORDS)
    assert audited(tmp_path, None)["records"] == 6


def test_replicas_of_several_brokers_share_one_reading_of_the_store(tier: Tier, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "data", tmp_path / "other")
    properties = tmp_path / "other" / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    found = audited(tmp_path, tier.store, str(tmp_path / "other"))
    assert lines(found) == []
    assert (found["most_replicas"], found["compared"], found["equal"], found["records"]) == (2, 1, 1, RECORDS)
    assert found["size_bytes"] < 4 * audited(tmp_path, None)["size_bytes"]


def test_segments_that_leave_the_disk_while_they_are_audited_are_read_from_the_store(
    tier: Tier, tmp_path: Path
) -> None:
    source = TieredDirectories([str(tmp_path / "data")], store_of(tier.store))
    (replica,) = [each for each in source.replicas(("t",)) if not each.is_copy]
    tasks = source.tasks(replica._replace(is_running=True), replica.start, deep=False)
    keep_on_disk(tmp_path, RECORDS - 2)
    outcomes = [pickle.loads(pickle.dumps(source)).read(task) for task in tasks]
    assert [outcome.findings for outcome in outcomes] == [()] * len(tasks)
    whole = join(stretch for outcome in outcomes for stretch in outcome.stretches)
    assert whole is not None
    assert (whole.start, whole.next_offset, whole.records, whole.gaps) == (0, RECORDS, RECORDS, ())


def test_a_later_audit_believes_segments_that_went_into_the_store(tier: Tier, tmp_path: Path) -> None:
    summary = str(tmp_path / "summary.json")
    first = audited(tmp_path, tier.store, "--summary", summary)
    same = audited(tmp_path, tier.store, "--since", summary)
    assert (lines(same), same["read_bytes"], same["records"]) == ([], 0, RECORDS)
    keep_on_disk(tmp_path, RECORDS - 2)
    later = audited(tmp_path, tier.store, "--since", summary)
    assert (lines(later), later["records"]) == ([], RECORDS)
    assert later["roots"]["broker 1/t-0"] == first["roots"]["broker 1/t-0"]


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


@pytest.fixture
def torn(tmp_path: Path) -> Tier:
    """A stopped node that lacks segments between those of the store and those of its disk."""
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as found, found.raw() as raw:
        create_tiered(raw, "t")
        fill(raw, "t", range(SEGMENTS))
        eventually(lambda: offset_at(raw, "t", LATEST_TIERED)[2] == RECORDS - 3, "all but one to be copied")
        alter(raw, "t", remote_copy_lag_ms=str(10**12), remote_copy_lag_bytes=str(10**9))
        fill(raw, "t", range(SEGMENTS, SEGMENTS + 3))
    keep_on_disk(tmp_path, RECORDS + 2)
    return found


def keep_on_disk(directory: Path, first: int) -> None:
    """Delete the segments below an offset from the disk, as local retention does."""
    for each in sorted((directory / "data" / "t-0").glob("0*")):
        if int(each.name.split(".")[0]) < first:
            each.unlink()


def test_a_gap_between_store_and_disk_is_a_loss(torn: Tier, tmp_path: Path) -> None:
    ((level, claim, offset, text),) = lines(audited(tmp_path, torn.store, exit_code=1))
    assert (level, claim, offset) == ("damage", "offsets", RECORDS - 2)
    assert text.startswith("the offsets 10 to 13 are lost")
    found = checked(tmp_path, torn.store, exit_code=1)
    assert [each["text"] for each in found] == ["t-0: the offsets 10 to 13 are neither there nor on a disk"]


def checked(directory: Path, store: Store, exit_code: int = 0) -> list[dict[str, str]]:
    """The findings of ``kpybroker check`` about the store."""
    words = ["check", str(directory / "data"), "--json", "--remote-store", str(config_of(directory, store))]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return [each for each in json.loads(result.output)["findings"] if each["path"].startswith("file:")]


def test_check_compares_objects_with_the_metadata_in_the_directories(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as tier:
        filled(tier)
    assert checked(tmp_path, tier.store) == []
    first, second, third = objects(tmp_path)[:3]
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    third.with_name(third.name.replace(third.stem[-22:], "A" * 22)).write_bytes(b"?")
    found = sorted((each["level"], each["text"]) for each in checked(tmp_path, tier.store, exit_code=1))
    assert [level for level, _ in found] == ["damage", "damage", "note"]
    assert found[0][1].startswith("t-0 offsets 0 to 1 ")
    assert found[0][1].endswith("the store lacks its .log")
    assert "its log has" in found[1][1]
    assert found[2][1].endswith("no segment knows it")


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
