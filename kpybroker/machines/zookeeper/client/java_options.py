"""Options of Java's ZooKeeper client in ``KAFKA_OPTS``, as ``-Dname=value``. Pure."""

import re
from typing import Final

from kpybroker.machines.sasl.jaas_file import java_option

MOST_BYTES_OPTION: Final = "-Djute.maxbuffer="
MOST_BYTES: Final = 0xFFFFF
"""The size of the largest request that a server of ZooKeeper takes, unless ``jute.maxbuffer`` says otherwise there."""

_NUMBER: Final = re.compile(r"0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0(?P<octal>[0-7]+)|(?P<decimal>[1-9][0-9]*)")
_BASES: Final = {"hexadecimal": 16, "octal": 8, "decimal": 10}


def most_request_bytes(kafka_opts: str) -> int:
    """The size of the largest request, as ``-Djute.maxbuffer`` says it. As for Java, 0x and 0 before the digits say
    that they are hexadecimal and octal. Raises ValueError."""
    value = java_option(kafka_opts, MOST_BYTES_OPTION)
    if not value:
        return MOST_BYTES
    found = _NUMBER.fullmatch(value)
    size = int(found[found.lastgroup or ""], _BASES[found.lastgroup or ""]) if found else 0
    if not size:
        raise ValueError(f"{MOST_BYTES_OPTION}{value} in KAFKA_OPTS is not a number of bytes")
    return size
