"""Kafka's names as Python writes them."""

import re

_WORD = re.compile(r"(.)([A-Z][a-z]+)")
_CAPITAL = re.compile(r"([a-z0-9])([A-Z])")


def snake_case(name: str) -> str:
    """``MaxWaitMs`` becomes ``max_wait_ms``, ``KRaftVersion`` ``kraft_version``."""
    return _CAPITAL.sub(r"\1_\2", _WORD.sub(r"\1_\2", name.replace("KRaft", "Kraft"))).lower()


def file_stem(name: str) -> str:
    """The module that declares a message. A request and its response share one, and so do a record's key and its
    value."""
    if name not in ("RequestHeader", "ResponseHeader"):
        for ending in ("Request", "Response", "Key", "Value"):
            name = name.removesuffix(ending)
    return snake_case(name)
