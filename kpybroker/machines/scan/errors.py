"""The errors of scans; each text is one line for people."""


class ScanError(Exception):
    """A scan cannot be planned or read."""


class BadOption(ScanError):
    """An option of a scan is wrong, or contradicts another one."""


class UnknownTopic(ScanError):
    """A topic does not exist, or no broker that was asked knows it yet."""


class NotLentYet(ScanError):
    """A broker that may lend its files later does not do so now: it is away, or has no leader's log yet."""


class LeaseOver(ScanError):
    """Lent files are not there any more: the lease is over, or the volume is another one."""


class OffsetsLost(ScanError):
    """Offsets that were to be read are gone: by retention or DeleteRecords, or the topic was deleted.

    ``condition`` is the name of Spark's error condition below KAFKA_DATA_LOSS.
    """

    def __init__(self, reason: str, condition: str = "COULD_NOT_READ_OFFSET_RANGE") -> None:
        super().__init__(
            f"[KAFKA_DATA_LOSS.{condition}] Some data may have been lost: {reason.removesuffix('.')}. To read on "
            "without it, set failOnDataLoss to false."
        )
        self.reason = reason
        self.condition = condition

    def __reduce__(self) -> tuple[type["OffsetsLost"], tuple[str, str]]:
        return OffsetsLost, (self.reason, self.condition)
