"""docs/first-move.md is played: a node moves from Apache Kafka and back by the commands of the page.

They differ in the address only: another one of 127.0.0.0/8, so that the ports of the page are free. Kafka's scripts are
small ones of ours, which start Kafka's classes.
"""

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.kafka_scripts import with_scripts
from support.played import BLOCK, DOCS, free_host, nodes_in, printed_by, run

REPEATED = ("grep ", "kpybroker check ", "kpybroker topics create ", "kpybroker groups ")
"""Commands that a reader repeats until they show what the page shows: a node starts or stops meanwhile."""
pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on every address of 127.0.0.0/8"),
]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The directory of Apache Kafka, with the three scripts of the page."""
    with nodes_in(with_scripts(tmp_path)):
        yield tmp_path


def agrees(shown: str, printed: str) -> bool:
    """Whether the texts are the same, but for the size of the files."""
    return len({re.sub(r"\d+ partitions, \S+ KiB", "SIZE", text) for text in (shown, printed)}) == 1


def test_the_page_is_played(target: str, directory: Path) -> None:
    if target != "kpybroker":
        pytest.skip("the page takes both programs")
    address = free_host((9092, 9192))
    if address is None:
        pytest.skip("the ports of the page are taken on all addresses")
    page = (DOCS / "first-move.md").read_text().replace("127.0.0.1", address)
    blocks = BLOCK.findall(page)
    assert len(blocks) > 10
    for command, shown in blocks:
        look = partial(run, command, address, directory)
        is_repeated = command.startswith(REPEATED)
        printed = printed_by(look, partial(agrees, shown), is_repeated=is_repeated)
        assert not shown or agrees(shown, printed), f"{command}printed:\n{printed}"
