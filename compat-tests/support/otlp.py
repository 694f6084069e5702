"""OpenTelemetry's ``MetricsData`` written by hand, for pushes that say exactly what a test wants."""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

GAUGE, SUM, HISTOGRAM = 5, 7, 9
DELTA, CUMULATIVE = 1, 2


class Metric(NamedTuple):
    """One metric; ``points`` are pairs of labels and value: an int is written as an integer, a float as a double."""

    name: str
    points: list[tuple[Mapping[str, str | bool | int], int | float]]
    kind: int = GAUGE
    temporality: int = DELTA
    is_monotonic: bool = True


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def fixed64(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 1) + content


def nested(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def label(name: str, value: str | bool | int) -> bytes:
    match value:
        case bool():
            written = number(2, int(value))
        case int():
            written = number(3, value)
        case _:
            written = nested(1, value.encode())
    return nested(1, name.encode()) + nested(2, written)


def point(labels: Mapping[str, str | bool | int], value: int | float) -> bytes:
    written = fixed64(6, struct.pack("<q", value)) if isinstance(value, int) else fixed64(4, struct.pack("<d", value))
    return fixed64(3, struct.pack("<Q", 1)) + written + b"".join(nested(7, label(*each)) for each in labels.items())


def metric(each: Metric) -> bytes:
    content = b"".join(nested(1, point(*one)) for one in each.points)
    if each.kind == SUM:
        content += number(2, each.temporality) + number(3, int(each.is_monotonic))
    return nested(1, each.name.encode()) + nested(each.kind, content)


def metrics_data(metrics: Iterable[Metric], client: Mapping[str, str] | None = None) -> bytes:
    """The payload of a push. ``client`` are the labels of the client."""
    resource = b"".join(nested(1, label(*each)) for each in (client or {}).items())
    scope = nested(1, nested(1, b"scope")) + b"".join(nested(2, metric(each)) for each in metrics)
    return nested(1, nested(1, resource) + nested(2, scope))
