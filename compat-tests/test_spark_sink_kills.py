"""The exactly-once sink while the driver, a worker and the broker are killed. The long form is ``make sink-kills``."""

from pathlib import Path

import pyspark
import pytest

from conftest import StartBroker, no_spark
from sink_kills.run import BROKER, DRIVER, WORKER, run
from sink_kills.watcher import faults


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({0: [0, 2], 1: [1, 1, 3]}, "twice: [1]"),
        ({0: [0, 2], 1: [3]}, "lost: [1]"),
        ({0: [0, 2], 1: [1]}, "no whole number"),
        ({0: [2, 0], 1: [1, 3]}, "wrong order"),
    ],
)
def test_rows_that_are_lost_or_twice_or_in_a_wrong_order_are_found(values: dict[int, list[int]], fault: str) -> None:
    assert fault in "\n".join(faults(values, 2))
    assert faults({0: [0, 2], 1: [1, 3]}, 2) == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_what_a_query_wrote_is_its_input_after_kills_of_everything(
    start_broker: StartBroker, pytestconfig: pytest.Config, tmp_path: Path, way: str
) -> None:
    if reason := pytestconfig.stash.get(no_spark, None):
        pytest.skip(reason)
    if int(pyspark.__version__.split(".")[0]) < 4:
        pytest.skip("data sources in Python begin with Spark 4.0")
    verdict = run(start_broker(), tmp_path, (WORKER, BROKER, DRIVER), way=way, seed=1)
    assert verdict.faults == []
    assert verdict.kills.total() == 3
    assert verdict.rows > 0
