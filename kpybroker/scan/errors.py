"""The errors of scans; each text is one line for people."""


class ScanError(Exception):
    """A scan cannot be planned or read."""


class OffsetsLost(ScanError):
    """Offsets that were to be read are gone: by retention or DeleteRecords, or the topic was deleted."""
