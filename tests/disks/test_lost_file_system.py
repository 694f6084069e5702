"""A real broker whose ext4 goes down under it and is mounted again, while the machine runs on.

The kernel gives up what it had not written, sealed segments among it, and nothing of boot, device or names has changed.
"""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from faulty_broker import FaultyBroker, create, produce, values
from small_disk import come_back, go_down, mounted_ext4

from kpywire import error_codes

pytestmark = pytest.mark.slow
DISK_BYTES = 96 << 20
SEGMENT_BYTES = 1 << 20
RECORDS = 60
FEW_CHECKPOINTS = {"replica.high.watermark.checkpoint.interval.ms": "600000"}


# A kernel that was quick enough to write everything by itself leaves nothing to lose; then the round is played again.
@pytest.mark.flaky(reruns=3, only_rerun="nothing was lost")
@pytest.mark.parametrize("ends_first", [False, True])
def test_no_hole_is_served_after_a_file_system_was_down(tmp_path: Path, ends_first: bool) -> None:
    directory = tmp_path / "disk"
    with mounted_ext4(directory, DISK_BYTES) as prefix:
        dirs = {"log.dirs": str(directory / "data"), **FEW_CHECKPOINTS}
        sent = [b"%d." % number + bytes(100_000) for number in range(RECORDS)]
        with FaultyBroker(tmp_path / "first", dirs, prefix) as broker, broker.connect() as client:
            create(client, "lost", directory / "data", segment_bytes=str(SEGMENT_BYTES))
            produce(client, "lost", b"first")
            subprocess.run(
                [*prefix, "sync", "-f", directory], check=True
            )  # what the session before says of the directory is on the disk
            assert {produce(client, "lost", value) for value in sent} == {error_codes.NONE}
            # The names and sizes of files are written with the next fsync of any; their content is not yet.
            subprocess.run([*prefix, "sh", "-c", f"touch {directory}/other && sync {directory}/other"], check=True)
            if ends_first:
                broker.kill()
            go_down(directory, prefix)
            if not ends_first:
                with suppress(OSError):  # it ends for want of a log directory, before or after it has said so
                    assert produce(client, "lost", b"?") == error_codes.KAFKA_STORAGE_ERROR
                broker.kill()
        come_back(directory, prefix)
        names = subprocess.run([*prefix, "ls", directory / "data/lost-0"], check=True, capture_output=True, text=True)
        bases = [int(name.removesuffix(".log")) for name in names.stdout.split() if name.endswith(".log")]
        with FaultyBroker(tmp_path / "second", dirs, prefix) as broker, broker.connect() as client:
            found = values(client, "lost")
            assert found == [b"first", *sent][: len(found)], "the beginning, without a hole"
            assert produce(client, "lost", b"on") == error_codes.NONE
            assert values(client, "lost") == [*found, b"on"]
            log_text = broker.log_text()
            # Completed segments are flushed one after the other; how far that had come is left to the disk.
            has_hole = max(bases) > len(found)
            assert (f"lost-0: records from offset {len(found)} up to" in log_text) == has_hole
            assert (f"which were never flushed; it ends at {len(found)} now" in log_text) == has_hole
            assert "Traceback" not in log_text
            assert len(found) <= len(sent), "nothing was lost"
