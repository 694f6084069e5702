"""A table of measurements and its text for Prometheus, with the name of each measure in each dialect.

A `Measure` is one column: its meaning and its names. A `Table` has one row per topic, partition or other thing that its
labels name. The same values can be written under several names, so that existing dashboards find the names they use.

The text is Prometheus' format 0.0.4, which every scraper takes. It is written here and not by prometheus-client,
because it must come in small pieces: ten thousand partitions are a quarter of a million lines, and the loop that
serves clients writes them between their requests.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
UNTYPED: Final = "untyped"

STRIMZI: Final = "strimzi"
CONFLUENT: Final = "confluent"
KAFKA_EXPORTER: Final = "kafka_exporter"
KAFKA_LAG_EXPORTER: Final = "kafka_lag_exporter"
NATIVE: Final = "native"
EVERY: Final = "every"
"""The dialect of a name that is the same in all dialects."""
DIALECTS: Final = (STRIMZI, CONFLUENT, KAFKA_EXPORTER, KAFKA_LAG_EXPORTER, NATIVE)

LINES_PER_PIECE = 500
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Value = int | float | None
"""A value; None where there is none: the line is left out."""


class Name(NamedTuple):
    """The name of a measure in one dialect. ``labels`` are those of its table unless this dialect has other names for
    them."""

    text: str
    labels: tuple[str, ...] | None = None
    scale: float = 1
    """The factor that values are multiplied by."""


class Measure(NamedTuple):
    """A measured quantity. ``source`` is Kafka's MBean or the exporter that it is known from."""

    kind: str
    help: str
    names: Mapping[str, Name]
    source: str = ""


class MetricRow(NamedTuple):
    """The values of the labels, and one value per measure."""

    labels: tuple[str, ...]
    values: Sequence[Value]


class Table:
    """Measures with the same labels, and their rows."""

    __slots__ = ("labels", "measures", "rows")

    def __init__(self, labels: tuple[str, ...], measures: Sequence[Measure], rows: Sequence[MetricRow] = ()) -> None:
        self.labels = labels
        self.measures = measures
        self.rows = rows

    def with_rows(self, rows: Sequence[MetricRow]) -> "Table":
        """The same columns with these rows, which have one value per measure."""
        assert not rows or len(rows[0].values) == len(self.measures)
        return Table(self.labels, self.measures, rows)


def kafka(
    kind: str,
    strimzi: str,
    about: str,
    source: str = "",
    *,
    confluent: str = "",
    confluent_labels: tuple[str, ...] | None = None,
    native: str = "",
) -> Measure:
    """A measure of Kafka's: its name in the Strimzi form, and in Confluent's where that or its labels differ."""
    names = {STRIMZI: Name(strimzi), CONFLUENT: Name(confluent or strimzi, confluent_labels)}
    if native:
        names[NATIVE] = Name(native)
    return Measure(kind, about, names, source)


def known_by(dialect: str, kind: str, name: str, about: str, labels: tuple[str, ...] | None = None) -> Measure:
    """A measure that one dialect knows."""
    return Measure(kind, about, {dialect: Name(name, labels)}, dialect if dialect != NATIVE else "")


class MetricsWriter:
    """Writes tables in the chosen dialects, every line with the static labels."""

    def __init__(self, dialects: Sequence[str], static_labels: Mapping[str, str]) -> None:
        self.dialects = dialects
        self._static = ",".join(f'{name}="{escape(value)}"' for name, value in static_labels.items())
        self._written: set[str] = set()

    def begin(self) -> None:
        """Begin another text."""
        self._written.clear()

    def pieces(self, table: Table) -> Iterator[str]:
        """The text of a table. Nothing is repeated where two dialects, or two tables, have the same name."""
        texts: dict[tuple[str, ...], list[str]] = {}
        for column, measure in enumerate(table.measures):
            for name in names_of(measure, self.dialects):
                if name.text in self._written:
                    continue
                self._written.add(name.text)
                labels = table.labels if name.labels is None else name.labels
                if labels not in texts:
                    texts[labels] = []
                    for piece in _slices(table.rows):
                        texts[labels] += [self._label_text(labels, row.labels) for row in piece]
                        yield ""
                yield f"# HELP {name.text} {measure.help}\n# TYPE {name.text} {_kind(measure, name)}\n"
                yield from _lines(name, texts[labels], table.rows, column)

    def _label_text(self, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
        # A label without a value is the same as none.
        pairs = [f'{name}="{escape(value)}"' for name, value in zip(labels, values, strict=True) if value]
        if self._static:
            pairs.append(self._static)
        return f"{{{','.join(pairs)}}}" if pairs else ""


def names_of(measure: Measure, dialects: Sequence[str]) -> list[Name]:
    """The names of a measure in these dialects."""
    return [measure.names[dialect] for dialect in (*dialects, EVERY) if dialect in measure.names]


def escape(value: str) -> str:
    """A label's value as it stands between quotes."""
    return value.translate(_ESCAPES) if "\\" in value or '"' in value or "\n" in value else value


def _kind(measure: Measure, name: Name) -> str:
    """The type to write. Names of counters have fixed endings; others, such as the ``persec`` names of Confluent's
    rules, are untyped."""
    if measure.kind == COUNTER and not name.text.endswith(("_total", "_count")):
        return UNTYPED
    return measure.kind


def _slices(rows: Sequence[MetricRow]) -> Iterator[Sequence[MetricRow]]:
    for start in range(0, len(rows), LINES_PER_PIECE):
        yield rows[start : start + LINES_PER_PIECE]


def _lines(name: Name, texts: Sequence[str], rows: Sequence[MetricRow], column: int) -> Iterator[str]:
    text, scale = name.text, name.scale
    for start in range(0, len(rows), LINES_PER_PIECE):
        end = start + LINES_PER_PIECE
        pairs = zip(texts[start:end], rows[start:end], strict=True)
        values = [(labels, row.values[column]) for labels, row in pairs]
        if scale != 1:
            values = [(labels, None if value is None else value * scale) for labels, value in values]
        yield "".join([f"{text}{labels} {value}\n" for labels, value in values if value is not None])
