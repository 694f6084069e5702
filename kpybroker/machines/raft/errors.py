"""The refusals of the quorum, and the error that stops it."""


class NotLeader(Exception):
    """Raised by an append on a node that does not lead."""


class RecordsTooLarge(Exception):
    """Raised by an append whose records do not fit in one batch."""


class CannotUpgrade(Exception):
    """``kraft.version`` cannot be raised; the text is Kafka's."""


class QuorumBroken(Exception):
    """Two nodes led one epoch, or committed records would be cut: this node must not go on."""
