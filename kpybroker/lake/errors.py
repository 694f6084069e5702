"""The errors of lake tables; each text is one line for people."""


class LakeError(Exception):
    """The work on a table cannot go on."""


class NotCommitted(LakeError):
    """A commit was refused, or its answer was lost: the table has to be read to know."""


class TableChanged(LakeError):
    """Another writer has moved the table's offsets, or something else about it is not as this writer left it."""


def one_line(error: BaseException) -> str:
    """An exception of a library as one line."""
    text = " ".join(str(error).split())
    return text[:400] or type(error).__name__
