"""The forms of the log: one line per event, even if a name that appears in it contains control characters."""

import json
import logging
from datetime import UTC, datetime

_FORMAT = "%(asctime)s %(levelname)s %(message)s (%(name)s)"
_REORDERING = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that show the text behind them in another order."""
CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *_REORDERING)},
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


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
