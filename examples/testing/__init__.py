"""Tests as users of kpybroker write them, one file per client. Run them: ``pytest examples/testing``."""
