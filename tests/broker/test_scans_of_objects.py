"""Scans that read the store of a tiered node directly: their rows are those of Fetch, and the node does no work."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tiers import (
    LATEST_TIERED,
    RECORDS,
    SEGMENTS,
    Tier,
    compressed,
    encrypted,
    fill_randomly,
    filled,
    local_tiered,
    plain,
    tier_in,
)

from kpybroker.client.client import Spot
from kpybroker.client.epoch_requests import epoch_histories
from kpybroker.hosts.remote_log.metadata_values import read_value
from kpybroker.machines.remote_log.segments import Record
from kpybroker.machines.scan.errors import BadOption, OffsetsLost, ScanError
from kpybroker.machines.scan.options import ScanOptions
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.scan import lent_files
from kpybroker.pipeline.scan.connecting import client_of, transport_of
from kpybroker.pipeline.scan.reading import rows
from kpybroker.pipeline.scan.ways import ScanWays, WayPlanner
from kpybroker.pipeline.tiers import metadata
from support.raw_requests import offset_at
from support.waiting import eventually
from tiered.filling import create_tiered, delete_records, fill, fill_transactions

Row = dict[str, Any]


def planned(options: ScanOptions, *parts: OffsetRange) -> ScanWays:
    with client_of(options) as client:
        return WayPlanner(options).ways(client, parts, {})


def read(options: ScanOptions, part: OffsetRange, ways: ScanWays | None = None) -> list[Row]:
    transport = transport_of(options, planned(options, part) if ways is None else ways.only([part]))
    try:
        return [row for batch in rows(transport, part, options.wanted) for row in batch.to_pylist()]
    finally:
        transport.close()


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[Tier]:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as found:
        yield found


@pytest.mark.parametrize("form", [plain, compressed, encrypted, local_tiered])
def test_rows_of_random_logs_are_those_of_fetch(tmp_path: Path, form: Any) -> None:
    """Also behind a change of the leader's epoch, with aborted transactions, and over the border to the disk."""
    rng = Random(form.__name__)
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, form(tmp_path / "store")) as tier:
        with tier.raw() as raw:
            create_tiered(raw, "t", only_remote=True)
            fill_randomly(raw, "t", rng, 0, 25)
        tier.restart()
        with tier.raw() as raw:
            fill_randomly(raw, "t", rng, 100, 25)
        end = tier.end("t")
        eventually(lambda: tier.border("t") > 2 * end // 3, "most records to be in the store alone")
        with client_of(tier.options("fetch")) as client:
            histories = [epoch_histories(client, {Spot("t", 0): start})[Spot("t", 0)] for start in (0, end - 1)]
        assert histories[0] == tier.epochs("t")
        assert histories[1] == histories[0][-1:]
        assert len(histories[0]) > 1
        cuts = [(0, end), *(sorted(rng.sample(range(end + 1), 2)) for _ in range(12))]
        for committed in (False, True):
            wanted = [read(tier.options("fetch", committed=committed), tier.part("t", *cut)) for cut in cuts]
            for transport in ("objects", "auto"):
                options = tier.options(transport, committed=committed)
                whole = planned(options, *(tier.part("t", *cut) for cut in cuts))
                assert whole.copied is not None
                assert whole.copied.partitions
                found = [read(options, tier.part("t", *cut), whole) for cut in cuts]
                assert found == wanted, (transport, committed)


def offsets(found: list[Row]) -> list[int]:
    return [row["offset"] for row in found]


@pytest.mark.parametrize("transport", ["objects", "auto"])
@pytest.mark.parametrize("committed", [False, True])
def test_a_direct_read_sends_no_fetch_to_the_node(tier: Tier, transport: str, committed: bool) -> None:
    part = filled(tier)
    options = tier.options(transport, committed=committed)
    ways = planned(options, part)
    before = tier.fetches()
    assert offsets(read(options, part, ways)) == list(range(RECORDS - 2))
    assert tier.fetches() == before
    further = part._replace(end_offset=RECORDS)
    assert offsets(read(options, further, ways)) == list(range(RECORDS))
    assert tier.fetches() > before


def test_what_is_copied_and_still_on_the_disk_is_read_as_an_object_where_that_is_wanted(tier: Tier) -> None:
    with tier.raw() as raw:
        create_tiered(raw, "t")
        fill(raw, "t", range(SEGMENTS))
        eventually(
            lambda: offset_at(raw, "t", LATEST_TIERED)[2] == RECORDS - 3, "all but the last segment to be copied"
        )
    part = tier.part("t", 0, RECORDS)
    ways = planned(tier.options("auto"), part)
    assert ways.copied is not None
    assert not ways.copied.partitions
    ways = planned(tier.options("objects"), part)
    assert ways.copied is not None
    assert ways.copied.partitions["t", 0].end_offset == RECORDS - 2


def test_what_is_on_the_disk_is_read_from_lent_files_by_default(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent_files, "WORTH_BYTES", 0)
    part = filled(tier)._replace(end_offset=RECORDS)
    ways = planned(tier.options("auto"), part)
    assert ways.lent is not None
    assert [each.base_offset for each in ways.lent.manifests["t", 0].segments] == [RECORDS - 2]
    before = tier.fetches()
    assert offsets(read(tier.options("auto"), part, ways)) == list(range(RECORDS))
    assert tier.fetches() == before
    ways.end()


def test_a_planner_reads_on_in_the_metadata_of_the_store(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    part = filled(tier)
    planner = WayPlanner(tier.options("objects"))
    seen: list[Any] = []  # the node has metadata of its own

    def noting(value: bytes) -> Record:
        seen.append(read_value(value))
        return seen[-1]

    monkeypatch.setattr(metadata, "read_value", noting)
    with client_of(tier.options("objects")) as client:
        first = planner.ways(client, [part], {})
        before = len(seen)
        with tier.raw() as raw:
            fill(raw, "t", range(SEGMENTS, SEGMENTS + 1))
        tier.until_tiered("t", RECORDS)
        second = planner.ways(client, [part._replace(end_offset=RECORDS)], {})
    assert first.copied is not None
    assert second.copied is not None
    ends = [each.copied.partitions["t", 0].end_offset for each in (first, second) if each.copied]
    assert ends == [RECORDS - 2, RECORDS]
    assert before >= 2 * (SEGMENTS - 1)
    assert len(seen) - before == 2  # the copy began, and ended


def test_the_node_is_asked_once_about_a_transaction_that_ends_on_its_disk(tier: Tier) -> None:
    with tier.raw() as raw:
        create_tiered(raw, "t", only_remote=True)
        fill_transactions(raw, "t", range(2))  # the second is aborted; its last half and its marker are not copied
        border = offset_at(raw, "t", -1)[2] - 2
    tier.until_tiered("t", border)
    part = tier.part("t", 0, border)
    options = tier.options("objects", committed=True)
    ways = planned(options, part)
    before = tier.fetches()
    found = read(options, part, ways)
    assert tier.fetches() == before + 1
    assert [row["value"] for row in found] == [b"0:0", b"0:1"]
    assert found == read(tier.options("fetch", committed=True), part)


def test_damage_to_an_object_is_one_line_and_no_rows(tier: Tier, tmp_path: Path) -> None:
    part = filled(tier)
    log = sorted((tmp_path / "store").rglob("*.log"))[2]
    data = bytearray(log.read_bytes())
    data[-3] ^= 4
    log.write_bytes(data)
    for transport in ("objects", "auto"):
        with pytest.raises(ScanError, match=r"^t-0 \[4, 6\): .*does not have the checksum") as raised:
            read(tier.options(transport), part._replace(start_offset=4, end_offset=6))
        assert "\n" not in str(raised.value)
        assert offsets(read(tier.options(transport), part._replace(start_offset=6))) == list(range(6, RECORDS - 2))


def test_offsets_that_are_deleted_after_the_plan_are_lost_or_left_out_as_with_fetch(tier: Tier, tmp_path: Path) -> None:
    part = filled(tier)
    strict, lenient = tier.options("objects"), tier.options("objects", failOnDataLoss="false")
    ways = planned(strict, part)
    before = len(list((tmp_path / "store").rglob("*.log")))
    with tier.raw() as raw:
        assert delete_records(raw, "t", 5) == (0, 5)
        eventually(lambda: len(list((tmp_path / "store").rglob("*.log"))) == before - 2, "two segments to be deleted")
    with pytest.raises(OffsetsLost, match="offset 0 is gone, the log begins at 5"):
        read(strict, part, ways)
    assert offsets(read(lenient, part, ways)) == list(range(5, RECORDS - 2))


def test_a_store_that_cannot_be_read_leaves_everything_to_fetch_unless_objects_are_demanded(
    tier: Tier, tmp_path: Path
) -> None:
    part = filled(tier)
    away = {"kpybroker.remote.store": (tmp_path / "elsewhere").as_uri()}
    assert offsets(read(tier.options("auto", **away), part)) == list(range(RECORDS - 2))
    with pytest.raises(ScanError, match=r"^t-0 \[0, 10\): .*elsewhere"):
        read(tier.options("objects", **away), part)


def test_wrong_configs_of_the_store_are_refused_by_the_plan(tier: Tier) -> None:
    part = filled(tier)
    for transport in ("auto", "objects"):
        with pytest.raises(BadOption, match=r"rsm.config.chunk.siz is not a config of the store; did you mean"):
            planned(tier.options(transport, **{"rsm.config.chunk.siz": "1"}), part)
    assert offsets(read(tier.options("fetch", **{"rsm.config.chunk.siz": "1"}), part)) == list(range(RECORDS - 2))


def test_segments_under_keys_that_are_not_given_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, encrypted(tmp_path / "store")) as tier:
        part = filled(tier)
        tier.store = plain(tmp_path / "store")
        with pytest.raises(ScanError, match="a segment is encrypted, and no keys are configured"):
            read(tier.options("objects"), part)


def test_a_bucket_is_read_with_the_credentials_of_the_options(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the plan nor the reading shows them."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        s3 = {
            "endpoint.url": f"http://{host}:{port}",
            "region": "us-east-1",
            "path.style.access.enabled": "true",
        }
        keys = {"access.key.id": "an-id-of-a-key", "secret.access.key": "a-secret-that-is-long"}
        store = {
            "kpybroker.remote.store": "s3://tiers/of/mine",
            **{f"rsm.config.storage.s3.{name}": value for name, value in s3.items()},
            **{f"rsm.config.storage.aws.{name}": value for name, value in keys.items()},
        }
        request = Request(f"http://{host}:{port}/tiers", method="PUT")
        urlopen(request).close()
        with tier_in(tmp_path, store) as tier:
            part = filled(tier)
            options = tier.options("objects", committed=True)
            before = tier.fetches()
            ways = planned(options, part)
            planning = tier.fetches() - before
            assert offsets(read(options, part, ways)) == list(range(RECORDS - 2))
            assert tier.fetches() == before + planning
            shown = f"{options!r} {ways!r} {transport_of(options, ways)!r} {caplog.text} {capfd.readouterr()}"
            assert "a-secret" not in shown
            assert "an-id-of-a-key" not in shown
    finally:
        server.stop()
