"""Topics as lake tables, exactly once and without Spark: ``kpybroker lake``.

``planning`` and ``coverage`` decide which offsets the next commit covers, and know no file or clock. ``values`` turns
records into columns, ``tables`` is the seam to Delta and Iceberg, ``writing`` puts them together, and ``checking``
compares a table with its topic.

Invariant: the offsets that a table covers are part of the table's own commit, so a row is in the table once or not yet.
"""
