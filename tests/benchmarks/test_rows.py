"""The rows: their keys tell them apart, they cover what they should, and plots find their figures."""

import random
import zlib

import pytest

from benchmarks.clients.values import noise, text
from benchmarks.command import selected
from benchmarks.rows import QUICK_ROWS, SUITES, Row
from benchmarks.rows.consuming import Consume
from benchmarks.rows.everywhere import pieces
from benchmarks.rows.producing import Produce
from benchmarks.rows.row import QUICK
from benchmarks.rows.shape import Shape

ROWS: list[Row] = [row for suite in SUITES.values() for row in suite(QUICK)]
BY_KEY = {row.key: row for row in ROWS}


def test_every_row_has_a_key_and_a_title_of_its_own() -> None:
    assert len(BY_KEY) == len(ROWS)
    assert len({row.title for row in ROWS}) == len(ROWS)


def test_the_figures_of_a_row_have_different_names_and_its_points_are_among_them() -> None:
    for row in ROWS:
        names = [figure.name for figure in row.figures]
        assert len(set(names)) == len(names), row.key
        assert {point.figure for point in row.points} <= set(names), row.key


def test_the_short_form_is_a_choice_of_rows_that_exist() -> None:
    assert set(QUICK_ROWS) <= set(BY_KEY)


@pytest.mark.parametrize("kind", [Produce, Consume])
def test_every_client_meets_every_size(kind: type[Produce | Consume]) -> None:
    met = {(row.client, row.shape.record_bytes) for row in ROWS if isinstance(row, kind)}
    assert met >= {(client, size) for client in ("confluent", "java", "python") for size in (100, 1000, 10_000)}


def test_producers_meet_every_value_of_every_dimension() -> None:
    shapes = [row.shape for row in ROWS if isinstance(row, Produce)]
    assert {shape.partitions for shape in shapes} >= {1, 6, 100}
    assert {shape.codec for shape in shapes} >= {"none", "lz4", "zstd"}
    assert {(shape.acks, shape.idempotent) for shape in shapes} >= {("1", False), ("all", False), ("all", True)}


def test_a_key_and_a_title_name_only_what_is_not_usual() -> None:
    usual = Shape()
    odd = Shape(100, 1, "zstd", "all", smallest_bytes=50)
    assert usual.key("produce-x", usual) == "produce-x-1000"
    assert odd.key("produce-x", usual) == "produce-x-50-150-1p-zstd-acks-all"
    assert odd.title("produce, x", usual) == "produce, x, 50-150 B, 1 partition, zstd, acks=all"
    assert Shape(acks="all", idempotent=True).key("produce-x", usual) == "produce-x-1000-idempotent"


def test_rows_are_chosen_by_a_whole_key_or_by_its_beginning() -> None:
    assert [row.key for row in selected(ROWS, "drain, produce-confluent-1000")] == ["produce-confluent-1000", "drain"]
    assert {row.key for row in selected(ROWS, "rebalance")} == {"rebalance-1", "rebalance-20", "rebalance-1000"}
    assert selected(ROWS, "") == ROWS


def test_text_compresses_and_noise_does_not() -> None:
    for made, share in ((noise, 1.0), (text, 0.6)):
        values = made(random.Random(1), [1000] * 50)
        assert {len(value) for value in values} == {1000}
        compressed = len(zlib.compress(b"".join(values))) / 50_000
        assert compressed >= share if made is noise else compressed < share


def test_a_request_names_so_many_partitions_or_one_topic() -> None:
    assert list(pieces(dict.fromkeys("abc", 400))) == [{"a": 400, "b": 400}, {"c": 400}]
    assert list(pieces({"a": 1, "wide": 5000, "b": 1})) == [{"a": 1}, {"wide": 5000}, {"b": 1}]
    assert list(pieces({})) == []
