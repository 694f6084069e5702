"""The errors of scans; each text is one line for people."""


class ScanError(Exception):
    """A scan cannot be planned or read."""


class BadOption(ScanError):
    """An option of a scan is wrong, or contradicts another one."""


class OffsetsLost(ScanError):
    """Offsets that were to be read are gone: by retention or DeleteRecords, or the topic was deleted.

    ``condition`` is the name of Spark's error condition below KAFKA_DATA_LOSS.
    """

    def __init__(self, condition: str, reason: str) -> None:
        super().__init__(
            f"[KAFKA_DATA_LOSS.{condition}] Some data may have been lost: {reason} To read on without it, set "
            "failOnDataLoss to false."
        )
        self.condition = condition
        self.reason = reason

    def __reduce__(self) -> tuple[type["OffsetsLost"], tuple[str, str]]:
        return OffsetsLost, (self.condition, self.reason)
