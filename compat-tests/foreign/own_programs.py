"""Programs of our own with clients whose packages carry no tests: pytest files in programs/ and beside this folder."""

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from foreign.suite import HERE, Pytest, PytestSuite

ROOT: Final = HERE.parents[1]
BESIDE: Final = HERE.parent.relative_to(ROOT)


def programs(name: str, files: Collection[str], obtain: Callable[[], Mapping[str, str]] = dict) -> PytestSuite:
    """A suite of files, named from compat-tests on; they run in this environment, with the variables of ``obtain``."""

    def describe(bootstrap_servers: str) -> Pytest:
        return Pytest(
            python=Path(sys.executable),
            root=ROOT,
            tests=[str(BESIDE / file) for file in files],
            environment=obtain(),
            options=["--bootstrap-server", bootstrap_servers],
        )

    return PytestSuite(name, describe, obtain, {"num.partitions": "1"})


AIOKAFKA: Final = programs(
    "aiokafka", [f"foreign/programs/test_aiokafka_{part}.py" for part in ("producer", "consumer", "groups", "admin")]
)
CONFLUENT_KAFKA: Final = programs(
    "confluent-kafka",
    [
        *(f"foreign/programs/test_confluent_{part}.py" for part in ("producer", "groups", "operations")),
        "fetch/test_confluent_consumer.py",
        "admin/test_confluent_admin.py",
    ],
)
TRANSACTIONS: Final = programs("transactions", ["foreign/programs/test_transactions.py"])
