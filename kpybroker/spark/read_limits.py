"""The read limits of Spark's streaming sources, which PySpark has since 4.2, and the options that set them before."""

import importlib
from typing import Any, TypeVar

from kpybroker.machines.scan.admission import AdmissionLimits
from kpybroker.machines.scan.options import ScanOptions

Reader = TypeVar("Reader")

try:
    _limits: Any = importlib.import_module("pyspark.sql.streaming.datasource")
except ModuleNotFoundError:  # before Spark 4.2
    _limits = None


def knows_available_now(reader: type[Reader]) -> type[Reader]:
    """Mark a class as one that `prepareForTriggerAvailableNow` may be called of, where Spark asks for that."""
    if _limits is not None:
        _limits.SupportsTriggerAvailableNow.register(reader)
    return reader


def limits_of(options: ScanOptions, limit: Any) -> AdmissionLimits:
    """The limits of a micro-batch. ``limit`` is Spark's, None before 4.2; ReadAllAvailable sets the options aside, as
    the trigger ``once`` wants it."""
    if type(limit).__name__ == "ReadAllAvailable":
        return AdmissionLimits()
    return AdmissionLimits(
        max_offsets=getattr(limit, "max_rows", options.max_offsets),
        max_bytes=getattr(limit, "max_bytes", options.max_bytes),
        min_offsets=getattr(limit, "min_rows", options.min_offsets),
        max_delay_ms=options.max_delay_ms,
    )


def default_limit(options: ScanOptions) -> Any:
    """Spark's limit for the options, of which it can name one; `limits_of` adds the others."""
    if options.max_offsets is not None:
        return _limits.ReadMaxRows(options.max_offsets)
    if options.max_bytes is not None:
        return _limits.ReadMaxBytes(options.max_bytes)
    if options.min_offsets is not None:
        return _limits.ReadMinRows(options.min_offsets)
    return _limits.ReadAllAvailable()
