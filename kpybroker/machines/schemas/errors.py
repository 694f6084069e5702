"""The errors of schemas; each text is one line for people."""


class SchemaError(Exception):
    """A registry is away, or does not answer as one."""


class Unknown(Exception):
    """A value names no schema that can be used."""


def one_line(error: BaseException) -> str:
    """An exception of a library as one line."""
    text = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
    return text[:400] or type(error).__name__
