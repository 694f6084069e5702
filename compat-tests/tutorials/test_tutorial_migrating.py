"""docs/migrating.md is played: a cluster of Apache Kafka moves to kpybroker by a mirror, by the commands of the page.

They differ in the address only: another one of 127.0.0.0/8, so that the ports of the page are free. Kafka's scripts are
small ones of ours, which start Kafka's classes.
"""

import sys
from functools import partial
from operator import eq
from pathlib import Path

import pytest

from support.kafka_scripts import with_scripts
from support.played import BLOCK, DOCS, free_host, nodes_in, printed_by, run

REPEATED = ("kpybroker topics create ", "kpybroker mirror create ", "kpybroker mirror status ", "kpybroker audit ")
"""Commands that a reader repeats until they show what the page shows: a node starts, or the mirror goes on."""
pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on every address of 127.0.0.0/8"),
]


def test_the_page_is_played(target: str, tmp_path: Path) -> None:
    if target != "kpybroker":
        pytest.skip("the page takes both programs")
    address = free_host((9092, 9192, 9094, 9194))
    if address is None:
        pytest.skip("the ports of the page are taken on all addresses")
    page = (DOCS / "migrating.md").read_text().replace("127.0.0.1", address)
    blocks = BLOCK.findall(page)
    assert len(blocks) > 8
    with nodes_in(with_scripts(tmp_path)) as directory:
        for command, shown in blocks:
            look = partial(run, command, address, directory)
            is_repeated = command.startswith(REPEATED)
            printed = printed_by(look, partial(eq, shown), is_repeated=is_repeated)
            assert not shown or printed == shown, f"{command}printed:\n{printed}"
