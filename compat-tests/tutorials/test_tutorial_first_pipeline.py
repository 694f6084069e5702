"""docs/first-pipeline.md is played: its commands and its program run as they stand, and print what the page shows.

They differ in the address only: another one of 127.0.0.0/8, so that the ports of the page are free.
"""

import re
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import spark_formats
from support.played import BLOCK, DOCS, free_host, nodes_in, printed_by, run

PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN = "python pipeline.py\n"
"""The program runs in the session of the other tests: a JVM of its own takes long to start."""
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on every address of 127.0.0.0/8"),
]


def test_the_page_is_played(target: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if target != "kpybroker":
        pytest.skip("the page starts kpybroker")
    if spark_formats.version(spark) < (4, 0):
        pytest.skip("Spark has data sources in Python since 4.0")
    address = free_host((9092, 9404))
    if address is None:
        pytest.skip("the ports of the page are taken on all addresses")
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "first-pipeline.md").read_text().replace("127.0.0.1", address)
    (program,) = PROGRAM.findall(page)
    with nodes_in(tmp_path):
        for command, shown in BLOCK.findall(page):
            if command == RUN:
                exec(compile(program, "pipeline.py", "exec"), {})
                continue
            look = partial(run, command, address, tmp_path)
            assert printed_by(look, shown.__eq__, is_repeated=command.startswith("grep ")) == shown, command
    assert page.count(RUN) == 2
