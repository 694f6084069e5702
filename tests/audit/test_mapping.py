"""The map step over processes: pieces of work in, results out, and no more work after a failure."""

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from kpybroker.pipeline.audit.mapping import in_processes

STARTS = """
import threading
from kpybroker.pipeline.audit.mapping import start_method
alone = start_method()
done = threading.Event()
other = threading.Thread(target=done.wait)
other.start()
together = start_method()
done.set()
other.join()
print(alone, together)
"""


class Piece(NamedTuple):
    number: int
    directory: str

    @property
    def size_bytes(self) -> int:
        return 1


def noted(piece: Piece) -> int:
    """Leave a file, so that other processes see that the piece was worked on; number 0 fails."""
    Path(piece.directory, str(piece.number)).touch()
    if not piece.number:
        raise ValueError("the first one fails")
    time.sleep(0.005)
    return piece.number


def pieces(directory: Path, count: int) -> list[Piece]:
    return [Piece(number, str(directory)) for number in range(count)]


@pytest.mark.parametrize("processes", [1, 2])
def test_all_pieces_are_worked_on_and_counted(tmp_path: Path, processes: int) -> None:
    reached: list[int] = []
    found = in_processes(processes)(noted, pieces(tmp_path, 9)[1:], reached.append)
    assert sorted(found) == list(range(1, 9))
    assert reached == list(range(1, 9))


def test_after_a_failure_no_process_begins_the_pieces_that_wait(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the first one fails"):
        list(in_processes(2)(noted, pieces(tmp_path, 400), lambda _size: None))
    assert len(list(tmp_path.iterdir())) < 100


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of all threads")
def test_processes_are_forked_only_while_no_other_thread_runs() -> None:
    done = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fork", "forkserver"]
