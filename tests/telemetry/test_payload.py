"""Payloads are read whole or refused, within bounds of memory and time, whatever the bytes."""

import struct
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.telemetry.payload import (
    FIELDS_PER_STEP,
    LONGEST_NAME,
    LONGEST_VALUE,
    MOST_FIELDS,
    MOST_LABELS,
    MOST_POINTS,
    read,
)
from kpybroker.runtime.calls.steps import at_once
from kpywire.errors import Malformed
from support.otlp import CUMULATIVE, DELTA, GAUGE, HISTOGRAM, SUM, Metric, fixed64, metrics_data, nested, number

MEBIBYTE = 1 << 20
LABELS = st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4)
VALUES = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)
METRICS = st.lists(
    st.builds(
        Metric,
        st.text(min_size=1, max_size=12),
        st.lists(st.tuples(LABELS, VALUES), max_size=4),
        st.sampled_from((GAUGE, SUM)),
        st.sampled_from((DELTA, CUMULATIVE)),
        st.booleans(),
    ),
    max_size=4,
)


@given(METRICS, LABELS)
def test_a_clients_telemetry_payload_is_read(metrics: list[Metric], client: dict[str, str]) -> None:
    found = at_once(read(metrics_data(metrics, client)))
    expected = [
        (each.name, tuple(sorted(labels.items())), float(value), each.kind == SUM and each.temporality == DELTA,
         each.kind == SUM and each.is_monotonic)
        for each in metrics
        for labels, value in each.points
    ]  # fmt: skip
    assert [tuple(point) for point in found.points] == expected
    assert found.client == client
    assert found.left_out == 0


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(Malformed):
        at_once(read(content))


@given(METRICS, st.data())
def test_a_payload_that_is_cut_off_is_refused_or_shorter(metrics: list[Metric], data: st.DataObject) -> None:
    content = metrics_data(metrics)
    cut = content[: data.draw(st.integers(1, len(content) - 1))]
    with pytest.raises(Malformed):
        at_once(read(cut))


def test_a_histogram_is_stepped_over() -> None:
    metric = nested(1, b"h") + nested(HISTOGRAM, nested(1, bytes(9)))
    content = nested(1, nested(2, nested(2, metric))) + metrics_data([Metric("a", [({}, 1)])])
    assert [point.name for point in at_once(read(content)).points] == ["a"]


@pytest.mark.parametrize(
    "metric",
    [
        Metric("n" * (LONGEST_NAME + 1), [({}, 1)]),
        Metric("", [({}, 1)]),
        Metric("a", [({"l" * (LONGEST_NAME + 1): "x"}, 1)]),
        Metric("a", [({"l": "x" * (LONGEST_VALUE + 1)}, 1)]),
        Metric("a", [({f"l{number}": "x" for number in range(MOST_LABELS + 1)}, 1)]),
    ],
    ids=["long name", "no name", "long label", "long value", "many labels"],
)
def test_a_point_over_a_bound_is_left_out_and_counted(metric: Metric) -> None:
    found = at_once(read(metrics_data([metric, Metric("b", [({"l": "x" * LONGEST_VALUE}, 1)])])))
    assert [point.name for point in found.points] == ["b"]
    assert found.left_out == 1


def test_points_beyond_the_most_are_left_out_and_counted() -> None:
    found = at_once(read(metrics_data([Metric("a", [({"n": number}, 1) for number in range(MOST_POINTS + 5)])])))
    assert len(found.points) == MOST_POINTS
    assert found.left_out == 5


FIELDS = 16_000
HOSTILE = {
    "empty messages": b"\x0a\x00" * FIELDS,
    "numbers": number(50, 1) * FIELDS,
    "metrics": nested(1, nested(2, nested(2, b"") * FIELDS)),
    "points without a value": nested(1, nested(2, nested(2, nested(1, b"a") + nested(5, nested(1, b"") * FIELDS)))),
    "labels": nested(1, nested(1, b"".join(nested(1, nested(1, b"%d" % each)) for each in range(FIELDS)))),
    "one label again and again": nested(1, nested(1, nested(1, nested(1, b"a")) * FIELDS)),
    "points": metrics_data([Metric("a", [({"n": each}, 1) for each in range(FIELDS // 4)])]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_payload_takes_many_small_steps_and_little_memory(name: str) -> None:
    reader, steps, payload = read(HOSTILE[name]), 0, None
    tracemalloc.start()
    while payload is None:
        try:
            next(reader)
            steps += 1
        except StopIteration as end:
            payload = end.value
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(payload.client) <= MOST_LABELS
    assert len(payload.points) <= MOST_POINTS
    assert steps >= FIELDS // FIELDS_PER_STEP
    assert peak_bytes < MEBIBYTE


def test_a_long_name_is_not_kept() -> None:
    content = nested(1, nested(2, nested(2, nested(1, b"x" * MEBIBYTE) + nested(5, nested(1, bytes(0))))))
    assert at_once(read(content)).points == []


def test_a_payload_of_nothing_but_fields_is_refused() -> None:
    with pytest.raises(Malformed, match="more than"):
        at_once(read(b"\x0a\x00" * (MOST_FIELDS + 1)))


def one_point(labels: bytes) -> bytes:
    value = fixed64(3, bytes(8)) + fixed64(6, bytes(8))
    metric = nested(1, b"a") + nested(GAUGE, nested(1, value + labels))
    return nested(1, nested(2, nested(2, metric)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (nested(1, b"x"), "x"),
        (number(2, 1), "true"),
        (number(2, 0), "false"),
        (number(3, 7), "7"),
        (number(3, -7), "-7"),
        (number(3, -(2**63)), str(-(2**63))),
        (number(3, 2**63 - 1), str(2**63 - 1)),
        (fixed64(4, struct.pack("<d", 1.5)), "1.5"),
        (b"", ""),
    ],
)
def test_a_label_of_any_type_is_text(value: bytes, text: str) -> None:
    other = nested(7, nested(1, b"o") + nested(2, nested(1, b"other")))
    for labels in (
        nested(7, nested(1, b"l") + nested(2, value)) + other,
        other + nested(7, nested(1, b"l") + nested(2, value)),
    ):
        ((point),) = at_once(read(one_point(labels))).points
        assert dict(point.labels) == {"l": text, "o": "other"}


def sum_of(*fields: bytes) -> bytes:
    """A sum of one point, with these fields of its own."""
    point = nested(1, fixed64(6, bytes(8)))
    return nested(1, nested(2, nested(2, nested(1, b"a") + nested(SUM, b"".join(fields) + point))))


@pytest.mark.parametrize(
    ("fields", "is_delta", "is_counter"),
    [
        ([], False, False),
        ([number(2, DELTA)], True, False),
        ([number(2, CUMULATIVE)], False, False),
        ([number(3, 1)], False, True),
        ([number(3, 0)], False, False),
        ([number(3, 1), number(2, DELTA)], True, True),
        ([number(3, 2)], False, True),
    ],
)
def test_a_sum_is_what_its_fields_say_in_any_order(fields: list[bytes], is_delta: bool, is_counter: bool) -> None:
    for content in (sum_of(*fields), sum_of(*reversed(fields))):
        (point,) = at_once(read(content)).points
        assert (point.is_delta, point.is_counter) == (is_delta, is_counter)


def test_the_type_of_one_metric_does_not_affect_the_next() -> None:
    nameless = nested(1, nested(2, nested(2, nested(GAUGE, nested(1, fixed64(6, bytes(8)))))))
    found = at_once(read(sum_of(number(2, DELTA), number(3, 1)) + one_point(b"") + sum_of() + nameless))
    assert [(point.is_delta, point.is_counter) for point in found.points] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    assert found.left_out == 1, "the one without a name"


@pytest.mark.parametrize("content", [nested(1, b"\xff"), nested(1, b"a\xc3")])
def test_a_name_that_is_no_text_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        at_once(read(nested(1, nested(2, nested(2, content)))))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x0a\x05a", "5 bytes where 1 are left"),
        (b"\x0b", "the type 3"),
        (b"\x0c", "the type 4"),
        (b"\x0e", "the type 6"),
        (b"\x09" + bytes(7), "8 bytes where 7 are left"),
        (b"\x0d" + bytes(3), "4 bytes where 3 are left"),
        (b"\xff" * 11, "does not end"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "does not end"),
        (b"\x08\x80", "does not end"),
        (b"\x0a\x80", "does not end"),
    ],
)
def test_a_broken_field_is_refused_in_words(content: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        at_once(read(content))


def test_fields_of_other_types_are_stepped_over_to_the_last_byte() -> None:
    stepped = b"\x09" + bytes(8) + b"\x0d" + bytes(4) + b"\x08" + b"\xff" * 9 + b"\x01"
    assert [point.name for point in at_once(read(stepped + metrics_data([Metric("a", [({}, 1)])]))).points] == ["a"]


def test_the_bounds_of_points_count_over_all_metrics() -> None:
    metrics = [Metric("a", [({"n": number}, 1) for number in range(MOST_POINTS - 1)]), Metric("b", [({}, 1)] * 3)]
    found = at_once(read(metrics_data(metrics)))
    assert (len(found.points), found.points[-1].name, found.left_out) == (MOST_POINTS, "b", 2)


def test_as_many_labels_as_are_kept_may_come_again() -> None:
    labels = {f"l{number}": "x" for number in range(MOST_LABELS)}
    found = at_once(read(metrics_data([Metric("a", [(labels, 1)])], labels)))
    assert (len(found.points), found.left_out) == (1, 0)
    assert found.client == labels
    again = nested(7, nested(1, b"l0") + nested(2, nested(1, b"y")))
    eight = b"".join(nested(7, nested(1, name.encode()) + nested(2, nested(1, b"x"))) for name in labels)
    (point,) = at_once(read(one_point(eight + again))).points
    assert dict(point.labels) == {**labels, "l0": "y"}


def test_a_field_with_the_number_zero_is_refused() -> None:
    with pytest.raises(Malformed):
        at_once(read(b"\x00\x01"))
    with pytest.raises(Malformed):
        at_once(read(one_point(b"\x02\x00")))
