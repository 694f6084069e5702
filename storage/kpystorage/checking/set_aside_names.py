"""Under which name a file waits that mending has replaced: beside the new one, where no broker looks at it."""

import re

_NAME = re.compile(r"(.+)\.set-aside-(\d{8}T\d{6}Z)(\.\d+)?")


def set_aside_name(name: str, stamp: str, number: int = 0) -> str:
    """``stamp`` is a time as ``20261120T224000Z``; ``number`` tells files of one name and time apart."""
    return f"{name}.set-aside-{stamp}" + (f".{number}" if number else "")


def is_set_aside(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
