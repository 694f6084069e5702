"""Lag has one definition, and whatever shows a lag uses it."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.client.lag import GroupLag
from kpybroker.machines.lag import first_ms, kafkas_lag, lag_in_ms, lag_in_records
from kpywire.batch import CODEC_MASK, DELETE_HORIZON_MASK, TIMESTAMP_TYPE_MASK, parse_header
from kpywire.record import Record, build_batch

ROOT = Path(__file__).parents[2]

OFFSETS = st.integers(0, 1 << 62)
USERS = (
    "kpybroker/monitoring/metrics/lag.py",
    "kpybroker/monitoring/console/answers/kinds.py",
    "kpybroker/monitoring/console/answers/quorum.py",
    "kpybroker/client/lag.py",
    "kpybroker/cli/cluster.py",
    "kpybroker/cli/kafka_tools/cluster.py",
    "kpybroker/cli/kafka_tools/groups.py",
    "kpybroker/machines/scan/admission.py",
    "kpybroker/requests/handlers/describe_log_dirs.py",
    "kpybroker/requests/handlers/describe_share_group_offsets.py",
    "kpybroker/testing/groups.py",
)


@given(OFFSETS, OFFSETS, OFFSETS)
def test_lag_is_what_is_left_up_to_the_end_and_never_below_zero(end: int, position: int, done: int) -> None:
    assert lag_in_records(end, position, done) == max(0, kafkas_lag(end, position, done))
    assert lag_in_records(end, end) == kafkas_lag(end, end) == 0
    assert kafkas_lag(end, position, done) + position + done == end


@pytest.mark.parametrize(
    ("records", "oldest_ms", "late_ms"),
    [
        (0, None, 0), (0, 400, 0), (3, 400, 600), (3, 1_500, 0), (3, 0, 1_000), (3, None, None), (3, -1, None),
        (None, 400, 600),
    ],
)  # fmt: skip
def test_lag_in_time_is_the_age_of_the_oldest_unread_record(
    records: int | None, oldest_ms: int | None, late_ms: int | None
) -> None:
    assert lag_in_ms(records, oldest_ms, 1_000) == late_ms


@pytest.mark.parametrize(
    ("attributes", "time_ms"), [(0, 100), (CODEC_MASK, 100), (TIMESTAMP_TYPE_MASK, 300), (DELETE_HORIZON_MASK, 300)]
)
def test_the_time_of_a_batch_is_its_first_one_or_that_of_the_append(attributes: int, time_ms: int) -> None:
    header = parse_header(build_batch([Record(timestamp=each) for each in (100, 300, 200)]))
    assert first_ms(header._replace(attributes=attributes)) == time_ms


def test_the_lag_of_a_command_is_that_of_the_definition() -> None:
    assert GroupLag(7, 5, None).records == 0
    assert GroupLag(5, 7, 400).records == 2
    assert GroupLag(5, 7, -1).behind_ms(1_000) is None


@pytest.mark.parametrize("path", USERS)
def test_every_place_that_shows_a_lag_uses_the_definition(path: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "kpybroker.machines.lag" in imported
