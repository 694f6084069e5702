"""``kpybroker audit`` as a user meets it: lines, exit codes, files, and one clear line for each mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fleet import BROKERS, DATA, Fleet, History

from kpybroker.cli import main
from kpystorage import names
from kpystorage.memory_disk import MemoryDisk


def written(disk: MemoryDisk, source: str, target: Path) -> None:
    """Copy a directory in memory to a real one."""
    target.mkdir()
    for name in disk.list_directory(source):
        status = disk.status(f"{source}/{name}")
        assert status is not None
        if status.is_directory:
            written(disk, f"{source}/{name}", target / name)
        else:
            (target / name).write_bytes(disk.read(f"{source}/{name}"))


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The directories of three brokers."""
    home, fleet = tmp_path_factory.mktemp("fleet"), Fleet(History(5))
    for broker in BROKERS:
        written(fleet.disk, Fleet.path(broker), home / f"broker-{broker}")
    return [home / f"broker-{broker}" for broker in BROKERS]


def audit(*words: object) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, words)])


def flipped(home: Path, target: Path) -> tuple[Path, Path]:
    """A copy of a broker's directory with a flipped bit in a batch, and the file that it is in."""
    subprocess.run(["cp", "-r", str(home), str(target)], check=True)
    path = next(p for p in sorted((target / "orders-0").glob(f"*{names.LOG}")) if p.stat().st_size)
    data = bytearray(path.read_bytes())
    data[70] ^= 4
    path.write_bytes(data)
    return target, path


def test_a_whole_cluster_is_one_line_and_exit_code_0(homes: list[Path]) -> None:
    found = audit(*homes)
    assert found.exit_code == 0, found.output
    assert len(found.stdout.splitlines()) == 1
    assert found.stdout.startswith("6 partitions, 3 replicas, ")
    assert "equal below the high watermark: 6 of 6; " in found.stdout
    assert found.stdout.endswith("; nothing is wrong.\n")


def test_damage_is_a_line_with_place_and_byte_and_exit_code_1(homes: list[Path], tmp_path: Path) -> None:
    broken, path = flipped(homes[0], tmp_path / "broken")
    found = audit(broken, *homes[1:])
    assert found.exit_code == 1
    damage, summary = found.stdout.splitlines()
    text = f"orders-0: broker 1: a batch is damaged: its checksum does not match ({path}, byte 0)"
    assert damage == f"DAMAGE  bytes: {text}"
    assert summary.endswith("1 damage found.")


def test_json_has_the_findings_and_a_root_for_each_replica(homes: list[Path], tmp_path: Path) -> None:
    broken, path = flipped(homes[0], tmp_path / "broken")
    found = json.loads(audit(broken, *homes[1:], "--json").stdout)
    (finding,) = found["findings"]
    assert (finding["claim"], finding["path"], finding["byte"]) == ("bytes", str(path), 0)
    roots = found["roots"]
    assert len(roots) == 18
    assert roots["broker 2/orders-0"] == roots["broker 3/orders-0"] != roots["broker 1/orders-0"]


@pytest.mark.parametrize("name", ["findings.arrow", "findings.parquet"])
def test_findings_are_written_as_an_arrow_table(homes: list[Path], tmp_path: Path, name: str) -> None:
    feather = pytest.importorskip("pyarrow.feather", reason="needs pyarrow, of the extra `audit`")
    parquet = pytest.importorskip("pyarrow.parquet")
    broken, path = flipped(homes[0], tmp_path / "broken")
    assert audit(broken, *homes[1:], "--arrow", tmp_path / name).exit_code == 1
    read = parquet.read_table if name.endswith("parquet") else feather.read_table
    (row,) = read(str(tmp_path / name)).to_pylist()
    assert (row["level"], row["path"], row["byte"], row["offset"]) == ("damage", str(path), 0, 0)


def test_a_summary_is_extended_and_a_table_is_compared(homes: list[Path], tmp_path: Path) -> None:
    history, summary, table = History(5), tmp_path / "summary.json", tmp_path / "table.json"
    ranges = [each._asdict() for each in history.table(DATA[0])]
    table.write_text(json.dumps({"table": "lake.orders", "ranges": ranges}))
    first = audit(*homes, "--summary", summary, "--table", table)
    assert first.exit_code == 0, first.output
    assert "ranges of tables" in first.stdout
    again = audit(*homes, "--since", summary)
    assert again.exit_code == 0, again.output
    assert "0 B of it new" in again.stdout


def test_a_mirror_is_compared(homes: list[Path]) -> None:
    found = audit(homes[0], "--mirror", homes[1])
    assert found.exit_code == 0, found.output
    assert "3 partitions of the mirror" in found.stdout


def test_processes_find_the_same(homes: list[Path]) -> None:
    assert audit(*homes, "--processes", 2).stdout == audit(*homes, "--processes", 1).stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "name log directories, or a cluster with --bootstrap-server"),
        (("HOME", "-b", "x:1"), "name log directories, or a cluster with --bootstrap-server"),
        (("HOME/orders-0",), "is no log directory of a Kafka broker; name "),
        (("HOME/nothing",), "is no directory"),
        (("TMP",), "is no log directory of a Kafka broker"),
        (("HOME", "--all-replicas"), "--all-replicas is for a cluster"),
        (("HOME", "--any-offsets"), "belong to --mirror"),
        (("HOME", "--since", "TMP/none"), "none: No such file or directory"),
        (("HOME", "--since", "HOME/meta.properties"), "meta.properties is no summary of kpybroker audit"),
        (("HOME", "--table", "HOME/meta.properties"), 'meta.properties is not {"table": NAME, "ranges": '),
        (("HOME", "--summary", "TMP/none/summary"), "No such file or directory"),
        (("HOME", "--mirror", "nowhere:x"), "not an address of a broker: 'nowhere:x'"),
        (("-b", "no:port:"), "not an address of a broker"),
        (("HOME", "--topic", "absent"), "there is no topic absent"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    homes: list[Path], tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    found = audit(*(word.replace("HOME", str(homes[0])).replace("TMP", str(tmp_path)) for word in words))
    assert found.exit_code == 2, found.output
    assert text in found.stderr
    assert "Traceback" not in found.output


def test_no_broker_is_exit_code_3() -> None:
    found = audit("-b", "127.0.0.1:1")
    assert found.exit_code == 3
    assert "127.0.0.1:1" in found.stderr


def test_the_audit_needs_neither_spark_nor_arrow(homes: list[Path]) -> None:
    program = (
        "import sys\nfrom kpybroker.cli import main\n"
        f"main(['audit', {str(homes[0])!r}], standalone_mode=False)\n"
        "print([each for each in ('pyspark', 'pyarrow', 'numpy', 'rich') if each in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert run.stdout.splitlines()[-1] == "[]", run.stdout + run.stderr
