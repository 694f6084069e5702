"""docs/one-to-three.md is played: its commands run as they stand, and print what the page shows.

Numbers, ids and the names of the machine and the directory may differ. The commands differ in the address only: another
one of 127.0.0.0/8, so that the ports of the page are free.
"""

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support import played
from support.played import BLOCK, DOCS, free_host, nodes_in, printed_by

PAGE = DOCS / "one-to-three.md"
READS = ("grep ", "kpybroker cluster ", "kpybroker topics describe ")
"""Commands that a reader repeats until they show what the page shows."""
PORTS = [*range(9092, 9095), *range(9192, 9195), *range(9404, 9407)]
HOME = "/srv/three"
"""The directory of the page."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on every address of 127.0.0.0/8"),
]


@pytest.fixture
def address() -> str:
    """A loopback address where nobody listens on the page's ports."""
    chosen = free_host(PORTS)
    if chosen is None:
        pytest.skip("a port of the page is taken on all addresses")
    return chosen


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The reader's empty directory. The nodes that were started there end with the test."""
    with nodes_in(tmp_path):
        yield tmp_path


def masked(text: str) -> list[str]:
    """The lines without what differs each time: ids, numbers, the host's name, and the width of columns."""
    text = re.sub(r"(?<=\s)[\w-]{22}(?=\s)", "ID", text)
    text = re.sub(r"\b(?:leader|voter)\b", "ROLE", text)
    text = re.sub(r"[\d.]+ (?:[KM]iB|B)$", "SIZE", text, flags=re.MULTILINE)
    text = re.sub(r"(ADDRESS\s.*|\d:\d+) .*$", r"\1", text, flags=re.MULTILINE)
    return [" ".join(re.sub(r"-?\d+", "N", line).split()) for line in text.splitlines()]


def run(command: str, address: str, directory: Path) -> str:
    """All that a command prints, with the directory of the page."""
    return played.run(command, address, directory).replace(str(directory), HOME)


def roles(text: str) -> list[str]:
    return sorted(re.findall(r"\b(?:leader|voter|observer)\b", text))


def in_sync(text: str) -> list[int]:
    """The number of replicas in sync of each partition."""
    return [len(each.split(",")) for each in re.findall(r"^ +\d+ +\d+ +\S+ +(\S+)", text, re.MULTILINE)]


def agrees(shown: str, printed: str) -> bool:
    return (masked(shown), roles(shown), in_sync(shown)) == (masked(printed), roles(printed), in_sync(printed))


def test_the_page_is_played(address: str, directory: Path) -> None:
    count = 0
    for command, shown in BLOCK.findall(PAGE.read_text().replace("127.0.0.1", address)):
        look = partial(run, command, address, directory)
        is_repeated = bool(shown) and command.startswith(READS)
        printed = printed_by(look, partial(agrees, shown), is_repeated=is_repeated)
        assert not shown or agrees(shown, printed), f"{command}printed:\n{printed}\nand the page shows:\n{shown}"
        count += 1
    assert count > 12
