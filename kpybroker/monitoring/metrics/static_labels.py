"""Labels that every line of a scrape carries (``kpybroker.metrics.static.labels``).

Dashboards select by labels that a Kubernetes operator or a scrape config adds: ``namespace``, ``strimzi_io_cluster``,
``kubernetes_pod_name``, ``env``. If nothing else adds them, the broker can.
"""

from collections.abc import Sequence

SEPARATOR = "="


def static_labels(entries: Sequence[str]) -> dict[str, str]:
    """The labels of ``name=value`` entries, which the configuration has checked."""
    pairs = (entry.partition(SEPARATOR) for entry in entries)
    return {name.strip(): value.strip() for name, _, value in pairs}
