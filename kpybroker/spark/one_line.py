"""Errors for users: one line, without the traceback of the Python process in which Spark runs a data source."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kpybroker.client.bad_property import BadProperty
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan.errors import ScanError

HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""The variable by which PySpark knows whether to show a traceback. The process ends with the error."""
logger = logging.getLogger("kpybroker.spark")


@contextmanager
def one_line() -> Iterator[None]:
    """Let errors that are meant for people end the process of PySpark with their text alone."""
    try:
        yield
    except (BadProperty, KafkaError, ScanError, Unreachable) as error:
        os.environ[HIDE] = "1"
        if isinstance(error, ScanError):
            raise
        raise ScanError(str(error)) from None


def warn(lines: list[str]) -> None:
    """Show warnings on the standard error of Spark."""
    for line in lines:
        logger.warning("kpybroker data source: %s", line)
