"""The metrics of any Python process, under the names that every Prometheus client uses.

prometheus-client reads them. That takes system calls, and its import a tenth of a second, so both happen in a thread.
"""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric

from kpybroker.monitoring.metrics.table import EVERY, Measure, MetricRow, Name, Table


class ProcessTables:
    """The process' own metrics: CPU, memory, descriptors, garbage collections, and which Python it is."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def tables(self) -> Sequence[Table]:
        """The tables. Called in a thread."""
        return [_table(metric) for metric in self._registry.collect()]


def _table(metric: Metric) -> Table:
    """One of the library's metrics. It has the same name in every dialect."""
    samples = metric.samples
    labels = tuple(samples[0].labels) if samples else ()
    name = samples[0].name if samples else metric.name
    measure = Measure(metric.type, metric.documentation, {EVERY: Name(name)})
    return Table(labels, (measure,), [MetricRow(tuple(sample.labels.values()), (sample.value,)) for sample in samples])
