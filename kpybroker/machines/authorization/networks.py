"""Networks in the hosts of ACLs: ``10.0.0.0/8``, ``2001:db8::/32`` (KIP-1276, Kafka's ``CidrUtils``). Pure.

A host with a slash names a network, of IPv6 if it has a colon. All its addresses belong to it, the first and the last
one too, but never 0.0.0.0, as in Kafka. Addresses are read as Java reads them: groups of IPv6 may have more zeros in
front than Python allows, the last two may be an address of IPv4, and IPv4 that is mapped into IPv6 is IPv4.

Invariant: nothing here asks a name server, whatever the text; Kafka might for a text that is no address.
"""

from functools import lru_cache
from typing import Final, NamedTuple

SLASH: Final = "/"
IPV4_BITS: Final = 32
IPV6_BITS: Final = 128
_GROUPS: Final = 8
_MAPPED: Final = 0xFFFF
_OCTETS: Final = 4
_OCTET_DIGITS: Final = 3
_LONGEST_IPV4: Final = 15
_LONGEST_IPV6: Final = 256
_INT_MAX: Final = 2**31 - 1
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class InvalidNetwork(ValueError):
    """The text names no network; the message is Kafka's reason."""


class IpAddress(NamedTuple):
    """An address of IPv4 or IPv6 as a number."""

    bits: int
    number: int


class Network(NamedTuple):
    """The addresses of a kind whose first bits are the same."""

    bits: int
    """The bits of an address: 32 or 128."""
    prefix_bits: int
    prefix: int
    """The first ``prefix_bits`` of all addresses, as a number."""

    def holds(self, address: IpAddress) -> bool:
        """Whether an address belongs to it."""
        return address.bits == self.bits and address.number >> (self.bits - self.prefix_bits) == self.prefix


def is_network(host: str) -> bool:
    """Whether the host of an ACL is to be read as a network, valid or not."""
    return SLASH in host


def parse_network(text: str) -> Network:
    """The network that a text with a slash names. Raises InvalidNetwork in Kafka's words."""
    return _parse_ipv6(text) if ":" in text else _parse_ipv4(text)


@lru_cache(maxsize=1024)
def address_of(host: str) -> IpAddress | None:
    """The address in the text of a client's host; None if it is none that a network can hold."""
    if ":" in host:
        number = _ipv6_number(host.partition("%")[0])
        return None if number is None else IpAddress(IPV6_BITS, number)
    octets = _octets(host.split("."))
    number = 0 if octets is None or any(octet > 255 for octet in octets) else _joined(octets)
    return IpAddress(IPV4_BITS, number) if number else None


def holds(network: str, host: str) -> bool:
    """Whether a client's host belongs to the network that a text names; False if the text names none
    (``CidrUtils.isInRange``)."""
    if not is_network(network):
        return False
    address = address_of(host)
    try:
        return address is not None and parse_network(network).holds(address)
    except InvalidNetwork:
        return False


def _parse_ipv4(text: str) -> Network:
    plain, _, length = text.partition(SLASH)
    octets = _octets(plain.split("."))
    if octets is None or not _is_decimal(length) or len(length) > 2:
        raise InvalidNetwork(f"Could not parse [{text}]")
    for octet in octets:
        _check_range(octet, 255)
    prefix_bits = _check_range(int(length), IPV4_BITS)
    return Network(IPV4_BITS, prefix_bits, _joined(octets) >> (IPV4_BITS - prefix_bits))


def _check_range(value: int, highest: int) -> int:
    if value > highest:
        raise InvalidNetwork(f"Value [{value}] not in range [0,{highest}]")
    return value


def _octets(parts: list[str]) -> list[int] | None:
    """Four numbers of one to three digits; None if they are not."""
    if len(parts) != _OCTETS or not all(_is_decimal(part) and len(part) <= _OCTET_DIGITS for part in parts):
        return None
    return [int(part) for part in parts]


def _joined(octets: list[int]) -> int:
    return octets[0] << 24 | octets[1] << 16 | octets[2] << 8 | octets[3]


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _parse_ipv6(text: str) -> Network:
    plain, slash, length = text.partition(SLASH)
    if not slash:
        raise InvalidNetwork(f"Could not parse [{text}] - missing prefix length")
    digits = length[1:] if length[:1] in ("+", "-") else length
    if not _is_decimal(digits) or len(digits) > _LONGEST_IPV6 or int(digits) > _INT_MAX + (length[0] == "-"):
        raise InvalidNetwork(f"Could not parse [{text}] - invalid prefix length")
    prefix_bits = int(length)
    if not 0 <= prefix_bits <= IPV6_BITS:
        raise InvalidNetwork(f"Could not parse [{text}] - prefix length must be between 0 and {IPV6_BITS}")
    number = _ipv6_number(_without_zone(plain))
    if number is None:
        raise InvalidNetwork(f"Could not parse [{plain}]")
    if number >> IPV4_BITS == _MAPPED:
        raise InvalidNetwork(f"Could not parse [{plain}] - not an IPv6 address")
    return Network(IPV6_BITS, prefix_bits, number >> (IPV6_BITS - prefix_bits))


def _without_zone(text: str) -> str:
    """The address without brackets and without the number of an interface; empty if it has the name of one."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    plain, percent, zone = text.partition("%")
    return plain if not percent or (_is_decimal(zone) and len(zone) < _LONGEST_IPV4 and int(zone) <= _INT_MAX) else ""


def _ipv6_number(text: str) -> int | None:
    """The number of an address of IPv6 in a text without brackets and zone; None if it is none."""
    if len(text) > _LONGEST_IPV6:
        return None
    head, gap, tail = text.partition("::")
    first = _groups(head, may_be_ipv4=not gap)
    last = _groups(tail, may_be_ipv4=True)
    if first is None or last is None:
        return None
    left = _GROUPS - len(first) - len(last)
    if left < bool(gap) or (left and not gap):
        return None
    number = 0
    for group in (*first, *[0] * left, *last):
        number = number << 16 | group
    return number


def _groups(text: str, *, may_be_ipv4: bool) -> list[int] | None:
    """The groups of 16 bits between colons; None if they are not."""
    if not text:
        return []
    groups: list[int] = []
    parts = text.split(":")
    for part in parts[:-1]:
        if not part or not _HEX.issuperset(part) or int(part, 16) > _MAPPED:
            return None
        groups.append(int(part, 16))
    end = parts[-1]
    if "." not in end:
        if not end or not _HEX.issuperset(end) or int(end, 16) > _MAPPED:
            return None
        return [*groups, int(end, 16)]
    octets = end.split(".")
    if not may_be_ipv4 or len(end) > _LONGEST_IPV4 or len(octets) != _OCTETS or not all(map(_is_decimal, octets)):
        return None
    numbers = [int(octet) for octet in octets]
    if any(number > 255 for number in numbers):
        return None
    return [*groups, numbers[0] << 8 | numbers[1], numbers[2] << 8 | numbers[3]]
