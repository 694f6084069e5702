"""The forms of the log: one line per event, even if a name that appears in it contains control characters."""

import json
import logging
from datetime import UTC, datetime

from kpybroker.cli.control_characters import CONTROL

_FORMAT = "%(asctime)s %(levelname)s %(message)s (%(name)s)"


class LineFormatter(logging.Formatter):
    """Escapes control characters in messages. A traceback, which only defects have, keeps its lines."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return super().formatMessage(record).translate(CONTROL)


class JsonFormatter(logging.Formatter):
    """Makes one JSON object of an event: time (UTC), level, logger, node, message, and a traceback where there is
    one."""

    def __init__(self, node: int | None = None) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event: dict[str, str | int | None] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "node": self._node,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)
