"""The text of tables: dialects, labels, pieces."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from scraped_node import Scrape

from kpybroker.monitoring.metrics.table import (
    COUNTER,
    GAUGE,
    KAFKA_EXPORTER,
    LINES_PER_PIECE,
    NATIVE,
    Measure,
    MetricRow,
    MetricsWriter,
    Name,
    Table,
    kafka,
    known_by,
)

TOPICS = Table(
    ("topic",), (kafka(GAUGE, "log_size", "Bytes", "a bean", confluent="log_size", native="kpybroker_size"),)
)


def text_of(writer: MetricsWriter, *tables: Table) -> str:
    writer.begin()
    return "".join(piece for table in tables for piece in writer.pieces(table))


def test_a_value_has_the_names_of_the_chosen_dialects_each_once() -> None:
    table = TOPICS.with_rows([MetricRow(("t",), (5,))])
    everything = Scrape(text_of(MetricsWriter(("strimzi", "confluent", "native"), {}), table))
    assert everything.samples == {"log_size": {(("topic", "t"),): 5}, "kpybroker_size": {(("topic", "t"),): 5}}
    assert text_of(MetricsWriter(("kafka_exporter",), {}), table) == ""


def test_a_dialect_may_call_labels_otherwise_and_count_in_other_units() -> None:
    names = {NATIVE: Name("seconds", scale=0.001), KAFKA_EXPORTER: Name("milliseconds", ("who",))}
    table = Table(("name",), (Measure(GAUGE, "Time", names),), [MetricRow(("a",), (1500,))])
    text = text_of(MetricsWriter((NATIVE, KAFKA_EXPORTER), {}), table)
    assert 'seconds{name="a"} 1.5\n' in text
    assert 'milliseconds{who="a"} 1500\n' in text


def test_unknown_values_and_unnamed_measures_are_left_out() -> None:
    table = TOPICS.with_rows([MetricRow(("t",), (None,)), MetricRow(("",), (3,))])
    text = text_of(MetricsWriter(("strimzi",), {}), table)
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["log_size 3"]


def test_a_counter_is_called_one_only_where_its_name_says_so() -> None:
    measure = kafka(COUNTER, "requests_total", "Requests", confluent="requestspersec")
    text = text_of(MetricsWriter(("strimzi", "confluent"), {}), Table((), (measure,), [MetricRow((), (1,))]))
    assert "# TYPE requests_total counter\n" in text
    assert "# TYPE requestspersec untyped\n" in text


@given(st.text(), st.text(min_size=1))
def test_any_text_may_be_a_label(value: str, static: str) -> None:
    table = Table(("client_id",), (known_by(NATIVE, GAUGE, "readers", "Readers"),), [MetricRow((value,), (1,))])
    text = text_of(MetricsWriter((NATIVE,), {"static": static}), table)
    ((sample,),) = [family.samples for family in text_string_to_metric_families(text)]
    assert sample.labels == ({"client_id": value, "static": static} if value else {"static": static})


def test_a_long_table_comes_in_pieces() -> None:
    rows = [MetricRow((f"topic-{number}",), (number,)) for number in range(10 * LINES_PER_PIECE)]
    writer = MetricsWriter(("strimzi",), {})
    pieces = list(writer.pieces(TOPICS.with_rows(rows)))
    assert max(piece.count("\n") for piece in pieces) == LINES_PER_PIECE
    # As many again to write the labels of that many rows.
    assert len(pieces) >= 20
