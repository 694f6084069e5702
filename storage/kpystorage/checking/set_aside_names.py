"""The names of files that mending has replaced: each lies beside the new file, where no broker looks at it."""

import re

_NAME = re.compile(r"(.+)\.set-aside-(\d{8}T\d{6}Z)(\.\d+)?")


def set_aside_name(name: str, stamp: str, number: int = 0) -> str:
    """The name of a file that is set aside. ``stamp`` is a time such as ``20261120T224000Z``; ``number`` distinguishes
    files of the same name and time."""
    return f"{name}.set-aside-{stamp}" + (f".{number}" if number else "")


def is_set_aside(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
