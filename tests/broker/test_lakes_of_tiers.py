"""``kpybroker lake`` with the store of a tiered topic: old records come from there, into the same table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiers import RECORDS, Tier, filled, plain, tier_in

from kpybroker.cli import main
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan.fetching import FetchTransport


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[Tier]:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as found:
        filled(found)
        yield found


def lake(tier: Tier, *words: str, exit_code: int = 0) -> str:
    """The output of a command."""
    result = CliRunner().invoke(main, ["lake", *words, "-b", f"127.0.0.1:{tier.node.port}"])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_a_table_is_written_and_checked_with_fetches_of_what_is_on_the_disk_alone(
    tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    pieces = FetchTransport.pieces

    def noting(self: FetchTransport, part: OffsetRange, wanted: Projection) -> Any:
        fetched.append(str(part))
        return pieces(self, part, wanted)

    monkeypatch.setattr(FetchTransport, "pieces", noting)
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in tier.store.items()))
    table = f"delta:{tmp_path}/table"
    written = lake(tier, "run", "t", table, "--once", "-q", "--remote-store", str(path))
    assert written == f"{RECORDS} rows and 0 dead letters in 1 commit\n"
    assert set(fetched) == {"t-0 [10, 12)"}  # also for the columns of the new table
    assert lake(tier, "check", "t", table, "--remote-store", str(path)).splitlines()[-1].startswith("table = topic")
    assert set(fetched) == {"t-0 [10, 12)"}
    assert lake(tier, "check", "t", table).splitlines()[-1].startswith("table = topic")


def test_a_damaged_object_ends_the_command_with_one_line(tier: Tier, tmp_path: Path) -> None:
    log = sorted((tmp_path / "store").rglob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in tier.store.items()))
    words = ("run", "t", f"delta:{tmp_path}/table", "--once", "-q", "--remote-store", str(path))
    last = lake(tier, *words, exit_code=1).splitlines()[-1]
    assert last.startswith("Error: t-0 [0, 12): ")
    assert "does not have the checksum with which it was written" in last
