"""The log of state changes that could not be made (Kafka's ``state.change.logger``)."""

import logging

log = logging.getLogger("state.change.logger")


def note(line: str) -> None:
    """Log one line."""
    log.warning("%s", line)
